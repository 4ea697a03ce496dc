//===- Workload.h - Workload of the operations ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One schedule of a family and size on 64 workers, and all results of analyses,
// each computed when an operation first asks for it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_BENCHMARKS_WORKLOAD_H
#define PIPESCHED_BENCHMARKS_WORKLOAD_H

#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Schedule/Family/Families.h"

namespace pipesched::bench {

inline constexpr int64_t kNumWorkers = 64;

/// Returns the value, or ends the process with the error.
template <typename T>
T take(llvm::Expected<T> value) {
  static llvm::ExitOnError exitOnError("pipesched-bench: ");
  return exitOnError(std::move(value));
}

/// A longest path as one would write it without a library: the yardstick of all
/// operations.
///
///   end[t] = duration[t] + max of end[p], p in before[begins[t] ..
///   begins[t+1])
struct PlainGraph {
  std::vector<uint32_t> begins, before;
  std::vector<int64_t> durationPs;

  /// Returns the largest end; `ends` must have room for one number per task.
  int64_t longestPath(std::vector<int64_t> &ends) const;
};

/// A model of `numLayers` equal layers, at least one per stage, on a system.
CostInputs makeCosts(int64_t numLayers);
/// The tasks and edges of a graph.
PlainGraph makePlain(const Execution &execution);

class Workload {
public:
  /// About `numCells` cells: the number of microbatches is rounded up. One
  /// stage per worker and whole backwards.
  Workload(const Family &family, int64_t numCells);

  llvm::StringRef getFamily() const { return family.name; }
  int64_t getNumCells() const {
    return 2 * kNumWorkers * placement.getNumMicrobatches();
  }
  const Placement &getPlacement() const { return placement; }
  const CostInputs &getCosts() const { return costs; }

  Table generate() const;
  const TableView &view();
  const CellIndex &index();
  const SlotAssignment &slots();
  const Program &program();
  /// The graph of one transport at a time; asking for another discards it.
  const Execution &execution(Transport transport);
  /// The tasks and edges of that graph; also one at a time.
  const PlainGraph &plain(Transport transport);

private:
  const Family &family;
  Placement placement;
  CostInputs costs;
  std::optional<Table> table;
  std::optional<TableView> tableView;
  std::optional<CellIndex> cellIndex;
  std::optional<SlotAssignment> slotAssignment;
  std::optional<Program> lowered;
  std::optional<Execution> lastExecution;
  std::optional<PlainGraph> lastPlain;
  /// Their transports.
  Transport executionTransport, plainTransport;
};

} // namespace pipesched::bench

#endif // PIPESCHED_BENCHMARKS_WORKLOAD_H
