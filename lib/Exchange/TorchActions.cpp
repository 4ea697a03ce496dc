//===- TorchActions.cpp - Rows as PyTorch's runtime runs them -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// PyTorch searches forward from each cell for the next three stages. Here one
// sweep from the end of the row finds them for all cells.
//
//===----------------------------------------------------------------------===//

#include "TorchActions.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace pipesched;

namespace {
/// The stages that a row runs next, each once, in order. PyTorch prefetches
/// three (max_active_stages), and a fourth if the third and the fourth come
/// first in one overlapped pair.
class UpcomingStages {
public:
  static constexpr unsigned kActiveStages = 3, kMost = 4;

  /// Puts the stages of an action, the first two or one, in front.
  void prepend(llvm::ArrayRef<int32_t> ran, int64_t action) {
    llvm::SmallVector<Stage, 2 * kMost> all;
    for (int32_t stage : ran)
      if (llvm::none_of(all, [&](Stage other) { return other.stage == stage; }))
        all.push_back({stage, action});
    size_t numRan = all.size();
    for (const Stage &later : stages)
      if (llvm::none_of(
              llvm::ArrayRef(all).take_front(numRan),
              [&](Stage other) { return other.stage == later.stage; }))
        all.push_back(later);
    all.resize(std::min<size_t>(all.size(), kMost));
    stages.assign(all.begin(), all.end());
  }

  llvm::SmallVector<int32_t, kMost> get() const {
    llvm::SmallVector<int32_t, kMost> next;
    for (auto [number, each] : llvm::enumerate(stages))
      if (number < kActiveStages || each.action == stages[number - 1].action)
        next.push_back(each.stage);
    return next;
  }

private:
  struct Stage {
    int32_t stage;
    int64_t action; ///< in which it comes first
  };
  llvm::SmallVector<Stage, kMost> stages;
};

/// A set of small integers that iterates in the order of CPython's `set`
/// (Objects/setobject.c): open addressing, where a removed entry keeps its
/// place until the table grows.
class PythonSet {
public:
  PythonSet() : table(kSmallest, kUnused) {}

  bool contains(int32_t value) const {
    return llvm::is_contained(table, value);
  }

  void insert(int32_t value) {
    place(table, value);
    ++numUsed;
    if (++numFilled * 5 >= (table.size() - 1) * 3)
      grow();
  }

  void erase(int32_t value) {
    *llvm::find(table, value) = kRemoved;
    --numUsed;
  }

  llvm::SmallVector<int32_t, 8> get() const {
    llvm::SmallVector<int32_t, 8> values;
    llvm::copy_if(table, std::back_inserter(values),
                  [](int32_t value) { return value >= 0; });
    return values;
  }

private:
  using Entries = llvm::SmallVector<int32_t, 32>;
  static constexpr size_t kSmallest = 8, kLinearProbes = 9, kPerturbShift = 5;
  static constexpr int32_t kUnused = -1, kRemoved = -2;

  /// Takes the first unused entry on the probe sequence of the value.
  static void place(Entries &entries, int32_t value) {
    size_t mask = entries.size() - 1, perturb = value, slot = value & mask;
    while (true) {
      size_t probes = slot + kLinearProbes <= mask ? kLinearProbes : 0;
      for (size_t i = slot; i <= slot + probes; ++i)
        if (entries[i] == kUnused) {
          entries[i] = value;
          return;
        }
      perturb >>= kPerturbShift;
      slot = (slot * 5 + 1 + perturb) & mask;
    }
  }

  void grow() {
    size_t size = kSmallest;
    while (size <= numUsed * 4)
      size *= 2;
    Entries larger(size, kUnused);
    for (int32_t value : get())
      place(larger, value);
    table = std::move(larger);
    numFilled = numUsed;
  }

  Entries table;
  size_t numUsed = 0, numFilled = 0; ///< filled: with removed ones
};

class ParameterActions {
public:
  ParameterActions(llvm::ArrayRef<Cell> row, int64_t numMicrobatches)
      : row(row), numMicrobatches(numMicrobatches) {}

  std::vector<TorchAction> run();

private:
  void listCells();
  void findUpcoming();
  void prefetch(llvm::ArrayRef<int32_t> next);
  void reshard(int32_t stage);
  void reduce(const TorchAction &action);
  llvm::SmallVector<int32_t, 2> stagesOf(const TorchAction &action) const;

  llvm::ArrayRef<Cell> row;
  int64_t numMicrobatches;
  std::vector<TorchAction> cells;
  std::vector<llvm::SmallVector<int32_t, UpcomingStages::kMost>> upcoming;
  PythonSet active;
  llvm::DenseMap<int32_t, int64_t> numGradients; ///< by stage
  std::vector<TorchAction> actions;
};
} // namespace

llvm::SmallVector<int32_t, 2>
ParameterActions::stagesOf(const TorchAction &action) const {
  llvm::SmallVector<int32_t, 2> stages = {
      int32_t(row[action.entry].getStage())};
  if (action.kind == TorchToken::Overlapped)
    stages.push_back(row[action.entry + 1].getStage());
  return stages;
}

void ParameterActions::listCells() {
  for (int64_t entry = 0, end = row.size(); entry < end; ++entry) {
    if (row[entry].isIdle())
      continue;
    bool isPair = row[entry].overlapsNext();
    cells.push_back(
        {isPair ? TorchToken::Overlapped : TorchToken::Compute, 0, entry});
    entry += isPair;
  }
}

void ParameterActions::findUpcoming() {
  UpcomingStages stages;
  upcoming.resize(cells.size());
  for (int64_t action = cells.size() - 1; action >= 0; --action) {
    stages.prepend(stagesOf(cells[action]), action);
    upcoming[action] = stages.get();
  }
}

void ParameterActions::reshard(int32_t stage) {
  active.erase(stage);
  actions.push_back({TorchToken::Reshard, stage, 0});
}

void ParameterActions::prefetch(llvm::ArrayRef<int32_t> next) {
  for (int32_t stage : active.get())
    if (!llvm::is_contained(next, stage))
      reshard(stage);
  for (int32_t stage : next)
    if (!active.contains(stage)) {
      active.insert(stage);
      actions.push_back({TorchToken::Unshard, stage, 0});
    }
}

void ParameterActions::reduce(const TorchAction &action) {
  unsigned count = action.kind == TorchToken::Overlapped ? 2 : 1;
  for (Cell cell : row.slice(action.entry, count))
    if (cell.isIn(kGradientPhases))
      if (++numGradients[cell.getStage()] == numMicrobatches)
        actions.push_back(
            {TorchToken::ReduceGrad, int32_t(cell.getStage()), 0});
}

std::vector<TorchAction> ParameterActions::run() {
  listCells();
  findUpcoming();
  for (auto [action, next] : llvm::zip_equal(cells, upcoming)) {
    prefetch(next);
    actions.push_back(action);
    reduce(action);
  }
  for (int32_t stage : active.get())
    reshard(stage);
  return std::move(actions);
}

std::vector<TorchAction>
pipesched::addParameterActions(llvm::ArrayRef<Cell> row,
                               int64_t numMicrobatches) {
  return ParameterActions(row, numMicrobatches).run();
}
