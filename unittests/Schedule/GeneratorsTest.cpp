//===- GeneratorsTest.cpp - Small tables and refusals of generators -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows by hand, paths that give the same rows, and refusals of generators.
// FamilyPropertiesTest tries all sizes; GoldenOrdersTest compares with the rows
// of other implementations.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Generators.h"
#include "../Support/CheckTable.h"
#include "../Support/ErrorText.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Schedule/Table/PathText.h"
#include "gtest/gtest.h"

using namespace pipesched;
using llvm::StringRef;

namespace {
/// The arguments of a generator.
struct Given {
  StringRef family;
  int64_t workers, microbatches;
  StringRef paths = "";   ///< the family's if empty
  StringRef options = ""; ///< such as "chunks=2 group=3"
};
struct HandRows {
  Given given;
  std::vector<StringRef> rows; ///< an empty one is not compared
};
struct SameRows {
  Given given, other;
};
struct Refusal {
  Given given;
  const char *message;
};
} // namespace

static FamilyOptions parseOptions(StringRef text) {
  FamilyOptions options;
  llvm::SmallVector<StringRef> words;
  llvm::SplitString(text, words);
  for (StringRef word : words) {
    auto [name, value] = word.split('=');
    llvm::cantFail(setOption(options, name, value));
  }
  return options;
}

static llvm::Expected<Table> make(const Given &given) {
  const Family &family = *findFamily(given.family);
  FamilyOptions options = parseOptions(given.options);
  if (given.paths.empty())
    return generate(family, given.workers, given.microbatches, options);
  return generate(family,
                  makePlacement(given.workers, given.microbatches,
                                llvm::cantFail(parsePaths(given.paths))),
                  options);
}

static std::string describe(const Given &given) {
  return llvm::formatv("{0} D={1} N={2} {3} {4}", given.family, given.workers,
                       given.microbatches, given.paths, given.options);
}

static const HandRows kRows[] = {
    // The figure of Chimera's paper (arXiv 2107.06925).
    {{"chimera", 4, 4, "0,1,2,3 takes 0:2;3,2,1,0 takes 2:4"},
     {"0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1", "1F0 2F2 1F1 2F3 2B2 1B0 2B3 1B1",
      "1F2 2F0 1F3 2F1 2B0 1B2 2B1 1B3", "0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3"}},
    {{"chimera", 2, 4, "0,1 takes 0:2;1,0 takes 2:4", "construction=doubling"},
     {"0F0 0F1 1F2 1F3 1B2 0B0 1B3 0B1", "0F2 0F3 1F0 1F1 1B0 0B2 1B1 0B3"}},
    // Two pairs: four paths that enter at every worker.
    {{"chimera", 4, 4, "", "pairs=2"}, {"0F0 1F3 2F2 3F1 3B1 2B2 1B3 0B0"}},
    {{"chimera", 4, 3}, {"0F0 0F2 3F1 3B1 0B0 0B2"}},
    {{"combined-1f1b", 2, 5, "", "chunks=1"},
     {"0F0 0F1 0F2 0F3+0B0 0F4+0B1 0B2 0B3 0B4",
      "1F0 1F1+1B0 1F2+1B1 1F3+1B2 1F4+1B3 1B4"}},
    {{"combined-1f1b", 1, 3, "", "chunks=1"}, {"0F0 0F1+0B0 0F2+0B1 0B2"}},
    {{"interleaved-1f1b", 2, 5, "", "chunks=2 group=3"},
     {"", "1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1F3 "
          "1B0 1F4 1B1 3F3 1B2 3F4 3B3 3B4 1B3 1B4"}},
    {{"interleaved-1f1b", 2, 1, "1,0,1,0"},
     {"1F0 3F0 3B0 1B0", "0F0 2F0 2B0 0B0"}},
    {{"looped-bfs", 1, 2, "", "chunks=1 split-backward=true"},
     {"0F0 0F1 0I1 0W1 0I0 0W0"}},
    {{"zb-v", 2, 1, "1,0,0,1"},
     {"1F0 2F0 2I0 2W0 1I0 1W0", "0F0 3F0 3I0 3W0 0I0 0W0"}},
    {{"v-half", 2, 2},
     {"0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1",
      "1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 1W0 2W1 1W1"}},
    {{"greedy", 2, 3},
     {"0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2",
      "1F0 1I0 1W0 1F1 1I1 1W1 1F2 1I2 1W2"}},
};

