//===- FamilyPropertiesTest.cpp - Promises of families --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs all sizes up to D = 8, N = 24, V = 4 with all options, and some larger
// ones. Tables are complete and acyclic, have the idle slots and peaks stated
// here and the literature's bubble where it is exact, and finish under the
// message semantics that the family claims. Sizes without a table are refused
// with the condition that fails. F, I and W take one slot each.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/FamilyCases.h"
#include "../Support/TestEffort.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include <random>

using namespace pipesched;
using llvm::StringRef;

namespace {
/// Whether the literature's bubble is exact, and the base of its ratio.
enum class Literature { Inexact, OfMakespan, OfSpan };

/// The promises of a case; an empty member promises nothing.
struct Promise {
  /// Texts that the refusal contains; empty if the family has a table.
  std::vector<std::string> refusals;
  std::vector<int64_t> peaks;        ///< activations, by worker
  std::optional<int64_t> peak;       ///< of the worker that holds most
  std::optional<int64_t> memory;     ///< no worker holds more
  std::optional<int64_t> idle;       ///< slots of a worker without work
  std::optional<int64_t> idleWithin; ///< of these, between two of its cells
  Literature literature = Literature::Inexact;
};

struct PromiseOfFamily {
  StringRef family;
  Promise (*of)(const FamilyCase &one);
};
} // namespace

//===----------------------------------------------------------------------===//
// Promises
//===----------------------------------------------------------------------===//

/// Slots from the start of a backward to its gradient.
static int64_t gradientSlots(const FamilyCase &one) {
  return one.sendsAfterInput() ? 1 : 2;
}

template <typename PeakOf>
static Promise promiseOneStage(const FamilyCase &one, PeakOf &&peakOf) {
  Promise promise;
  promise.idle = (one.workers - 1) * (1 + gradientSlots(one));
  for (int64_t r = 0; r < one.workers; ++r)
    promise.peaks.push_back(std::min(one.units(), peakOf(one.workers - r)));
  if (!one.sendsAfterInput())
    promise.literature = Literature::OfMakespan;
  return promise;
}

static Promise promiseGPipe(const FamilyCase &one) {
  return promiseOneStage(one, [&](int64_t) { return one.microbatches; });
}
static Promise promise1F1B(const FamilyCase &one) {
  return promiseOneStage(one, [](int64_t stagesLeft) { return stagesLeft; });
}
static Promise promiseEager1F1B(const FamilyCase &one) {
  return promiseOneStage(one,
                         [](int64_t stagesLeft) { return 2 * stagesLeft - 1; });
}

static Promise promiseZBH1(const FamilyCase &one) {
  Promise promise;
  promise.peak = std::min(one.workers + one.slices() - 1, one.units());
  if (one.units() >= one.workers + one.slices() - 1) {
    promise.idle = promise.idleWithin = one.workers - 1;
    promise.literature = Literature::OfMakespan;
  }
  return promise;
}

static Promise promiseZBH2(const FamilyCase &one) {
  Promise promise;
  promise.peak = std::min(2 * one.workers - 2 + one.slices(), one.units());
  if (one.units() >= 2 * one.workers - 2 + one.slices()) {
    promise.idle = one.workers - 1;
    promise.idleWithin = 0;
    promise.literature = Literature::OfSpan;
  }
  return promise;
}

/// If the last round over the workers has fewer than D microbatches, each
/// worker waits for them once per further chunk.
static Promise promiseLoop(const FamilyCase &one, int64_t lastRound) {
  Promise promise;
  int64_t waitForward = std::max<int64_t>(0, one.workers - lastRound);
  int64_t waitBackward =
      std::max<int64_t>(0, one.workers * gradientSlots(one) - 2 * lastRound);
  promise.idle = (one.workers - 1) * (1 + gradientSlots(one)) +
                 (one.chunks() - 1) * (waitForward + waitBackward);
  promise.peaks.assign(one.workers, one.microbatches * one.chunks());
  return promise;
}

