//===- Cell.cpp - One entry of a schedule table ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prints cells as IR, diagnostics, traces and CSV write them: 2F0, 2F0.1, _,
// _12. Also prints sets of phases.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;

void Cell::print(llvm::raw_ostream &os) const {
  if (!isIdle()) {
    os << getStage() << phaseLetter(getPhase()) << getNumber();
    return;
  }
  os << '_';
  if (getIdleSlots() != 1)
    os << getIdleSlots();
}

std::string Cell::str() const { return CellName{*this}.str(); }

bool CellName::hasSlice() const {
  return numSlices > 1 && traitsOf(cell.getPhase()).number == CellNumber::Unit;
}

std::string CellName::str() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << *this;
  return text;
}

llvm::raw_ostream &pipesched::operator<<(llvm::raw_ostream &os, CellName name) {
  Cell cell = name.cell;
  if (!name.hasSlice())
    return os << cell;
  return os << cell.getStage() << phaseLetter(cell.getPhase())
            << cell.getUnit() / name.numSlices << '.'
            << cell.getUnit() % name.numSlices;
}

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
