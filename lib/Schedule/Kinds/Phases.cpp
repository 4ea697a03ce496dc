//===- Phases.cpp - The table of phases -----------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sets of phases as text.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;

std::string pipesched::describePhases(PhaseSet phases,
                                      llvm::StringRef beforeLast) {
  std::string text;
  PhaseSet left = phases;
  phases.forEach([&](Phase phase) {
    left = left - phase;
    if (!text.empty())
      text += left.isEmpty() ? beforeLast : ", ";
    text += phaseLetter(phase);
  });
  return text;
}

std::string pipesched::describePhase(Phase phase) {
  llvm::StringRef name = enumMeaning(phase);
  bool hasVowel = llvm::StringRef("aeiou").contains(name.front());
  return ((hasVowel ? "an " : "a ") + name).str();
}
