//===- main.cpp - Benchmarks of PipeSched ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs every operation on every size and family. Operations share the large
// parts of a workload. At the end a summary says how time grows from size to
// size.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include <ostream>

using namespace pipesched;
using namespace pipesched::bench;

static llvm::cl::list<int64_t>
    cellCounts("cells", llvm::cl::CommaSeparated,
               llvm::cl::desc("Sizes, ascending, about so many cells each "
                              "(default: 10000,100000,1000000)"));

/// The workload of one family and size; only the last one is kept.
static Workload &getWorkload(const Family &family, int64_t numCells) {
  static std::optional<Workload> last;
  static std::pair<const Family *, int64_t> lastKey;
  std::pair<const Family *, int64_t> key = {&family, numCells};
  if (!last || lastKey != key) {
    last.reset();
    last.emplace(family, numCells);
    lastKey = key;
  }
  return *last;
}

static void registerAll(llvm::ArrayRef<Operation> operations,
                        const Family &family, int64_t numCells) {
  for (Operation operation : operations) {
    std::string name =
        llvm::formatv("{0}/{1}/{2}", operation.name, family.name, numCells);
    benchmark::RegisterBenchmark(name.c_str(), [=, &family](
                                                   benchmark::State &state) {
      operation.run(state, getWorkload(family, numCells));
    })->Unit(benchmark::kMillisecond);
  }
}

namespace {
/// Prints each row as it comes, and at the end the growth of the time of each
/// operation from each size to the next.
class GrowthReporter : public benchmark::ConsoleReporter {
public:
  GrowthReporter() : ConsoleReporter(OO_Tabular) {}

  void ReportRuns(const std::vector<Run> &runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run &run : runs)
      if (run.run_type == Run::RT_Iteration && !run.error_occurred)
        note(run);
  }

  void Finalize() override {
    std::string text = "\nCPU time against that of the size before:\n";
    llvm::raw_string_ostream os(text);
    for (const Series &one : series)
      if (one.points.size() > 1)
        print(os, one);
    GetOutputStream() << text << std::flush;
  }

private:
  struct Point {
    int64_t numCells;
    double seconds;
  };
  struct Series {
    std::string name; ///< operation/family
    llvm::SmallVector<Point> points;
  };

  void note(const Run &run) {
    auto [name, size] = llvm::StringRef(run.run_name.function_name).rsplit('/');
    int64_t numCells = 0;
    if (size.getAsInteger(10, numCells))
      return;
    auto found = llvm::find_if(series, [&, name = name](const Series &one) {
      return one.name == name;
    });
    if (found == series.end())
      found = series.insert(series.end(), {name.str(), {}});
    found->points.push_back(
        {numCells, run.cpu_accumulated_time / run.iterations});
  }

  static void print(llvm::raw_ostream &os, const Series &one) {
    os << llvm::left_justify(one.name, 28);
    for (size_t i = 1; i < one.points.size(); ++i) {
      Point before = one.points[i - 1], here = one.points[i];
      os << llvm::formatv("  {0}: x{1:f1}", here.numCells,
                          here.seconds / before.seconds);
    }
    os << '\n';
  }

  std::vector<Series> series;
};
} // namespace

int main(int argc, char **argv) {
  benchmark::Initialize(&argc, argv);
  llvm::cl::ParseCommandLineOptions(
      argc, argv,
      "Benchmarks of PipeSched; takes Google Benchmark's options too\n");
  std::vector<int64_t> sizes(cellCounts.begin(), cellCounts.end());
  if (sizes.empty())
    sizes = {10'000, 100'000, 1'000'000};
  for (int64_t numCells : sizes) {
    for (llvm::StringRef name : {"1f1b", "gpipe"}) {
      const Family &family = *findFamily(name);
      registerAll(tableOperations(), family, numCells);
      registerAll(analysisOperations(), family, numCells);
      registerAll(irOperations(), family, numCells);
      registerAll(wholeOperations(), family, numCells);
    }
    registerGenerators(numCells);
    registerWalks(numCells);
  }
  registerOptimizer();
  keepFreedPages();
  GrowthReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  benchmark::Shutdown();
}
