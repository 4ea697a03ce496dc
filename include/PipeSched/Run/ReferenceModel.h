//===- ReferenceModel.h - Runs the unpipelined model ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the unpipelined model in this process, on one thread, without a
// schedule. Each function of its stages is compiled once, even if several
// stages use it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_REFERENCEMODEL_H
#define PIPESCHED_RUN_REFERENCEMODEL_H

#include "PipeSched/Conversion/Passes.h"
#include "PipeSched/Run/Native.h"
#include "PipeSched/Run/State.h"
#include "PipeSched/Stages/Reference.h"

namespace pipesched::run {

class ReferenceModel {
public:
  /// Compiles the model of `owner`, a verified schedule or program with
  /// functions, without changing its module. Without `steps` only init can run,
  /// which takes less time to compile. Errors are emitted.
  static mlir::FailureOr<ReferenceModel>
  compile(pipe::PlacementOwnerOpInterface owner, bool steps, bool updates,
          llvm::ArrayRef<ExternLibrary> libraries = {});

  const PersistentLayout &getLayout() const { return layout; }
  /// Runs the init functions of all stages that have one. `block` must have the
  /// layout of getLayout(). Fails if a check in a function fails, for example
  /// of an index; the contents of the block are then undefined.
  llvm::Error init(Memory &block) const;
  /// Runs a step, if steps were compiled: updates the parameters and states of
  /// `block`. Fails like init.
  llvm::Error run(Memory &block, int64_t step) const;

private:
  using Entry = void(const int64_t *table);
  class Caller;

  ReferenceModel(StageFunctions functions, int64_t numMicrobatches,
                 bool updates, LoadedObject code)
      : functions(std::move(functions)), numMicrobatches(numMicrobatches),
        updates(updates),
        layout(layOutReference(this->functions, numMicrobatches)),
        code(std::move(code)) {}

  StageFunctions functions;
  int64_t numMicrobatches;
  bool updates;
  PersistentLayout layout;
  LoadedObject code;
  llvm::DenseMap<mlir::Operation *, Entry *> calls; ///< by function
  llvm::DenseMap<mlir::Type, Entry *> sums;         ///< by type of the tensors
};

} // namespace pipesched::run

#endif // PIPESCHED_RUN_REFERENCEMODEL_H
