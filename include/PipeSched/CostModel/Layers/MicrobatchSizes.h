//===- MicrobatchSizes.h - The same batch in other microbatches -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Changes the microbatch size of a schedule and its model while the sequences
// of a step stay the same.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_MICROBATCHSIZES_H
#define PIPESCHED_COSTMODEL_LAYERS_MICROBATCHSIZES_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Table/Placement.h"

namespace pipesched {

/// Errors: a size below 1, or one that is listed twice.
llvm::Error checkMicrobatchSizes(llvm::ArrayRef<int64_t> sizes);

/// The number of microbatches of `size` sequences that hold the same batch as
/// `numMicrobatches` of `ownSize`; all are at least 1. Error texts continue
/// "the schedule ": a batch that is not a multiple of `size`, with the nearest
/// sizes that divide it; one of more than 2^63 - 1 sequences.
llvm::Expected<int64_t> countMicrobatches(int64_t size, int64_t ownSize,
                                          int64_t numMicrobatches);

/// The same paths for another number of microbatches; each path keeps its
/// share: a half stays a half, and every other microbatch stays every other
/// one. Errors: a share that is not a whole number; errors of
/// Placement::create.
llvm::Expected<Placement> dealAnew(const Placement &placement,
                                   int64_t numMicrobatches);

/// Whether two models differ only in the sequences of a microbatch and their
/// consequences: name, work and bytes.
bool areSizesOfOne(const ModelFacts &a, const ModelFacts &b);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_MICROBATCHSIZES_H