TEST(Generators, GiveRowsByHand) {
  for (const HandRows &one : kRows) {
    SCOPED_TRACE(describe(one.given));
    Table table = llvm::cantFail(make(one.given));
    for (auto [row, wanted] : llvm::zip(table.rows, one.rows))
      if (!wanted.empty())
        EXPECT_EQ(printRow(row), wanted);
  }
}

static const SameRows kSameRows[] = {
    {{"chimera", 4, 8, "0,1,2,3 takes 0:4;3,2,1,0 takes 4:8",
      "construction=halving"},
     {"chimera", 4, 8, "0,1,2,3 takes 0:4;3,2,1,0 takes 4:8",
      "construction=doubling"}},
    // Paths that take nothing take microbatches in turn, DualPipe's halves.
    {{"chimera", 2, 4, "0,1;1,0"}, {"chimera", 2, 4}},
    {{"dualpipe", 4, 8, "0,1,2,3;3,2,1,0"}, {"dualpipe", 4, 8}},
    {{"dualpipe", 4, 8, "0,1,2,3 takes 0:8:2;3,2,1,0 takes 1:8:2"},
     {"dualpipe", 4, 8}},
    // A path gives the number of chunks or waves.
    {{"looped-bfs", 2, 2, "0,1,0,1"}, {"looped-bfs", 2, 2, "", "chunks=2"}},
    {{"hanayo", 2, 2, "0,1,1,0,0,1,1,0"}, {"greedy", 2, 2, "0,1,1,0,0,1,1,0"}},
};

TEST(Generators, GiveTheSameRows) {
  for (const SameRows &one : kSameRows) {
    SCOPED_TRACE(describe(one.given));
    Table table = llvm::cantFail(make(one.given));
    Table other = llvm::cantFail(make(one.other));
    EXPECT_EQ(printRows(table.rows), printRows(other.rows));
    EXPECT_EQ(table.placement.getPath(0).takes,
              other.placement.getPath(0).takes);
  }
}

