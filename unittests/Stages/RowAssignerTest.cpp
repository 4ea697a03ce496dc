//===- RowAssignerTest.cpp - Rows that repeat have the same places --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares places that follow from those of earlier periods with those of a
// walk over the whole row.
//
//===----------------------------------------------------------------------===//

#include "../../lib/Stages/RowAssigner.h"
#include "../../lib/Stages/LivenessPeriod.h"
#include "BufferPrograms.h"
#include "PipeSched/Adapter/LoadProgram.h"

using namespace mlir;
using namespace pipesched;

namespace {
class RowAssigner : public BufferPrograms {
protected:
  /// What a program keeps alive for as long as it is read.
  struct Program {
    OwningOpRef<ModuleOp> module;
    LoadedProgram loaded;
    StageFunctions functions;
  };

  Program load(const BufferCase &given) {
    Program program;
    program.module = build(given, "exec-verify");
    auto op = *program.module->getOps<exec::ProgramOp>().begin();
    program.loaded = *loadProgram(op);
    program.functions = *loadStageFunctions(op);
    return program;
  }

  static RowBuffers assign(const Program &program, int64_t worker,
                           int64_t inFlight, bool leaps) {
    RowBuffers row;
    row.liveness =
        *findLiveness(program.loaded, StageKernels(program.functions), worker);
    EXPECT_TRUE(
        succeeded(assignRow(program.loaded, worker, inFlight, row, leaps)));
    return row;
  }
};

bool isSame(const RowBuffers &a, const RowBuffers &b) {
  auto same = [](const TensorVersion &x, const TensorVersion &y) {
    return x.offset == y.offset && x.made == y.made && x.bytes == y.bytes;
  };
  return a.waits == b.waits && a.waitBegins == b.waitBegins &&
         a.use.arena == b.use.arena && a.use.host == b.use.host &&
         a.use.activations == b.use.activations &&
         a.use.messages == b.use.messages && a.use.padding == b.use.padding &&
         llvm::equal(a.liveness.versions, b.liveness.versions, same);
}
} // namespace

TEST_P(RowAssigner, RepeatsWhatTheWholeRowWouldHave) {
  Program program = load(GetParam());
  uint32_t numRepeated = 0;
  int64_t numWorkers = program.loaded.program.getNumWorkers();
  for (int64_t worker = 0; worker < numWorkers; ++worker)
    for (int64_t inFlight :
         {int64_t(1), int64_t(2), std::numeric_limits<int64_t>::max()}) {
      RowBuffers leapt = assign(program, worker, inFlight, /*leaps=*/true);
      RowBuffers whole = assign(program, worker, inFlight, /*leaps=*/false);
      EXPECT_TRUE(isSame(leapt, whole)) << "worker " << worker;
      EXPECT_EQ(whole.numRepeated, 0u);
      numRepeated += leapt.numRepeated;
    }
  bool neverRepeats = StringRef(GetParam().pipeline).contains("gpipe");
  EXPECT_EQ(numRepeated == 0, neverRepeats);
}

static const BufferCase kCases[] = {
    {"4", "200", 4, "pipe-schedule-gpipe"},
    {"4", "200", 4, "pipe-schedule-1f1b"},
    {"4", "200", 4, "pipe-schedule-1f1b", /*isUniform=*/true},
    {"4", "200", 4, "pipe-schedule-1f1b,pipe-split-backward"},
    {"3", "201", 3, "pipe-schedule-eager-1f1b"},
    {"4", "400", 8, "pipe-schedule-interleaved-1f1b{chunks=2}", true},
    {"4", "400", 8, "pipe-schedule-interleaved-zb{chunks=2}", true},
    {"4", "200", 4, "pipe-schedule-zb-h1"},
    {"4", "200", 4, "pipe-schedule-zb-h2"},
    {"4", "400", 8, "pipe-schedule-zb-v", true},
    {"4", "400", 8, "pipe-schedule-v-half", true},
    {"4", "400", 4, "pipe-schedule-chimera,pipe-add-optimizer", true},
    {"4", "400", 4, "pipe-schedule-dualpipe,pipe-add-optimizer", true},
    {"4", "400", 8, "pipe-schedule-dualpipe-v", true},
    {"4", "200", 4, "pipe-schedule-1f1b,pipe-add-recompute"},
    {"4", "400", 4, "pipe-schedule-1f1b,pipe-add-offload", true},
    {"4", "400", 4, "pipe-schedule-zb-h1,pipe-add-offload", true},
};

INSTANTIATE_TEST_SUITE_P(Schedules, RowAssigner, testing::ValuesIn(kCases),
                         nameOfCase);

/// The rows of 1F1B between warm-up and drain: receive, F, send, receive, B,
/// send.
TEST_F(RowAssigner, FindsThePeriodOfARow) {
  Program program = load({"4", "20", 4, "pipe-schedule-1f1b"});
  RowLiveness liveness =
      *findLiveness(program.loaded, StageKernels(program.functions), 1);
  std::optional<LivenessPeriod> period =
      findLivenessPeriod(program.loaded, liveness, 1);
  ASSERT_TRUE(period.has_value());
  EXPECT_EQ(period->length, 6u);
  // Received: x, dy. F makes y and two residuals, B makes dx and one residual.
  EXPECT_EQ(period->versions, 7u);
  EXPECT_GE(period->size(), 12 * period->length);
}

TEST_F(RowAssigner, FindsNoPeriodInAShortRow) {
  Program program = load({"4", "4", 4, "pipe-schedule-1f1b"});
  RowLiveness liveness =
      *findLiveness(program.loaded, StageKernels(program.functions), 0);
  EXPECT_FALSE(findLivenessPeriod(program.loaded, liveness, 0).has_value());
}
