//===- MicrobatchSizes.h - One batch in other microbatches ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What becomes of a schedule and of its model where the sequences of a step are
// cut into fewer and larger microbatches, or into more and smaller ones.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_MICROBATCHSIZES_H
#define PIPESCHED_COSTMODEL_MICROBATCHSIZES_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Placement.h"

namespace pipesched {

/// Errors: a size below 1, or one that is listed twice.
llvm::Error checkMicrobatchSizes(llvm::ArrayRef<int64_t> sizes);

/// How many microbatches of `size` sequences make as many as `numMicrobatches`
/// of `ownSize`; all are 1 or more. Errors, which go on from "the schedule ": a
/// batch that `size` does not divide, with the nearest sizes that do; one of
/// more than 2^63 - 1 sequences.
llvm::Expected<int64_t> countMicrobatches(int64_t size, int64_t ownSize,
                                          int64_t numMicrobatches);

/// The same paths for another number of microbatches, of which each takes the
/// same share as before: halves stay halves, every other one stays so. Errors:
/// a share that is no whole number; those of Placement::create.
llvm::Expected<Placement> dealAnew(const Placement &placement,
                                   int64_t numMicrobatches);

/// Whether two models differ in nothing but the sequences of a microbatch and
/// what these decide: name, work and bytes.
bool areSizesOfOne(const ModelFacts &a, const ModelFacts &b);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_MICROBATCHSIZES_H
