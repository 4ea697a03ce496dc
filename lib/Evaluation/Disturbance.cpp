//===- Disturbance.cpp - Slow workers and stages, jitter ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uses products of 128 bits, so that a factor with three digits is applied
// exactly.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/Disturbance.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Support/WideDivision.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;

static constexpr int64_t kOne = 1'000'000;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Reads a decimal number in millionths. It uses the grammar of times, which
/// has exact decimals: a microsecond is a million picoseconds.
static std::optional<int64_t> readMillionths(StringRef text) {
  llvm::Expected<int64_t> value = parseTime((text + "us").str());
  if (value)
    return *value;
  llvm::consumeError(value.takeError());
  return std::nullopt;
}

static llvm::Error readSlowdown(StringRef name, StringRef value,
                                std::vector<Disturbance::Slowdown> &list,
                                StringRef number) {
  Disturbance::Slowdown read;
  if (number.getAsInteger(10, read.number) || read.number < 0)
    return formatError(
        "expected a number of at least 0 after '{0}', found '{1}'",
        name.drop_back(number.size()), number);
  std::optional<int64_t> factor = readMillionths(value);
  if (!factor || *factor < 1000 || *factor > 1000 * kOne)
    return formatError("{0}: expected a factor from 0.001 to 1000, such as "
                       "1.3, found '{1}'",
                       name, value);
  read.factor = *factor;
  for (const Disturbance::Slowdown &other : list)
    if (other.number == read.number)
      return formatError("{0} is given twice", name);
  list.push_back(read);
  return llvm::Error::success();
}

static llvm::Error readJitter(StringRef value, Disturbance &disturbance) {
  std::optional<int64_t> percent;
  if (value.consume_back("%"))
    percent = readMillionths(value.rtrim());
  if (!percent || *percent % 100 != 0 || *percent >= 100 * kOne)
    return formatError("jitter: expected a part below 100 %, such as 5%, found "
                       "'{0}'",
                       value);
  disturbance.jitter = *percent / 100;
  return llvm::Error::success();
}

static llvm::Error readEntry(StringRef name, StringRef value,
                             Disturbance &disturbance) {
  StringRef number = name;
  if (number.consume_front("worker"))
    return readSlowdown(name, value, disturbance.workers, number);
  if (number.consume_front("stage"))
    return readSlowdown(name, value, disturbance.stages, number);
  if (name == "jitter")
    return readJitter(value, disturbance);
  if (name != "seed")
    return formatError("expected worker<number>, stage<number>, jitter or "
                       "seed, found '{0}'",
                       name);
  if (value.getAsInteger(10, disturbance.seed) || disturbance.seed < 0)
    return formatError("seed: expected an integer from 0 on, found '{0}'",
                       value);
  return llvm::Error::success();
}

