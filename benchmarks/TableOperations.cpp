//===- TableOperations.cpp - Benchmarks of lib/Schedule -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Table operations: generate, verify, align, measure, lower.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Edit/Backward.h"
#include "PipeSched/Schedule/Edit/Recompute.h"

using namespace pipesched;
using namespace pipesched::bench;

static void generateTable(benchmark::State &state, Workload &workload) {
  measure(state, workload, [&] { return workload.generate(); });
}

static void verifyRows(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  measure(state, workload, [&] {
    bool isValid = true;
    for (auto [row, cells] : llvm::enumerate(table.rows))
      isValid &= !verifyRow(*table.placement, row, cells);
    return isValid;
  });
}

static void verifyWhole(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  measure(state, workload, [&] { return verifyTable(table); });
}

static void createIndex(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  measure(state, workload, [&] { return take(CellIndex::create(table)); });
}

static void align(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  const CellIndex &index = workload.index();
  measure(state, workload, [&] { return take(alignSlots(table, index)); });
}

static void split(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  measure(state, workload, [&] { return take(splitBackward(table)); });
}

static void recompute(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  measure(state, workload, [&] { return take(addRecompute(table)); });
}

static void recomputeAhead(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  RecomputeOptions options;
  options.ahead = 2;
  measure(state, workload, [&] { return take(addRecompute(table, options)); });
}

static void metrics(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  const CellIndex &index = workload.index();
  const SlotAssignment &slots = workload.slots();
  measure(state, workload, [&] { return computeMetrics(table, index, slots); });
}

static void lower(benchmark::State &state, Workload &workload) {
  const TableView &table = workload.view();
  const CellIndex &index = workload.index();
  const SlotAssignment &slots = workload.slots();
  measure(state, workload, [&] {
    return take(lowerTable(table, index, slots, ReceivePlacement::Arrival));
  });
}

llvm::ArrayRef<Operation> bench::tableOperations() {
  static constexpr Operation kOperations[] = {
      {"generate", generateTable},   {"verify-rows", verifyRows},
      {"verify-table", verifyWhole}, {"index", createIndex},
      {"align-slots", align},        {"split-backward", split},
      {"add-recompute", recompute},  {"recompute-ahead", recomputeAhead},
      {"metrics", metrics},          {"lower", lower},
  };
  return kOperations;
}