static const Refusal kRefusals[] = {
    {{"chimera", 2, 8, "0,1,1,0"},
     "chimera takes mirrored pairs of paths, found 1 path"},
    {{"chimera", 2, 8, "0,1;0,1"},
     "chimera takes a bidirectional placement, with stage 0 of path 1 on "
     "worker 1, found it on worker 0"},
    {{"chimera", 4, 8, "0,1;1,0"},
     "chimera takes one stage per worker on each path, found 2 stages on 4 "
     "workers on path 0"},
    {{"chimera", 2, 8, "0,0;0,0"},
     "chimera takes a path that visits every worker before it comes back to "
     "one, found stage 1 on worker 0 again"},
    {{"chimera", 2, 8, "0,1;1,0;0,1;1,0"},
     "chimera takes pairs of paths whose number divides half of the 2 workers, "
     "found 2"},
    {{"chimera", 2, 8, "0,1 takes 0:6;1,0 takes 6:8"},
     "chimera shares microbatches out evenly, found 6 on path 0 and 2 on path "
     "1"},
    {{"chimera", 4, 8, "0,1,2,3;3,2,1,0", "pairs=2"},
     "chimera is asked for 2 pairs, but the paths are 1"},
    {{"chimera", 4, 6, "0,1,2,3;3,2,1,0", "construction=halving"},
     "chimera with halving takes an even number of microbatches on each path, "
     "where each half counts as a microbatch, found 3 on path 0; the nearest "
     "are 2 and 4"},
    {{"chimera", 3, 4},
     "3 workers: a bidirectional placement takes an even number; the nearest "
     "are 2 and 4"},
    {{"chimera", 4, 1}, "1 microbatches: 2 paths need at least 2"},
    {{"dualpipe", 3, 8, "0,1,2;2,1,0"},
     "dualpipe takes an even number of workers, found 3; the nearest are 2 and "
     "4"},
    {{"dualpipe", 4, 6},
     "dualpipe takes at least two microbatches per worker, found 6 on 4 "
     "workers; the nearest is 8"},
    {{"dualpipe", 4, 9, "0,1,2,3 takes 0:9:2;3,2,1,0 takes 1:9:2"},
     "dualpipe takes an even number of microbatches, half of them for each "
     "direction, found 9; the nearest are 8 and 10"},
    {{"dualpipe", 2, 4, "1,0"}, "dualpipe takes two mirrored paths, found 1"},
    {{"dualpipe-v", 2, 4, "1,0"},
     "dualpipe-v takes a V path, down all workers and up again in 4 stages on "
     "2 workers, found 2 stages"},
    {{"greedy", 2, 1, "0,1;1,0"}, "1 microbatches: 2 paths need at least 2"},
    {{"hanayo", 2, 2, "0,1,1,0,0,1,1,0", "waves=1"},
     "hanayo is asked for 1 waves, but the path has 2"},
    {{"hanayo", 2, 2, "0,1,0,1"},
     "hanayo takes a wave placement, with stage 2 on worker 1, found it on "
     "worker 0"},
    {{"hanayo", 2, 2, "1,0"},
     "hanayo takes a wave placement, of a multiple of 4 stages on 2 workers, "
     "found 2 stages"},
    {{"interleaved-1f1b", 2, 2, "0,1;1,0"},
     "interleaved-1f1b takes one path, found 2"},
    {{"interleaved-1f1b", 2, 2, "0,1,0"},
     "interleaved-1f1b takes the same number of stages on every worker, found "
     "3 stages on 2 workers"},
    {{"interleaved-1f1b", 2, 2, "0,1,1,0"},
     "interleaved-1f1b takes an interleaved path, with stage 2 on worker 0 as "
     "stage 0 is, found it on worker 1"},
    {{"interleaved-1f1b", 4, 9},
     "interleaved-1f1b divides 9 microbatches on 4 workers into 2 equal "
     "groups, but 2 does not divide 9; the nearest are 8 and 10, or give a "
     "group"},
    {{"interleaved-1f1b", 4, 10, "", "group=4"},
     "interleaved-1f1b on 4 workers takes a group that leaves none or at least "
     "4 of the 10 microbatches to the last group, found 4, which leaves 2; the "
     "nearest is 5"},
    {{"interleaved-zb", 4, 8, "", "group=2"},
     "interleaved-zb on 4 workers takes a group of at least 4 and at most all "
     "8 microbatches, found 2; the nearest is 4"},
    {{"interleaved-zb", 4, 8, "", "group=9"},
     "interleaved-zb on 4 workers takes a group of at least 4 and at most all "
     "8 microbatches, found 9; the nearest is 8"},
    {{"looped-bfs", 2, 2, "0,1,0,1", "chunks=3"},
     "looped-bfs is asked for 3 chunks, but the path has 2 stages on each "
     "worker"},
    {{"seq1f1b", 8, 16, "", "chunks=2 slices=3"},
     "seq1f1b with chunks on 8 workers takes 16 microbatches of 3 slices in "
     "groups of 9 slices, which leaves 3 to the last group, expected none or "
     "at least 8; of the microbatches the nearest are 15 and 18"},
    {{"slimpipe", 8, 8, "", "chunks=2 slices=4"},
     "slimpipe with 2 chunks on 8 workers takes at least 8 slices of each "
     "microbatch, found 4"},
    {{"v-half", 1, Cell::kMaxMicrobatches},
     "v-half of 2147483647 microbatches on 1 workers has 12884901882 cells: a "
     "table may have 268435456 at most"},
    {{"v-half", 2, 2, "0,1;1,0"}, "v-half takes one path, found 2"},
    {{"zb-auto", 2, 2, "", "memory=1"},
     "zb-auto takes a memory of at least 2 activations, one for each stage of "
     "a worker, found 1"},
};

