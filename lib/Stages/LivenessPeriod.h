//===- LivenessPeriod.h - Lives of tensors that repeat ----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the part of a row that makes, reads and waits for the same tensors
// again and again.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_STAGES_LIVENESSPERIOD_H
#define PIPESCHED_LIB_STAGES_LIVENESSPERIOD_H

#include "Liveness.h"

namespace pipesched {

/// Instructions [begin, end) of a program, all of one worker. For each i from
/// `begin` up to end - length, instruction i + length does the same as i with
/// another microbatch: all that it waits for and all last uses are `length`
/// instructions further on, and all that it makes and reads `versions`
/// versions.
struct LivenessPeriod {
  uint32_t begin, end, length, versions;
  /// How far before an instruction is the earliest one that it waits for.
  uint32_t reach;

  uint32_t size() const { return end - begin; }
};

/// The shortest period up to 2,048 instructions that covers half of the row,
/// else the one that covers most. Nothing if no part around the middle of the
/// row occurs four times.
std::optional<LivenessPeriod> findLivenessPeriod(const LoadedProgram &loaded,
                                                 const RowLiveness &liveness,
                                                 int64_t worker);

} // namespace pipesched

#endif // PIPESCHED_LIB_STAGES_LIVENESSPERIOD_H
