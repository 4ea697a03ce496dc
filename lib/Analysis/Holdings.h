//===- Holdings.h - Memory of a walk ----------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The activations that workers hold while a walk goes over their rows.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_ANALYSIS_HOLDINGS_H
#define PIPESCHED_LIB_ANALYSIS_HOLDINGS_H

#include "ActivationLedger.h"
#include "PipeSched/Schedule/Wavefront.h"
#include "llvm/Support/MathExtras.h"
#include <tuple>

namespace pipesched {

/// Whether cells do the same to memory by both.
inline bool holdsTheSame(const MemoryFacts &one, const MemoryFacts &other) {
  auto activationOf = [](const StageMemory &stage) {
    return std::tuple(stage.activationBytes, stage.inputGradFreedBytes,
                      stage.boundaryBytes, stage.workingBytes);
  };
  return llvm::equal(one.stages, other.stages,
                     [&](const StageMemory &a, const StageMemory &b) {
                       return activationOf(a) == activationOf(b);
                     });
}

/// What each worker holds. Without copies only cells allocate and free, so the
/// order of the row is the order of the events, whatever the times: scenarios
/// with equal activations share one object. Only the times of peaks differ.
template <typename Time>
class Holdings {
public:
  Holdings(const TableView &table, const MemoryFacts &facts)
      : ledger(*table.placement, facts), workers(table.rows.size()) {}

  llvm::Error read(const TableView &table) { return ledger.read(table.rows); }
  void start(const WaveStep &step, const Time &startPs) {
    MemoryChange change = ledger.start(step.cells[0], step.stage(0));
    if (step.isPair)
      change += ledger.start(step.cells[1], step.stage(1));
    apply(step, change, startPs);
  }
  void finish(const WaveStep &step, const Time &endPs) {
    MemoryChange change = ledger.finish(step.cells[0], step.stage(0));
    if (step.isPair)
      change += ledger.finish(step.cells[1], step.stage(1));
    apply(step, change, endPs);
  }
  bool isValid() const { return !isOverflow; }
  /// Entries of single activations are not part of the state.
  bool canLeap() const { return !ledger.hasEntries(); }
  template <typename Visitor>
  void visitState(Visitor &visitor) {
    for (const Held &held : workers) {
      visitor.same(held.bytes);
      visitor.same(held.microbatches);
    }
  }
  void takeInto(MemoryUsage &usage, unsigned lane) const {
    for (auto [worker, held] : llvm::zip_equal(usage.workers, workers)) {
      if (!held.hasEvents)
        continue;
      worker.peakActivationBytes = held.peakBytes;
      worker.peakPs = laneOf(held.peakPs, lane);
      worker.peakCell = held.peakCell;
      worker.peakMicrobatches = held.peakMicrobatches;
    }
  }

private:
  struct Held {
    int64_t bytes = 0, microbatches = 0;
    int64_t peakBytes = 0, peakMicrobatches = 0;
    Time peakPs{};
    Cell peakCell;
    bool hasEvents = false;
  };

  void apply(const WaveStep &step, MemoryChange change, const Time &atPs) {
    Held &held = workers[step.row];
    held.microbatches += change.activations;
    isOverflow |= llvm::AddOverflow(held.bytes, change.bytes, held.bytes);
    if (held.hasEvents && held.bytes <= held.peakBytes)
      return;
    held.hasEvents = true;
    held.peakBytes = held.bytes;
    held.peakPs = atPs;
    held.peakMicrobatches = held.microbatches;
    bool isSecond = step.isPair && step.cells[1].is(Phase::Forward);
    held.peakCell = step.cells[isSecond].withOverlap(false);
  }

  ActivationLedger ledger;
  std::vector<Held> workers;
  bool isOverflow = false;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_ANALYSIS_HOLDINGS_H
