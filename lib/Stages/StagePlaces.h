//===- StagePlaces.h - The stage and phase of each op -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads pipe.stage and pipe.phase of the ops of a function, and derives them
// for the ops that have neither.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_STAGEPLACES_H
#define PIPESCHED_LIB_STAGES_STAGEPLACES_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include <set>

namespace pipesched {

/// A function of a stage. The loss belongs to the last stage.
struct Place {
  int64_t stage;
  pipe::StageFunctionKind kind;

  bool operator==(const Place &other) const {
    return stage == other.stage && kind == other.kind;
  }
  bool operator<(const Place &other) const {
    return std::tie(stage, kind) < std::tie(other.stage, other.kind);
  }
  /// Whether it is a part of the backward of its stage.
  bool isBackward() const;
};

/// "forward of stage 2", or "the loss".
std::string describe(Place place);

/// A role and its name, empty if the role has no names.
struct NamedRole {
  pipe::StageRole role;
  std::string name;
};

/// "pipe.param" or "pipe.param \"w\"".
std::string describe(const NamedRole &role);

/// The values that an op reads, including the values that its regions read.
llvm::SmallVector<mlir::Value> valuesReadBy(mlir::Operation *op);

/// The places of the ops of a function.
class StagePlaces {
public:
  /// Errors are emitted at the function or the op: a function without a body or
  /// with several blocks; an argument or result without a role; one of the two
  /// attributes without the other; a stage without ops; an op whose place
  /// cannot be derived.
  static mlir::FailureOr<StagePlaces> read(mlir::func::FuncOp function);

  int64_t getNumStages() const { return numStages; }
  mlir::Block &getBody() const { return function->getRegion(0).front(); }

  /// Nothing for ops that no result needs and for ops that are repeated.
  std::optional<Place> of(mlir::Operation *op) const;

  /// Whether each function that reads the results of an op has its own copy.
  /// This holds for ops that depend only on constants, and for ops without
  /// attributes that depend only on constants, parameters and numbers.
  bool isRepeated(mlir::Operation *op) const { return repeated.contains(op); }

  /// The role of an argument or result of the function.
  const NamedRole &ofArgument(mlir::Value argument) const {
    return arguments[mlir::cast<mlir::BlockArgument>(argument).getArgNumber()];
  }
  llvm::ArrayRef<NamedRole> getResults() const { return results; }

  /// The function that returns a result of the whole function. Nothing for a
  /// gradient or state of a parameter that no stage reads.
  std::optional<Place> ofResult(unsigned index) const;

  /// Divides the backwards; `needed` has the ops that become input_gradient.
  void splitBackward(const llvm::DenseSet<mlir::Operation *> &needed);

private:
  mlir::LogicalResult readSignature();
  mlir::LogicalResult readAttributes();
  void findRepeated();
  void derive();
  std::optional<Place> deriveFromUsers(mlir::Operation *op) const;
  mlir::LogicalResult verifyAllKnown() const;
  void findStagesOfArguments();
  bool isEarlier(Place left, Place right) const;

  mlir::func::FuncOp function;
  int64_t numStages = 0;
  std::set<int64_t> splitStages; ///< stages without a whole backward
  llvm::SmallVector<NamedRole> arguments, results;
  llvm::DenseMap<mlir::Operation *, Place> places;
  llvm::DenseSet<mlir::Operation *> repeated;
  /// The first stage that reads each argument, or -1.
  llvm::SmallVector<int64_t> stages;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_STAGEPLACES_H
