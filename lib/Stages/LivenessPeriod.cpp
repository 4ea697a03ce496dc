//===- LivenessPeriod.cpp - Lives of tensors that repeat ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tries lengths from the middle of the row on, the shortest first, until one
// covers half of the row.
//
//===----------------------------------------------------------------------===//

#include "LivenessPeriod.h"

using namespace pipesched;

static constexpr uint32_t kMaxLength = 2048;
static constexpr uint32_t kMinTimes = 4;

namespace {
class PeriodFinder {
public:
  PeriodFinder(const LoadedProgram &loaded, const RowLiveness &liveness,
               int64_t worker)
      : program(loaded.program), liveness(liveness),
        rowBegin(program.rowBegins[worker]),
        rowEnd(program.rowBegins[worker + 1]) {}

  std::optional<LivenessPeriod> run();

private:
  bool follows(uint32_t instruction) const;
  bool versionFollows(uint32_t number) const;
  void extend();

  const Program &program;
  const RowLiveness &liveness;
  uint32_t rowBegin, rowEnd;
  LivenessPeriod period = {};
};
} // namespace

static bool looksAlike(const Instruction &a, const Instruction &b) {
  return a.kind == b.kind && a.cell.getStage() == b.cell.getStage() &&
         a.cell.getPhase() == b.cell.getPhase() &&
         a.cell.overlapsNext() == b.cell.overlapsNext();
}

/// Whether both have the same numbers, those of `b` greater by `difference`.
static bool areApart(llvm::ArrayRef<uint32_t> a, llvm::ArrayRef<uint32_t> b,
                     uint32_t difference) {
  return a.size() == b.size() &&
         llvm::all_of(llvm::zip_equal(a, b), [&](auto pair) {
           return std::get<1>(pair) == std::get<0>(pair) + difference;
         });
}

bool PeriodFinder::versionFollows(uint32_t number) const {
  const TensorVersion &a = liveness.versions[number];
  const TensorVersion &b = liveness.versions[number + period.versions];
  return b.made == a.made + period.length &&
         b.lastUse == a.lastUse + period.length && a.bytes == b.bytes &&
         a.isInHost == b.isInHost && a.isActivation == b.isActivation &&
         areApart(a.readers, b.readers, period.length);
}

/// Whether the instruction a period behind this one does the same.
bool PeriodFinder::follows(uint32_t instruction) const {
  uint32_t later = instruction + period.length;
  llvm::ArrayRef<uint32_t> buffers = liveness.buffersOf(instruction - rowBegin);
  return looksAlike(program.instructions[instruction],
                    program.instructions[later]) &&
         areApart(program.operandsOf(instruction), program.operandsOf(later),
                  period.length) &&
         areApart(buffers, liveness.buffersOf(later - rowBegin),
                  period.versions) &&
         llvm::all_of(buffers, [&](uint32_t number) {
           return liveness.versions[number].made != instruction ||
                  versionFollows(number);
         });
}

/// Extends a period from its first two repetitions to all of them.
void PeriodFinder::extend() {
  while (period.begin > rowBegin && follows(period.begin - 1))
    --period.begin;
  while (period.end < rowEnd && follows(period.end - period.length))
    ++period.end;
  for (uint32_t i = period.begin; i < period.end; ++i)
    for (uint32_t operand : program.operandsOf(i))
      period.reach = std::max(period.reach, i - operand);
}

std::optional<LivenessPeriod> PeriodFinder::run() {
  uint32_t middle = rowBegin + (rowEnd - rowBegin) / 2;
  uint32_t longest = std::min(kMaxLength, (rowEnd - rowBegin) / kMinTimes);
  std::optional<LivenessPeriod> best;
  for (uint32_t length = 1; length <= longest; ++length) {
    if (!looksAlike(program.instructions[middle],
                    program.instructions[middle + length]))
      continue;
    uint32_t end = middle + 2 * length;
    uint32_t versions =
        liveness.madeBefore(middle + length) - liveness.madeBefore(middle);
    period = {middle, end, length, versions, /*reach=*/0};
    if (!llvm::all_of(llvm::seq(middle, middle + length),
                      [&](uint32_t i) { return follows(i); }))
      continue;
    extend();
    if (period.size() < kMinTimes * length ||
        (best && best->size() >= period.size()))
      continue;
    best = period;
    if (period.size() >= (rowEnd - rowBegin) / 2)
      break;
  }
  return best;
}

std::optional<LivenessPeriod>
pipesched::findLivenessPeriod(const LoadedProgram &loaded,
                              const RowLiveness &liveness, int64_t worker) {
  return PeriodFinder(loaded, liveness, worker).run();
}
