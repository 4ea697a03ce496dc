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
#include "llvm/ADT/STLExtras.h"

using namespace pipesched;

bool pipesched::canWalkInSlots(const PhaseCounts &counts) {
  return llvm::none_of(
      std::initializer_list<Phase>{Phase::Offload, Phase::Reload,
                                   Phase::AllReduce, Phase::OffloadJoin,
                                   Phase::ReloadJoin},
      [&](Phase phase) { return counts.has(phase); });
}
