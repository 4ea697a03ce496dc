//===- Reference.h - The unpipelined model ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a step of the model without pipeline, workers or messages, with the same
// functions. Runs of schedules are compared with it, so it shares neither
// buffers nor kernels with them: each call makes new tensors.
//
//   for microbatch 0 .. N - 1:
//     data; forward of stage 0, 1, ...; target; loss; backward of stage ..., 0
//   update of stage 0, 1, ...
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_REFERENCE_H
#define PIPESCHED_STAGES_REFERENCE_H

#include "PipeSched/Stages/PersistentLayout.h"
#include <memory>

namespace pipesched {

/// Lays out one block with all tensors of a model, as for a worker that holds
/// every stage.
PersistentLayout layOutReference(const StageFunctions &functions,
                                 int64_t numMicrobatches);

/// The bytes of a tensor, which do not change. Null: no tensor.
using ReferenceTensor = std::shared_ptr<char>;

/// Returns a tensor of zeros that starts at a multiple of kSlotAlignment.
ReferenceTensor makeReferenceZeros(mlir::RankedTensorType type);

/// An argument of a function: a tensor, or a number.
struct ReferenceArgument {
  ReferenceTensor tensor;
  int64_t number = 0;
};

/// Runs the functions.
class ReferenceCaller {
public:
  virtual ~ReferenceCaller() = default;
  virtual std::vector<ReferenceTensor>
  call(const StageFunction &function,
       llvm::ArrayRef<ReferenceArgument> arguments) = 0;
  virtual ReferenceTensor add(mlir::RankedTensorType type,
                              const ReferenceTensor &left,
                              const ReferenceTensor &right) = 0;
};

/// Runs a step: updates parameters and states of `block`, laid out by `layout`,
/// and writes gradients and losses of the step. `functions` must have data.
/// Parameters and states of stages without an update do not change, and if
/// `updates` is false, none do. Whole backwards are preferred to split
/// backwards, and recompute functions do not run.
void runReferenceStep(ReferenceCaller &caller, const StageFunctions &functions,
                      const PersistentLayout &layout, int64_t numMicrobatches,
                      bool updates, int64_t step, char *block);

/// Writes only the parameters of stages that have an init function.
void runReferenceInit(ReferenceCaller &caller, const StageFunctions &functions,
                      const PersistentLayout &layout, char *block);

} // namespace pipesched

#endif // PIPESCHED_STAGES_REFERENCE_H
