//===- CompareArenasTest.cpp - Arenas are predicted peaks, explained ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The assignment and the memory analysis share no code: one follows tensors of
// functions, the other adds up bytes that pipe-attach-stage-costs has derived.
// Here they meet. Every byte of the difference has a name, and each name is
// checked against its description in docs/Buffers.md.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/CompareArenas.h"
#include "BufferPrograms.h"
#include "PipeSched/Stages/AssignBuffers.h"

using namespace mlir;
using namespace pipesched;

namespace {
/// Each program with tensors of odd sizes, and with equal ones of 64 bytes.
class CompareArenas : public BufferPrograms {
protected:
  void check(const BufferCase &given, int64_t inFlight);
  std::vector<ArenaComparison> compare(const BufferCase &given,
                                       const std::string &assign,
                                       int64_t addedBytes = 0);
};
} // namespace

/// `addedBytes` falsifies the costs of stage 0.
std::vector<ArenaComparison> CompareArenas::compare(const BufferCase &given,
                                                    const std::string &assign,
                                                    int64_t addedBytes) {
  BufferCase costed = given;
  costed.pipeline += ",pipe-attach-stage-costs";
  OwningOpRef<ModuleOp> module = build(costed, assign);
  exec::ProgramOp program = *module->getOps<exec::ProgramOp>().begin();
  FailureOr<CostInputs> costs = loadCosts(program);
  EXPECT_TRUE(succeeded(costs) && costs->model) << errors;
  costs->model->blocks[0].activationBytes += addedBytes;
  FailureOr<std::vector<ArenaComparison>> results =
      compareArenas(program, *costs);
  EXPECT_TRUE(succeeded(results)) << errors;
  return *results;
}

static bool has(const BufferCase &given, const char *pass) {
  return StringRef(given.pipeline).contains(pass);
}

void CompareArenas::check(const BufferCase &given, int64_t inFlight) {
  bool hasCopies = has(given, "offload");
  std::string assign =
      "exec-assign-buffers{in-flight=" + std::to_string(inFlight) + "}";
  for (const ArenaComparison &row : compare(given, assign)) {
    EXPECT_GT(row.predicted, 0);
    EXPECT_EQ(row.arena, row.predicted - row.elsewhere - row.unknown -
                             row.handedOver - row.missing + row.ahead +
                             row.outputs + row.gradients + row.passing +
                             row.alignment + row.inFlight + row.gaps);
    // Costs count no tensor that the functions do not keep.
    EXPECT_EQ(row.unknown, 0);
    EXPECT_EQ(row.missing, 0);
    if (!hasCopies) {
      EXPECT_EQ(row.peakInRow, row.predicted);
      EXPECT_GE(row.elsewhere, 0);
    }
    EXPECT_EQ(row.live, row.kept - row.handedOver + row.ahead + row.outputs +
                            row.gradients + row.passing);
    // No gap could have held the tensor for which the arena grew.
    if (row.gaps > 0) {
      EXPECT_LT(row.largestGap, row.grownBy);
    }
    if (!given.isUniform)
      continue;
    EXPECT_EQ(row.alignment, 0);
    EXPECT_EQ(row.gaps, 0);
    // Only sends keep a place that fits, and only the latest ones.
    EXPECT_LE(row.inFlight, 64 * inFlight);
  }
}

TEST_P(CompareArenas, EachByteIsExplained) {
  BufferCase given = GetParam();
  for (bool isUniform : {false, true})
    for (int64_t inFlight : {1, 2, 4}) {
      given.isUniform = isUniform;
      SCOPED_TRACE((isUniform ? "uniform, in-flight " : "in-flight ") +
                   std::to_string(inFlight));
      check(given, inFlight);
    }
}

