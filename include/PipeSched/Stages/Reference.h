//===- Reference.h - The unpipelined model ----------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step of the model without pipeline, workers or messages, made of the same
// functions. It is what runs of schedules are compared with, so it shares
// neither buffers nor lowering with them: tensors are plain values of one
// function.
//
//   for microbatch 0 .. N - 1:
//     data; forward of stage 0, 1, ...; target; loss; backward of stage ..., 0
//   update of stage 0, 1, ...
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_REFERENCE_H
#define PIPESCHED_STAGES_REFERENCE_H

#include "PipeSched/Stages/PersistentLayout.h"

namespace pipesched {

/// One block with all tensors of a model: that of a worker which holds every
/// stage.
PersistentLayout layOutReference(const StageFunctions &functions,
                                 int64_t numMicrobatches);

/// Adds `func @name(%before: memref<..xi8>, %after: memref<..xi8>, %step: i64)`
/// to the end of `module`. It reads parameters and states from a block
/// `before`, laid out by `layout`, and writes all tensors of the block `after`,
/// which must not overlap. `functions` are those of `module`, with data; the
/// size of the code does not depend on the number of microbatches. Parameters
/// and states of stages without an update, or of all if `updates` is false,
/// stay as they are. Whole backwards are preferred to those in two parts, and
/// recompute functions do not run.
mlir::func::FuncOp buildReferenceStep(mlir::ModuleOp module,
                                      llvm::StringRef name,
                                      const StageFunctions &functions,
                                      const PersistentLayout &layout,
                                      int64_t numMicrobatches, bool updates);

/// Adds `func @name(%block: memref<..xi8>)`, which writes the parameters of the
/// stages that have an init function, and nothing else.
mlir::func::FuncOp buildReferenceInit(mlir::ModuleOp module,
                                      llvm::StringRef name,
                                      const StageFunctions &functions,
                                      const PersistentLayout &layout);

} // namespace pipesched

#endif // PIPESCHED_STAGES_REFERENCE_H