static Promise promiseLoopedBFS(const FamilyCase &one) {
  Promise promise = promiseLoop(one, one.microbatches);
  if (one.microbatches >= one.workers && !one.sendsAfterInput())
    promise.literature = Literature::OfMakespan;
  return promise;
}

static Promise promiseMpmdCircular(const FamilyCase &one) {
  Promise promise = promiseLoop(one, (one.microbatches - 1) % one.workers + 1);
  if (one.microbatches % one.workers == 0 && !one.sendsAfterInput())
    promise.literature = Literature::OfMakespan;
  return promise;
}

/// The rules of PyTorch (no group) and Megatron (a group).
static bool isGroupDefined(const FamilyCase &one) {
  int64_t microbatches = one.microbatches;
  if (!one.options.group)
    return microbatches % std::max<int64_t>(1, microbatches / one.workers) == 0;
  int64_t group = *one.options.group, rest = microbatches % group;
  return group == microbatches ||
         (group >= one.workers && group < microbatches &&
          (rest == 0 || rest >= one.workers));
}

static int64_t groupOf(const FamilyCase &one) {
  int64_t numGroups = std::max<int64_t>(1, one.microbatches / one.workers);
  return one.options.group.value_or(one.microbatches / numGroups);
}

static Promise refuseGroup() {
  Promise promise;
  promise.refusals = {"equal groups, but", "takes a group of at least",
                      "takes a group that leaves none or at least"};
  return promise;
}

static Promise promiseInterleaved1F1B(const FamilyCase &one) {
  if (!isGroupDefined(one))
    return refuseGroup();
  Promise promise = promiseLoop(one, one.microbatches);
  if (one.microbatches < one.workers && one.sendsAfterInput())
    promise.idle.reset();
  if (one.microbatches >= one.workers && !one.sendsAfterInput())
    promise.literature = Literature::OfMakespan;
  for (int64_t r = 0; r < one.workers; ++r)
    promise.peaks[r] = std::min((one.chunks() - 1) * groupOf(one) +
                                    2 * (one.workers - 1 - r) + 1,
                                one.microbatches * one.chunks());
  return promise;
}

/// As interleaved 1F1B with one activation more on each worker, since pairs
/// take here the time of their cells. A single chunk has no groups.
static Promise promiseCombined1F1B(const FamilyCase &one) {
  bool isGrouped = one.chunks() > 1 || one.options.group;
  if (isGrouped && !isGroupDefined(one))
    return refuseGroup();
  Promise promise = promiseLoop(one, one.microbatches);
  if (one.chunks() == 1)
    promise.idle = 3 * (one.workers - 1);
  if (one.chunks() == 1 || one.microbatches >= one.workers)
    promise.literature = Literature::OfMakespan;
  for (int64_t r = 0; r < one.workers; ++r)
    promise.peaks[r] = std::min((one.chunks() - 1) * groupOf(one) +
                                    2 * (one.workers - 1 - r) + 2,
                                one.microbatches * one.chunks());
  return promise;
}

static Promise promiseInterleavedZB(const FamilyCase &one) {
  if (!isGroupDefined(one))
    return refuseGroup();
  Promise promise = promiseZBH1(one);
  promise.peak = std::min((one.chunks() - 1) * groupOf(one) + one.workers,
                          one.microbatches * one.chunks());
  return promise;
}

static Promise promiseSeq1F1B(const FamilyCase &one) {
  int64_t slices = one.slices(), workers = one.workers;
  if (one.chunks() == 1)
    return promiseOneStage(
        one, [&](int64_t stagesLeft) { return stagesLeft + slices - 1; });
  int64_t group = (workers + slices - 1) / slices * slices;
  int64_t rest = one.units() % group;
  Promise promise;
  if (one.units() > group && rest != 0 && rest < workers)
    promise.refusals = {"to the last group, expected none or at least"};
  for (int64_t r = 0; r < workers; ++r)
    promise.peaks.push_back(
        std::min((one.chunks() - 1) * group + 2 * (workers - 1 - r) + slices,
                 one.units() * one.chunks()));
  return promise;
}