static std::vector<BufferCase> allCases() {
  struct Kind {
    const char *pipeline;
    int64_t chunks;
  };
  const Kind kinds[] = {
      {"pipe-schedule-gpipe", 1},
      {"pipe-schedule-1f1b", 1},
      {"pipe-schedule-1f1b,pipe-split-backward", 1},
      {"pipe-schedule-eager-1f1b", 1},
      {"pipe-schedule-interleaved-1f1b{chunks=2}", 2},
      {"pipe-schedule-interleaved-zb{chunks=2}", 2},
      {"pipe-schedule-looped-bfs{chunks=2}", 2},
      {"pipe-schedule-zb-h1", 1},
      {"pipe-schedule-zb-h2", 1},
      {"pipe-schedule-zb-v", 2},
      {"pipe-schedule-v-half", 2},
      {"pipe-schedule-v-min", 2},
      {"pipe-schedule-hanayo{waves=1}", 2},
      {"pipe-schedule-greedy", 1},
      {"pipe-schedule-chimera,pipe-add-optimizer", 1},
      {"pipe-schedule-chimera", 1},
      {"pipe-schedule-gpipe,pipe-add-recompute", 1},
      {"pipe-schedule-1f1b,pipe-add-recompute", 1},
      {"pipe-schedule-zb-h1,pipe-add-recompute", 1},
      {"pipe-schedule-gpipe,pipe-add-offload", 1},
      {"pipe-schedule-1f1b,pipe-add-offload", 1},
      {"pipe-schedule-zb-h1,pipe-add-offload", 1},
      {"pipe-schedule-zb-v,pipe-add-offload", 2},
  };
  std::vector<BufferCase> cases;
  for (int64_t workers : {2, 4, 8})
    for (const Kind &kind : kinds)
      cases.push_back({std::to_string(workers), std::to_string(2 * workers),
                       workers * kind.chunks, kind.pipeline});
  for (const char *pipeline : {"pipe-schedule-1f1b", "pipe-schedule-zb-h1"})
    cases.push_back({"1", "3", 1, pipeline});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Schedules, CompareArenas,
                         testing::ValuesIn(allCases()), nameOfCase);

//===----------------------------------------------------------------------===//
// Terms by head
//===----------------------------------------------------------------------===//

namespace {
using ArenaTerms = CompareArenas;
} // namespace

/// The last worker of 1F1B with tensors of 64 bytes. The arena grows last in an
/// I, when two gradients are being sent and no input is there ahead.
TEST_F(ArenaTerms, LastWorkerOf1F1B) {
  BufferCase given{"2", "6", 2, "pipe-schedule-1f1b,pipe-split-backward",
                   /*isUniform=*/true};
  ArenaComparison row = compare(given, "exec-assign-buffers")[1];
  EXPECT_EQ(row.predicted, 4 * 64); // x, y for the loss, a, b
  EXPECT_EQ(row.gradients, 2 * 64); // dy, dx
  EXPECT_EQ(row.passing, 64);       // dz
  EXPECT_EQ(row.inFlight, 2 * 64);
  EXPECT_EQ(row.arena, 9 * 64);
}

/// More sends in flight take more places, as many as the option says.
TEST_F(ArenaTerms, SendsInFlight) {
  BufferCase given{"2", "8", 2, "pipe-schedule-1f1b", /*isUniform=*/true};
  for (int64_t inFlight : {1, 2, 3})
    EXPECT_EQ(compare(given, "exec-assign-buffers{in-flight=" +
                                 std::to_string(inFlight) + "}")[0]
                  .inFlight,
              64 * inFlight);
}

/// Costs that count other bytes are noticed.
TEST_F(ArenaTerms, FalseCosts) {
  BufferCase given{"4", "8", 4, "pipe-schedule-gpipe"};
  std::vector<ArenaComparison> rows =
      compare(given, "exec-assign-buffers", /*addedBytes=*/10);
  EXPECT_EQ(rows[0].unknown, 8 * 10);
  EXPECT_EQ(rows[1].unknown, 0);
}