llvm::Expected<Disturbance> pipesched::parseDisturbance(StringRef text) {
  Disturbance disturbance;
  disturbance.text = text.str();
  llvm::SmallVector<StringRef> entries, once;
  if (!text.trim().empty())
    text.split(entries, ',');
  for (StringRef entry : entries) {
    auto [name, value] = entry.split('=');
    name = name.trim();
    if ((name == "jitter" || name == "seed") && llvm::is_contained(once, name))
      return formatError("{0} is given twice", name);
    once.push_back(name);
    if (llvm::Error error = readEntry(name, value.trim(), disturbance))
      return std::move(error);
  }
  return disturbance;
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// Mixes the bits of a number (SplitMix64: Steele, Lea and Flood 2014, Fast
/// splittable pseudorandom number generators).
static uint64_t mix(uint64_t bits) {
  bits += 0x9e3779b97f4a7c15;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111eb;
  return bits ^ bits >> 31;
}

namespace {

/// The factors of one disturbance on one placement, in millionths.
class CellFactors {
public:
  static llvm::Expected<CellFactors> create(const Disturbance &disturbance,
                                            const Placement &placement,
                                            int64_t numWorkers);

  int64_t ofWorker(int64_t worker) const { return workers[worker]; }
  /// An upper bound on the product of all factors of any cell, in millionths.
  int64_t largest() const {
    __int128 ofStage = *llvm::max_element(stages) * __int128(kOne + jitter);
    __int128 product = ofStage * *llvm::max_element(workers);
    return static_cast<int64_t>(product / kOne / kOne + 1);
  }
  /// The factor of the stage times the jitter of the cell, in units of 10^-12.
  __int128 ofCell(Cell cell) const {
    return __int128(stages[cell.getStage()]) * (kOne + jitterOf(cell));
  }

private:
  int64_t jitterOf(Cell cell) const {
    if (jitter == 0)
      return 0;
    uint64_t bits = mix(seedBits ^ toStored(cell.withOverlap(false)));
    return static_cast<int64_t>((__int128(bits >> 1) * (2 * jitter + 1)) >>
                                63) -
           jitter;
  }

  std::vector<int64_t> workers, stages;
  int64_t jitter = 0;
  uint64_t seedBits = 0;
};

} // namespace

static llvm::Error fillFactors(const char *what,
                               llvm::ArrayRef<Disturbance::Slowdown> slowdowns,
                               int64_t count, std::vector<int64_t> &factors) {
  factors.assign(count, kOne);
  for (const Disturbance::Slowdown &slow : slowdowns) {
    if (slow.number >= count)
      return formatError("there is no {0} {1} to slow down; there are {2}, "
                         "numbered from 0",
                         what, slow.number, count);
    factors[slow.number] = slow.factor;
  }
  return llvm::Error::success();
}

llvm::Expected<CellFactors> CellFactors::create(const Disturbance &disturbance,
                                                const Placement &placement,
                                                int64_t numWorkers) {
  int64_t numStages = placement.getMaxStages();
  CellFactors factors;
  factors.jitter = disturbance.jitter;
  factors.seedBits = mix(disturbance.seed);
  if (llvm::Error error = fillFactors("worker", disturbance.workers, numWorkers,
                                      factors.workers))
    return std::move(error);
  if (llvm::Error error =
          fillFactors("stage", disturbance.stages, numStages, factors.stages))
    return std::move(error);
  return factors;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// The factor of a pair, from the factors of its two cells, in units of 10^-12.
static __int128 meanOf(Cell first, Cell second, const CellFactors &factors,
                       const Placement &placement,
                       const StageCosts &stageCosts) {
  __int128 one = stageCosts.alonePs(placement, first);
  __int128 other = stageCosts.alonePs(placement, second);
  __int128 of = factors.ofCell(first), ofOther = factors.ofCell(second);
  if (one + other == 0)
    return (of + ofOther) / 2;
  // Weights of 30 bits keep the products below 2^127.
  while (one + other >= __int128(1) << 30) {
    one >>= 1;
    other >>= 1;
  }
  return divideWide(of * one + ofOther * other,
                    static_cast<uint64_t>(one + other));
}

/// Requires that `by` is even.
static __int128 roundedQuotient(__int128 number, uint64_t by) {
  return divideWide(number + by / 2, by);
}

/// A time below 2^63 times a factor below 2 * 10^18 stays below 2^127.
static __int128 scale(int64_t ps, int64_t worker, Cell cell,
                      std::optional<Cell> overlapped,
                      const CellFactors &factors, const Placement &placement,
                      const StageCosts &stageCosts) {
  // In the units of the last factor.
  constexpr uint64_t kParts = 1'000'000'000'000;
  __int128 factor =
      overlapped ? meanOf(cell, *overlapped, factors, placement, stageCosts)
                 : factors.ofCell(cell);
  if (factors.ofWorker(worker) != kOne)
    factor = roundedQuotient(factor * factors.ofWorker(worker), kOne);
  return roundedQuotient(ps * factor, kParts);
}

llvm::Error pipesched::disturb(const Disturbance &disturbance,
                               const TaskGraph &graph,
                               const Placement &placement,
                               const StageCosts &stageCosts, TaskTimes &times) {
  if (disturbance.isEmpty())
    return llvm::Error::success();
  llvm::Expected<CellFactors> factors =
      CellFactors::create(disturbance, placement, graph.getNumWorkers());
  if (!factors)
    return factors.takeError();
  __int128 total = 0;
  for (uint32_t task = 0; task < graph.size(); ++task) {
    if (graph.is(task, InstructionRole::Compute)) {
      Cell cell = graph.cell[task];
      std::optional<Cell> overlapped;
      if (cell.overlapsNext())
        overlapped = graph.overlapped[task];
      __int128 scaled = scale(times.occupancyPs[task], graph.worker[task], cell,
                              overlapped, *factors, placement, stageCosts);
      if (scaled > std::numeric_limits<int64_t>::max())
        return formatError("cell {0} takes over 2^63 - 1 ps when slowed down",
                           cell.str());
      times.occupancyPs[task] = static_cast<int64_t>(scaled);
    }
    total += times.occupancyPs[task];
    total += times.latencyPs[task];
  }
  if (total > std::numeric_limits<int64_t>::max())
    return llvm::createStringError("the times of all cells and messages add up "
                                   "to more than 2^63-1 ps when slowed down");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// One compute at a time
//===----------------------------------------------------------------------===//

struct DisturbedTimes::Factors {
  CellFactors cells;
  const Placement &placement;
  const StageCosts &stageCosts;
};

llvm::Expected<DisturbedTimes>
DisturbedTimes::create(const Disturbance &disturbance,
                       const Placement &placement,
                       const StageCosts &stageCosts) {
  DisturbedTimes times;
  if (disturbance.isEmpty())
    return times;
  llvm::Expected<CellFactors> cells =
      CellFactors::create(disturbance, placement, placement.getNumWorkers());
  if (!cells)
    return cells.takeError();
  times.factors = std::make_shared<const Factors>(
      Factors{std::move(*cells), placement, stageCosts});
  return times;
}

int64_t DisturbedTimes::operator()(int32_t worker, Cell cell,
                                   std::optional<Cell> overlapped,
                                   int64_t ps) const {
  return scale(ps, worker, cell, overlapped, factors->cells, factors->placement,
               factors->stageCosts);
}

int64_t DisturbedTimes::largestBefore() const {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  // A time of a picosecond or more grows by the factor, which was rounded to a
  // millionth, and by half a picosecond.
  return factors ? static_cast<int64_t>(__int128(kLargest) * kOne /
                                        (factors->cells.largest() + kOne))
                 : kLargest;
}
