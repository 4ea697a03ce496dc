//===- WholeOperations.cpp - Benchmark of the whole way -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generate, verify, time and report as one row, on fresh pages.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Target/Report.h"
#include "llvm/Support/JSON.h"

using namespace pipesched;
using namespace pipesched::bench;

/// Whether all checks accept the table.
static bool verify(const TableView &table) {
  for (auto [row, cells] : llvm::enumerate(table.rows))
    if (verifyRow(*table.placement, row, cells))
      return false;
  return !verifyTable(table);
}

static void generateToReport(benchmark::State &state, Workload &workload) {
  measure(state, workload, [&] {
    dropFreedPages();
    Table table = workload.generate();
    NamedEvaluation result;
    result.name = "schedule";
    result.family = workload.getFamily().str();
    result.placement = table.placement;
    result.table = table.view();
    bool isValid = verify(result.tableView());
    result.evaluation = take(evaluateTable(result.tableView(), result.family,
                                           workload.getCosts(), result.timing));
    llvm::raw_null_ostream os;
    llvm::json::OStream json(os, /*IndentSize=*/2);
    writeReport(json, result);
    return isValid;
  });
}

llvm::ArrayRef<Operation> bench::wholeOperations() {
  static constexpr Operation kOperations[] = {
      {"generate-to-report", generateToReport}};
  return kOperations;
}
