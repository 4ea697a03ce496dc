//===- StageFunctions.h - Functions of stages -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions that the clauses of a schedule or program name, as signatures:
// each argument and result is a parameter, activation, gradient or similar.
// Costs, buffers and lowering use functions of stages through this interface
// (docs/Stages.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_STAGEFUNCTIONS_H
#define PIPESCHED_STAGES_STAGEFUNCTIONS_H

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace pipesched {

/// An argument or result of a function of a stage.
struct RoleValue {
  pipe::StageRole role;
  /// The name if isNamedRole holds for the role, else empty. If the attribute
  /// states no name, it is the position among the arguments (or results) with
  /// the role, counted from "0".
  std::string name;
  /// A ranked tensor of static shape; i64 for Microbatch, Slice and Step.
  mlir::Type type;
  /// The shared name of tied parameters of several stages.
  std::string tied;

  mlir::RankedTensorType getTensorType() const {
    return llvm::cast<mlir::RankedTensorType>(type);
  }
};

/// A function with the roles of its arguments and results, in order.
struct StageFunction {
  pipe::StageFunctionKind kind;
  mlir::func::FuncOp op;
  llvm::SmallVector<RoleValue> arguments, results;

  /// Returns the first argument with this role and name, or null.
  const RoleValue *findArgument(pipe::StageRole role,
                                llvm::StringRef name = "") const;
  const RoleValue *findResult(pipe::StageRole role,
                              llvm::StringRef name = "") const;
};

struct NamedTensor {
  std::string name;
  mlir::RankedTensorType type;
  std::string tied; ///< as in RoleValue
};

/// The functions of one stage and the tensors that they share.
struct Stage {
  int64_t number = 0;
  pipe::StageOp op;
  std::optional<StageFunction>
      functions[kNumEnumValues<pipe::StageFunctionKind>];

  /// All parameters, in the order of first use: first by forward, then by the
  /// other functions. The other lists have the same order. Gradients have the
  /// names of their parameters.
  llvm::SmallVector<NamedTensor> params, gradients, states, residuals;
  /// Tensors that the slices of a microbatch pass on, by the names of
  /// residuals: `earlier` has the residuals of all slices with shape slices x
  /// their shape, `earlierGradients` their gradients.
  llvm::SmallVector<NamedTensor> earlier, earlierGradients;
  mlir::RankedTensorType input, output;
  /// Null if no function of the stage has such a tensor.
  mlir::RankedTensorType outputGradient, inputGradient;

  const StageFunction *get(pipe::StageFunctionKind kind) const {
    const auto &function = functions[static_cast<unsigned>(kind)];
    return function ? &*function : nullptr;
  }
};

/// Parameters of several stages that are one parameter. Each stage has its own
/// copy; the gradients of all copies are summed before their first update.
struct Tie {
  std::string name;
  /// The stages in ascending order, each with an index into its gradients. A
  /// stage occurs more than once if it has several such parameters.
  llvm::SmallVector<std::pair<int64_t, unsigned>> gradients;

  bool has(int64_t stage) const {
    return llvm::any_of(gradients,
                        [&](const auto &at) { return at.first == stage; });
  }
};

/// All functions of a pipeline.
struct StageFunctions {
  int64_t numSlices = 1;     ///< of a microbatch; functions run once per slice
  std::vector<Stage> stages; ///< by stage number
  std::optional<StageFunction> data, target, loss;
  std::vector<Tie> ties; ///< in the order in which the stages name them

  /// For a vocabulary that is sharded over workers (arXiv 2411.05288): the
  /// stages that have a shard of the logits, in ascending order. `shards[i]`
  /// has shard i.
  std::vector<int64_t> shards;
  /// Tensors that a shard sends to all shards, by the names of pipe.partial,
  /// with shape shards x their shape.
  llvm::SmallVector<NamedTensor> partials;
  /// The gradient of the last output from the shards, which is summed over
  /// shards; null if they return none.
  mlir::RankedTensorType lastOutputGradient;

  /// The number of a stage's shard.
  std::optional<int64_t> shardOf(int64_t stage) const {
    auto found = llvm::find(shards, stage);
    if (found == shards.end())
      return std::nullopt;
    return found - shards.begin();
  }
};

/// The limit on the bytes of one tensor, and of the tensors of all stages
/// together. Sums of two such numbers and their alignment fit int64.
inline constexpr int64_t kMaxStageBytes = int64_t(1) << 60;

/// Whether a schedule or program names any functions of stages.
bool hasStageFunctions(pipe::PlacementOwnerOpInterface owner);

/// Reads and verifies the functions that `owner` names. Errors are emitted at
/// the clause or the function, with notes at the op that it contradicts.
/// Clauses: a stage of a path without a clause, or a clause of a stage that
/// does not exist; paths that split the model differently. Functions: a
/// function without a body, that may write memory or that calls itself; an
/// argument or result without a role, with two roles, or with a role that its
/// kind of function does not have; a missing output, loss or gradient. Types:
/// not a static tensor (i64 for microbatch, slice and step); elements of other
/// than 8, 16, 32 or 64 bits; tensors of more than kMaxStageBytes, each or
/// together; different types of a tensor in two functions. Flow: a stage whose
/// input is not the output of the previous stage, forward or backward; a
/// residual that no earlier phase returns; a pipe.earlier that is not slices x
/// a residual of forward, or whose gradient the backward does not return; tied
/// parameters of different types, or of which some have no gradient or no
/// update.
mlir::FailureOr<StageFunctions>
loadStageFunctions(pipe::PlacementOwnerOpInterface owner);

/// Verifies that there are functions for all cells: I and W need separate
/// functions, B one or both of these, O an update, and a stage after another
/// one the gradient of its input. `phases` has the phases that run, by stage,
/// as a bit set over Phase. Errors are emitted at the stage.
mlir::LogicalResult verifyPhasesHaveFunctions(const StageFunctions &functions,
                                              llvm::ArrayRef<PhaseSet> phases);

} // namespace pipesched

#endif // PIPESCHED_STAGES_STAGEFUNCTIONS_H