static Promise promiseSlimPipe(const FamilyCase &one) {
  int64_t chunks = one.chunks(), slices = one.slices();
  if (chunks == 1)
    return promiseOneStage(
        one, [&](int64_t stagesLeft) { return slices + 2 * (stagesLeft - 1); });
  Promise promise;
  if (slices < one.workers)
    promise.refusals = {"slices of each microbatch, found"};
  for (int64_t r = 0; r < one.workers; ++r)
    promise.peaks.push_back(std::min(
        slices * chunks + 2 * (one.workers - 1 - r), one.units() * chunks));
  return promise;
}

static Promise promiseTeraPipe(const FamilyCase &one) {
  return promiseOneStage(one, [&](int64_t) { return one.units(); });
}

static Promise promiseChimera(const FamilyCase &one) {
  bool isHalving = one.options.construction == ChimeraConstruction::Halving;
  bool isConcat = one.options.construction == ChimeraConstruction::Concat;
  int64_t numPaths = 2 * one.pairs();
  Promise promise;
  if (one.workers % 2 != 0)
    promise.refusals = {"a bidirectional placement takes an even number"};
  else if (one.workers % numPaths != 0)
    promise.refusals = {"must divide half of the"};
  else if (one.microbatches < numPaths)
    promise.refusals = {"paths need at least"};
  else if (isHalving && one.microbatches % (2 * numPaths) != 0)
    promise.refusals = {"takes an even number of microbatches on each path"};
  if (!promise.refusals.empty())
    return promise;
  int64_t unit = one.workers * (isConcat ? 1 : 2);
  promise.peak = std::min(one.microbatches, unit);
  if (one.microbatches % unit != 0 || one.sendsAfterInput())
    return promise;
  // With B = 2F each concatenated unit loses a ramp; doubled units lose one
  // ramp in all.
  int64_t ramp = one.workers / one.pairs() - 2;
  promise.idle = isConcat ? ramp * (one.microbatches / unit + 1) : 3 * ramp / 2;
  if (!isConcat)
    promise.literature = Literature::OfMakespan;
  return promise;
}

static Promise promiseZBV(const FamilyCase &one) {
  Promise promise;
  promise.peak =
      std::min(2 * (one.workers + one.slices() - 1), 2 * one.units());
  if (one.units() >= 2 * one.workers - 2 + one.slices()) {
    promise.idle = one.workers - 1;
    promise.idleWithin = 0;
    promise.literature = Literature::OfSpan;
  }
  return promise;
}

/// With fewer than D microbatches all may run before the memory is full.
static Promise promiseBlocks(const FamilyCase &one, int64_t memory) {
  Promise promise;
  promise.memory = memory;
  if (one.microbatches >= one.workers)
    promise.peak = std::min(memory, 2 * one.microbatches);
  return promise;
}

static Promise promiseVHalf(const FamilyCase &one) {
  int64_t workers = one.workers;
  bool isEven = workers % 2 == 0;
  Promise promise = promiseBlocks(one, workers + (isEven ? 2 : 1));
  if (one.microbatches >= workers && workers <= 2)
    promise.idle = workers - 1;
  else if (one.microbatches >= workers)
    promise.idle = 3 * workers - (isEven ? 7 : 4);
  return promise;
}

static Promise promiseVMin(const FamilyCase &one) {
  int64_t workers = one.workers;
  Promise promise = promiseBlocks(one, 2 * ((workers + 1) / 3 + 1));
  if (one.microbatches >= 2 * workers && workers <= 2)
    promise.idle = workers - 1;
  else if (one.microbatches >= 2 * workers)
    promise.idle = 4 * workers - (workers % 3 == 0 ? 7 : 5);
  return promise;
}

static Promise promiseZBAuto(const FamilyCase &one) {
  Promise promise;
  promise.memory = one.options.memory.value_or(2 * one.workers);
  if (promise.memory < 2)
    promise.refusals = {"takes a memory of at least 2 activations"};
  return promise;
}

