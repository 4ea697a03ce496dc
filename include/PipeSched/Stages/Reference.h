//===- Reference.h - The unpipelined model ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step of the model without pipeline, workers or messages, by the same
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

/// One block with all tensors of a model, as on a worker with every stage.
PersistentLayout layOutReference(const StageFunctions &functions,
                                 int64_t numMicrobatches);

/// The bytes of a tensor, which do not change. Null: there is none.
using ReferenceTensor = std::shared_ptr<char>;

/// A tensor of zeros, which starts at a multiple of kSlotAlignment.
ReferenceTensor makeReferenceZeros(mlir::RankedTensorType type);

/// An argument of a function: a tensor, or a number.
struct ReferenceArgument {
  ReferenceTensor tensor;
  int64_t number = 0;
};

/// Who runs the functions.
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
/// and writes gradients and losses of the step. `functions` have data.
/// Parameters and states of stages without an update, or of all if `updates` is
/// false, do not change. Whole backwards are preferred to backwards in two
/// parts, and recompute functions do not run.
void runReferenceStep(ReferenceCaller &caller, const StageFunctions &functions,
                      const PersistentLayout &layout, int64_t numMicrobatches,
                      bool updates, int64_t step, char *block);

/// Writes the parameters of the stages that have an init function, and nothing
/// else.
void runReferenceInit(ReferenceCaller &caller, const StageFunctions &functions,
                      const PersistentLayout &layout, char *block);

} // namespace pipesched

#endif // PIPESCHED_STAGES_REFERENCE_H
