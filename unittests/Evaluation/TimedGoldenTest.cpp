//===- TimedGoldenTest.cpp - Times of other implementations ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files of test/data/golden/timed (their README has the rule): the order of
// each rank is imported, profiled as the file's name says and timed with
// transport `delay`; starts and ends must equal the peer's.
//
//===----------------------------------------------------------------------===//

#include "../Support/TestSupport.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace pipesched;
using namespace pipesched::test;
using llvm::StringRef;

namespace {
/// The times of a peer for one cell, in its unit of time.
struct TimedCell {
  double start = 0, end = 0;
};

struct TimedFile {
  Table table;
  std::vector<std::vector<TimedCell>> times; ///< by row and cell
};

/// In the peer's unit of time.
struct TimedCase {
  StringRef name;
  Path (*place)(int64_t numWorkers);
  int64_t workers, microbatches;
  double forward, backward, inputGrad, weightGrad, comm;
  bool isSync = false;
};
} // namespace

/// Picoseconds per unit of the peers, so that all durations are integers.
static constexpr double kScale = 1e6;

static void readLine(TimedFile &file, StringRef line) {
  llvm::SmallVector<StringRef, 4> fields;
  line.split(fields, ',');
  int64_t rank = 0;
  TimedCell times;
  if (fields.size() != 4 || fields[0].getAsInteger(10, rank) || rank < 0 ||
      rank >= static_cast<int64_t>(file.table.rows.size()) ||
      fields[2].getAsDouble(times.start) || fields[3].getAsDouble(times.end)) {
    ADD_FAILURE() << "not a timed cell: " << line.str();
    return;
  }
  file.table.rows[rank].push_back(parseCell(fields[1]));
  file.times[rank].push_back(times);
}

static TimedFile readTimed(const TimedCase &timedCase) {
  TimedFile file;
  file.table.placement = llvm::cantFail(
      Placement::create(timedCase.workers, timedCase.microbatches,
                        {timedCase.place(timedCase.workers)}));
  file.table.rows.resize(timedCase.workers);
  file.times.resize(timedCase.workers);
  llvm::SmallString<256> path(PIPESCHED_GOLDEN_DIR);
  llvm::sys::path::append(path, "timed", timedCase.name + ".csv");
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer) {
    ADD_FAILURE() << path.c_str() << ": " << buffer.getError().message();
    return file;
  }
  llvm::SmallVector<StringRef> lines;
  (*buffer)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : llvm::ArrayRef(lines).drop_front())
    readLine(file, line.trim());
  return file;
}

static Profile profileOf(const TimedCase &timedCase) {
  Profile profile;
  auto set = [&](Phase phase, double time) {
    if (time > 0)
      profile.phasePs[phase] = {std::llround(time * kScale)};
  };
  set(Phase::Forward, timedCase.forward);
  set(Phase::Backward, timedCase.backward);
  set(Phase::InputGrad, timedCase.inputGrad);
  set(Phase::WeightGrad, timedCase.weightGrad);
  profile.commPs = {std::llround(timedCase.comm * kScale)};
  return profile;
}

static Execution timeCase(const TimedCase &timedCase, const Table &table) {
  CostInputs costs;
  costs.profile = profileOf(timedCase);
  Program program = lower(table);
  if (timedCase.isSync)
    synchronizeForwards(program);
  return llvm::cantFail(
      executeProgram(program, table.placement, costs, Transport::Delay));
}

static void expectSameTime(int64_t ours, double theirs) {
  EXPECT_NEAR(ours / kScale, theirs, 1e-9 * std::max(1.0, std::abs(theirs)));
}

static void checkCase(const TimedCase &timedCase) {
  SCOPED_TRACE(timedCase.name.str());
  TimedFile file = readTimed(timedCase);
  Execution execution = timeCase(timedCase, file.table);
  for (int64_t worker = 0; worker < timedCase.workers; ++worker) {
    llvm::ArrayRef<uint32_t> row = execution.graph.row(worker);
    const std::vector<TimedCell> &theirs = file.times[worker];
    ASSERT_EQ(row.size(), theirs.size());
    EXPECT_FALSE(row.empty());
    for (auto [task, times] : llvm::zip_equal(row, theirs)) {
      SCOPED_TRACE(execution.graph.cell[task].str());
      int64_t start = execution.timeline.startPs[task];
      expectSameTime(start, times.start);
      expectSameTime(start + execution.times.occupancyPs[task], times.end);
    }
  }
}

TEST(TimedGolden, ZeroBubbleLinear) {
  checkCase({"zbpp_zbh1_D4_N8_F1000_I1200_W800_C100", placeLinear, 4, 8, 1000,
             0, 1200, 800, 100});
}

TEST(TimedGolden, ZeroBubbleV) {
  checkCase({"zbpp_vhalf_D4_N8_F1000_I1200_W800_C100", placeV, 4, 8, 1000, 0,
             1200, 800, 100});
}

TEST(TimedGolden, OneFOneBWithSynchronousSends) {
  checkCase({"ppviz_1f1b_D4_N8_p2p0.1_sync", placeLinear, 4, 8, 1, 2, 0, 0, 0.1,
             /*isSync=*/true});
}