static Promise promiseDualPipeV(const FamilyCase &one) {
  Promise promise;
  if (one.microbatches < 2 * one.workers)
    promise.refusals = {"takes at least two microbatches per worker"};
  promise.peak = 2 * one.workers + 1;
  promise.idle = 2 * (one.workers - 1);
  promise.literature = Literature::OfMakespan;
  return promise;
}

static Promise promiseDualPipe(const FamilyCase &one) {
  Promise promise;
  if (one.workers % 2 != 0)
    promise.refusals.emplace_back("takes an even number");
  if (one.microbatches % 2 != 0)
    promise.refusals.emplace_back("takes an even number of microbatches");
  if (one.microbatches < 2)
    promise.refusals.emplace_back("2 paths need at least 2");
  if (one.microbatches < 2 * one.workers)
    promise.refusals.emplace_back("takes at least two microbatches per worker");
  promise.peak = one.workers + 1;
  promise.idle = one.workers - 2;
  promise.literature = Literature::OfMakespan;
  return promise;
}

/// The paper's peaks: one microbatch more than 1F1B for each barrier.
static Promise promiseVocab1F1B(const FamilyCase &one) {
  bool isSecond = one.options.getVocabulary() == VocabularyAlgorithm::Vocab2;
  Promise promise;
  for (int64_t r = 0; r < one.workers; ++r)
    promise.peaks.push_back(
        std::min(one.microbatches, one.workers - r + (isSecond ? 1 : 2)));
  promise.idle = 3 * (one.workers - 1) - (isSecond && one.workers > 1);
  return promise;
}

static Promise promiseVocabVHalf(const FamilyCase &one) {
  bool isSecond = one.options.getVocabulary() == VocabularyAlgorithm::Vocab2;
  Promise promise;
  promise.memory =
      one.workers + (one.workers % 2 == 0 ? 2 : 1) + (isSecond ? 2 : 4);
  return promise;
}

/// The paper's 1.5 D.
static Promise promiseInterlaced1F1B(const FamilyCase &one) {
  Promise promise;
  promise.peak = std::min(one.microbatches, 3 * one.workers / 2);
  promise.idle = 3 * (one.workers - 1);
  return promise;
}

static Promise promiseNothing(const FamilyCase &) { return {}; }

static constexpr PromiseOfFamily kPromises[] = {
    {"gpipe", promiseGPipe},
    {"1f1b", promise1F1B},
    {"eager-1f1b", promiseEager1F1B},
    {"zb-h1", promiseZBH1},
    {"zb-h2", promiseZBH2},
    {"looped-bfs", promiseLoopedBFS},
    {"mpmd-circular", promiseMpmdCircular},
    {"interleaved-1f1b", promiseInterleaved1F1B},
    {"combined-1f1b", promiseCombined1F1B},
    {"interleaved-zb", promiseInterleavedZB},
    {"seq1f1b", promiseSeq1F1B},
    {"slimpipe", promiseSlimPipe},
    {"terapipe", promiseTeraPipe},
    {"chimera", promiseChimera},
    {"zb-v", promiseZBV},
    {"v-half", promiseVHalf},
    {"v-min", promiseVMin},
    {"zb-auto", promiseZBAuto},
    {"dualpipe-v", promiseDualPipeV},
    {"dualpipe", promiseDualPipe},
    {"vocab-1f1b", promiseVocab1F1B},
    {"vocab-v-half", promiseVocabVHalf},
    {"interlaced-1f1b", promiseInterlaced1F1B},
    {"greedy", promiseNothing},
    {"hanayo", promiseNothing},
};

