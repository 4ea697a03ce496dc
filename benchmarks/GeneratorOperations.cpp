//===- GeneratorOperations.cpp - Benchmarks of every family ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Generates the table of a family, on fresh pages: on few workers with many
// microbatches and on many workers with few.
//
//===----------------------------------------------------------------------===//

#include "Measure.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using namespace pipesched::bench;

static constexpr int64_t kWorkerCounts[] = {4, 64, 512};

namespace {
/// A family with options, on its own placement or on another family's.
struct Rule {
  std::string name;
  const Family *family = nullptr;
  FamilyOptions options;
  const Family *placement = nullptr;
};

struct Sizes {
  int64_t numWorkers = 0, numMicrobatches = 0;
};
} // namespace

static Rule makeRule(const Family &family, llvm::StringRef suffix = "",
                     const FamilyOptions &options = {},
                     llvm::StringRef placement = "") {
  return {(family.name + suffix).str(), &family, options,
          placement.empty() ? &family : findFamily(placement)};
}

/// All families with default options, and families with options that change
/// much.
static std::vector<Rule> makeRules() {
  std::vector<Rule> rules;
  for (const Family &family : families())
    rules.push_back(makeRule(family));
  FamilyOptions options;
  options.splitBackward = true;
  rules.push_back(makeRule(*findFamily("1f1b"), "-split", options));
  options = {};
  options.chunks = 8;
  rules.push_back(makeRule(*findFamily("interleaved-1f1b"), "-8", options));
  options = {};
  options.construction = ChimeraConstruction::Doubling;
  options.pairs = 2;
  rules.push_back(makeRule(*findFamily("chimera"), "-doubling-2", options));
  options = {};
  options.memory = 2;
  rules.push_back(makeRule(*findFamily("zb-auto"), "-2", options));
  options = {};
  options.waves = 4;
  rules.push_back(makeRule(*findFamily("hanayo"), "-4", options));
  rules.push_back(makeRule(*findFamily("greedy"), "-mirrored", {}, "chimera"));
  return rules;
}

static llvm::Expected<Table> run(const Rule &rule, Sizes sizes) {
  llvm::Expected<Placement> placement = placeFamily(
      *rule.placement, sizes.numWorkers, sizes.numMicrobatches,
      rule.placement == rule.family ? rule.options : FamilyOptions());
  if (!placement)
    return placement.takeError();
  return generate(*rule.family, *placement, rule.options);
}

static bool isDefined(const Rule &rule, Sizes sizes) {
  llvm::Expected<Table> table = run(rule, sizes);
  bool isTable = static_cast<bool>(table);
  llvm::consumeError(table.takeError());
  return isTable;
}

static int64_t countCells(const Table &table) {
  int64_t numCells = 0;
  for (const Row &row : table.rows)
    numCells += row.size();
  return numCells;
}

/// The number of microbatches for about this many cells, rounded to a multiple
/// of 2D if it is at least that: then every family has a table. None if the
/// smallest table of a family has more than twice the cells.
static std::optional<Sizes> chooseSizes(const Rule &rule, int64_t numWorkers,
                                        int64_t numCells) {
  Sizes small = {4, 16};
  int64_t cellsPerPair = countCells(take(run(rule, small))) /
                         (small.numWorkers * small.numMicrobatches);
  bool needsTwice = !isDefined(rule, {4, 7});
  int64_t round = 2 * numWorkers;
  int64_t least = needsTwice ? round : 4;
  Sizes sizes = {numWorkers,
                 std::max<int64_t>(1, numCells / (cellsPerPair * numWorkers))};
  if (sizes.numMicrobatches > round)
    sizes.numMicrobatches -= sizes.numMicrobatches % round;
  sizes.numMicrobatches = std::max(sizes.numMicrobatches, least);
  if (sizes.numMicrobatches * numWorkers * cellsPerPair > 2 * numCells)
    return std::nullopt;
  return sizes;
}

static void measureRule(benchmark::State &state, const Rule &rule,
                        Sizes sizes) {
  auto generateFresh = [&] {
    dropFreedPages();
    return take(run(rule, sizes));
  };
  int64_t numCells = countCells(generateFresh());
  setCounters(state, measureCost(state, generateFresh), numCells);
}

void bench::registerGenerators(int64_t numCells) {
  for (const Rule &rule : makeRules())
    for (int64_t numWorkers : kWorkerCounts) {
      std::optional<Sizes> sizes = chooseSizes(rule, numWorkers, numCells);
      if (!sizes)
        continue;
      std::string name = llvm::formatv("generate-on-{0}/{1}/{2}", numWorkers,
                                       rule.name, numCells);
      benchmark::RegisterBenchmark(name.c_str(), [rule, sizes](
                                                     benchmark::State &state) {
        measureRule(state, rule, *sizes);
      })->Unit(benchmark::kMillisecond);
    }
}