TEST(Generators, RefuseWhatTheyHaveNoRuleFor) {
  for (const Refusal &refusal : kRefusals)
    EXPECT_EQ(errorOf(make(refusal.given)), refusal.message)
        << describe(refusal.given);
}

TEST(Generators, RefuseGradientsAfterADelayedW) {
  GeneratorOptions options;
  options.gradientAfter = GradientAfter::WeightGrad;
  for (auto generate :
       {generateZBH1, generateZBH2, generateZBV, generateDualPipe})
    EXPECT_NE(errorOf(generate(makeLinear(2, 4), options))
                  .find("delays W, so it must send the gradient after I"),
              std::string::npos);
}

/// Slices that a placement already has, and their limits.
TEST(Generators, RefuseOtherSlices) {
  const Family &family = *findFamily("seq1f1b");
  FamilyOptions options;
  options.slices = 0;
  EXPECT_EQ(errorOf(generate(family, 4, 8, options)),
            "0 slices of each of 8 microbatches: there may be 1 to 268435455");
  options.slices = 5;
  Placement placement =
      llvm::cantFail(Placement::create(4, 8, {placeLinear(4)}, 2));
  EXPECT_EQ(errorOf(generate(family, placement, options)),
            "seq1f1b is asked for 5 slices, but each microbatch has 2");
}

static Table makeSliced(StringRef family, int64_t workers, int64_t microbatches,
                        int64_t slices, FamilyOptions options = {}) {
  options.slices = slices;
  return llvm::cantFail(
      generate(*findFamily(family), workers, microbatches, options));
}

/// Table 4 of SlimPipe: 8 workers, 5 chunks, 16 slices, 8 microbatches have a
/// bubble of 1.08 %.
TEST(SlicedFamilies, HaveThePublishedBubbleOfSlimPipe) {
  FamilyOptions options;
  options.chunks = 5;
  Table table = makeSliced("slimpipe", 8, 8, 16, options);
  FormulaResult formula = llvm::cantFail(
      evaluateFormula("slimpipe", formulaInputsOf(table.placement, options)));
  EXPECT_NEAR(100 * formula.bubbleRatio, 1.08, 0.005);
  EXPECT_EQ(formula.peakActivations, 16 * 5 + 2 * 7);
  EXPECT_EQ(largest(measure(table).peakActivations), formula.peakActivations);
}

/// With one slice each row equals the row of a family without slices.
TEST(SlicedFamilies, WithOneSliceAreFamiliesWithout) {
  auto expectSame = [](StringRef sliced, FamilyOptions options, StringRef plain,
                       FamilyOptions plainOptions) {
    for (int64_t workers = 1; workers <= 6; ++workers)
      for (int64_t microbatches = 1; microbatches <= 12; ++microbatches) {
        FamilyOptions one = options;
        one.slices = 1;
        llvm::Expected<Table> table =
            generate(*findFamily(sliced), workers, microbatches, one);
        llvm::Expected<Table> wanted =
            generate(*findFamily(plain), workers, microbatches, plainOptions);
        SCOPED_TRACE(testing::Message() << sliced.str() << " D=" << workers
                                        << " N=" << microbatches);
        if (table && wanted)
          EXPECT_EQ(table->rows, wanted->rows);
        llvm::consumeError(table.takeError());
        llvm::consumeError(wanted.takeError());
      }
  };
  expectSame("seq1f1b", {}, "1f1b", {});
  expectSame("slimpipe", {}, "eager-1f1b", {});
  expectSame("terapipe", {}, "gpipe", {});
  for (StringRef family : {"zb-h1", "zb-h2", "zb-v", "greedy"})
    expectSame(family, {}, family, {});
  for (int64_t workers = 2; workers <= 6; ++workers) {
    FamilyOptions chunks, group;
    chunks.chunks = group.chunks = 3;
    group.group = workers;
    for (int64_t microbatches : {workers, 3 * workers})
      EXPECT_EQ(makeSliced("seq1f1b", workers, microbatches, 1, chunks).rows,
                llvm::cantFail(generate(*findFamily("interleaved-1f1b"),
                                        workers, microbatches, group))
                    .rows);
  }
}
