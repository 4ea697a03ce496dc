//===- Wavefront.cpp - Which tables can be walked slot by slot ------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The walk itself is a template, compiled where it is used.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Wavefront.h"

using namespace pipesched;

bool pipesched::canWalkInSlots(const PhaseCounts &counts) {
  return !counts.has(Phase::AllReduce);
}
