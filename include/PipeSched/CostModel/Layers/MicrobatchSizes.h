//===- MicrobatchSizes.h - Other microbatch sizes for a batch ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes the microbatch size of a schedule and its model while the number of
// sequences per step stays the same.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_MICROBATCHSIZES_H
#define PIPESCHED_COSTMODEL_LAYERS_MICROBATCHSIZES_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// Checks a list of sizes. Errors: a size below 1, or a size that is listed
/// twice.
llvm::Error checkMicrobatchSizes(llvm::ArrayRef<int64_t> sizes);

/// Returns the number of microbatches of `size` sequences for the batch of
/// `numMicrobatches` microbatches of `ownSize`; all are at least 1. Error texts
/// continue "the schedule ": a batch that is not a multiple of `size`, with the
/// nearest sizes that divide it; a batch of more than 2^63 - 1 sequences.
llvm::Expected<int64_t> countMicrobatches(int64_t size, int64_t ownSize,
                                          int64_t numMicrobatches);

/// Returns the same paths for another number of microbatches. Each path keeps
/// its share: half of the microbatches stays half, and every other microbatch
/// stays every other microbatch. Errors: a share that is not a whole number;
/// errors of Placement::create.
llvm::Expected<Placement> dealAnew(const Placement &placement,
                                   int64_t numMicrobatches);

/// Whether two models differ only in the sequences per microbatch and in
/// properties that depend on it: name, work and bytes.
bool areSizesOfOne(const ModelFacts &a, const ModelFacts &b);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_MICROBATCHSIZES_H