static Promise promiseOf(const FamilyCase &one) {
  for (const PromiseOfFamily &promise : kPromises)
    if (promise.family == one.family->name)
      return promise.of(one);
  ADD_FAILURE() << "a family without a promise";
  return {};
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

namespace {
class FamilyProperties : public testing::TestWithParam<const Family *> {};
} // namespace

/// The most slots, over all workers, from first to last cell less the work
/// between.
static int64_t idleWithin(const TableMetrics &metrics) {
  int64_t most = 0;
  for (size_t worker = 0; worker < metrics.busySlots.size(); ++worker)
    most = std::max(most, metrics.slots - metrics.fillSlots[worker] -
                              metrics.drainSlots[worker] -
                              metrics.busySlots[worker]);
  return most;
}

static void expectRefusal(const Promise &promise, llvm::Error error) {
  std::string message = llvm::toString(std::move(error));
  EXPECT_TRUE(llvm::any_of(promise.refusals, [&](const std::string &part) {
    return message.find(part) != std::string::npos;
  })) << message;
}

/// Expects the phases and the gradient rule that were requested.
static void expectBackwards(const FamilyCase &one, const Table &table) {
  if (!one.options.splitBackward)
    return;
  bool isSplit = llvm::any_of(
      table.rows.front(), [](Cell cell) { return cell.is(Phase::WeightGrad); });
  EXPECT_EQ(isSplit, *one.options.splitBackward);
  if (isSplit)
    EXPECT_EQ(table.gradientAfter, one.options.gradientAfter);
}

static void expectPromise(const Promise &promise, const TableMetrics &metrics) {
  int64_t peak = largest(metrics.peakActivations);
  if (!promise.peaks.empty())
    EXPECT_EQ(metrics.peakActivations, promise.peaks);
  if (promise.peak)
    EXPECT_EQ(peak, *promise.peak);
  if (promise.memory)
    EXPECT_LE(peak, *promise.memory);
  if (promise.idle)
    EXPECT_EQ(metrics.slots - largest(metrics.busySlots), *promise.idle);
  if (promise.idleWithin)
    EXPECT_EQ(idleWithin(metrics), *promise.idleWithin);
}

/// Expects the peak, the literature's bubble where it is exact, and the general
/// form at unit times.
static void expectFormula(const FamilyCase &one, const Promise &promise,
                          const Table &table, const TableMetrics &metrics) {
  FormulaInputs inputs = formulaInputsOf(table.placement, one.options);
  inputs.times = FormulaInputs::Times{1, 1, 1, 0};
  inputs.times->logitsPs = inputs.times->logitsGradPs = 1;
  FormulaResult formula = llvm::cantFail(
      evaluateFormulaOfRows(one.family->name, table.placement, inputs));
  if (promise.peak || !promise.peaks.empty())
    EXPECT_EQ(formula.peakActivations, largest(metrics.peakActivations));
  if (promise.literature == Literature::OfMakespan)
    EXPECT_NEAR(formula.bubbleRatio, metrics.bubbleRatio, 1e-14);
  if (promise.literature == Literature::OfSpan)
    EXPECT_EQ(formula.bubbleRatio, 0);
  EXPECT_EQ(formula.bubbleRatioGeneral.has_value(), promise.idle.has_value());
  if (formula.bubbleRatioGeneral)
    EXPECT_NEAR(*formula.bubbleRatioGeneral, metrics.bubbleRatio, 1e-14);
}

static void checkCase(const FamilyCase &one) {
  Promise promise = promiseOf(one);
  llvm::Expected<Table> table = one.generate();
  ASSERT_EQ(static_cast<bool>(table), promise.refusals.empty());
  if (!table)
    return expectRefusal(promise, table.takeError());
  TableMetrics metrics = measure(*table);
  expectBackwards(one, *table);
  expectPromise(promise, metrics);
  bool isGreedyInSlices = one.family->name == "greedy" && one.slices() > 1;
  bool hasFormula =
      one.family->formula || one.family->placement == FamilyPlacement::Any;
  if (hasFormula && !isGreedyInSlices)
    expectFormula(one, promise, *table, metrics);
}

TEST_P(FamilyProperties, AreKeptForAllSmallSizes) {
  forAllCases(*GetParam(), checkCase);
}

TEST_P(FamilyProperties, AreKeptForLargeSizes) {
  forLargeCases(*GetParam(), checkCase);
}

/// zb-auto with the memory of a family is no longer than the family.
TEST(ZBAuto, IsNoLongerThanTheFamilyOfItsMemory) {
  for (int64_t workers = 1; workers <= mostWorkers(); ++workers)
    for (int64_t n = 1; n <= mostMicrobatches(); ++n) {
      SCOPED_TRACE(testing::Message() << "D=" << workers << " N=" << n);
      auto slotsOf = [&](StringRef family, std::optional<int64_t> memory = {}) {
        FamilyOptions options;
        options.memory = memory;
        return measure(llvm::cantFail(
                           generate(*findFamily(family), workers, n, options)))
            .slots;
      };
      EXPECT_LE(slotsOf("zb-auto", workers + (workers % 2 == 0 ? 2 : 1)),
                slotsOf("v-half"));
      EXPECT_LE(slotsOf("zb-auto", 2 * ((workers + 1) / 3 + 1)),
                slotsOf("v-min"));
      EXPECT_LE(slotsOf("zb-auto"), slotsOf("zb-v"));
      EXPECT_EQ(slotsOf("zb-auto"), slotsOf("zb-auto", 2 * workers));
    }
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static constexpr llvm::ArrayRef<EnumName<MessageSemantics>> kSemantics =
    EnumNames<MessageSemantics>::values;

namespace {
/// The number of tables tried, and of tables that deadlock, per semantics.
struct Stops {
  int64_t numTables = 0, numStops[kNumEnumValues<MessageSemantics>] = {};

  void add(const Program &program) {
    ++numTables;
    for (const EnumName<MessageSemantics> &semantics : kSemantics)
      if (llvm::Error error = verifyMessages(program, semantics.value)) {
        llvm::consumeError(std::move(error));
        ++numStops[static_cast<unsigned>(semantics.value)];
      }
  }
};
} // namespace

/// All tables of the family's options over all sizes; for greedy, on the paths
/// of some families for each size, which together are all.
template <typename Check>
static void forAllTables(const Family &family, Check &&check) {
  std::minstd_rand random;
  forAllCases(family, [&](const FamilyCase &one) {
    if (family.placement == FamilyPlacement::Any) {
      for (const Family *other : allFamilies()) {
        if (random() % (kIsSanitized ? 13 : 5) != 0)
          continue;
        llvm::Expected<Placement> placement =
            placeFamily(*other, one.workers, one.microbatches);
        if (!placement)
          llvm::consumeError(placement.takeError());
        else if (placement->getNumSlices() == 1 ||
                 placement->getNumSlices() == one.options.slices)
          check(llvm::cantFail(generate(family, *placement, one.options)));
      }
      return;
    }
    llvm::Expected<Table> table = one.generate();
    if (table)
      check(*table);
    else
      llvm::consumeError(table.takeError());
  });
}

/// A claim holds for all tables; without a claim some table deadlocks.
TEST_P(FamilyProperties, FinishUnderTheSemanticsThatTheyClaim) {
  const Family &family = *GetParam();
  for (ReceivePlacement receives :
       {ReceivePlacement::Arrival, ReceivePlacement::Consumer}) {
    Stops stops;
    forAllTables(family, [&](const Table &table) {
      stops.add(llvm::cantFail(lowerTable(table.view(), receives)));
    });
    EXPECT_GT(stops.numTables, 0);
    for (const EnumName<MessageSemantics> &semantics : kSemantics) {
      SCOPED_TRACE(
          testing::Message()
          << family.name.str() << ", " << semantics.name.str()
          << ", receive at "
          << (receives == ReceivePlacement::Arrival ? "arrival" : "consumer"));
      EXPECT_EQ(stops.numStops[static_cast<unsigned>(semantics.value)] == 0,
                family.finishesUnder(semantics.value, receives));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyProperties,
                         testing::ValuesIn(allFamilies()), printFamily);
