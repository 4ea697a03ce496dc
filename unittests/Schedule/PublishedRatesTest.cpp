//===- PublishedRatesTest.cpp - Bubble rates of the zero-bubble paper -----===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables 5 and 9 of Qi et al. 2024 (arXiv 2401.10241), from their profiled
// times; the file says how a rate is defined.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>

using namespace pipesched;
using Times = FormulaInputs::Times;

namespace {
/// One row of the file.
struct Published {
  int64_t workers = 0, microbatches = 0, layers = 0;
  Times times;
  llvm::json::Object rates;
};
} // namespace

static Published readRow(const llvm::json::Object &row) {
  const llvm::json::Object &profile = *row.getObject("profiled_ms");
  auto picoseconds = [&](llvm::StringRef key) {
    return std::llround(profile.getNumber(key).value() * 1e9);
  };
  Published published;
  published.workers = row.getInteger("workers").value();
  published.microbatches = row.getInteger("microbatches").value();
  published.layers = row.getInteger("layers").value();
  published.times = {picoseconds("F"), picoseconds("I"), picoseconds("W"),
                     picoseconds("comm")};
  published.rates = *row.getObject("published_bubble_rate");
  return published;
}

static std::vector<Published> readRows() {
  auto buffer = llvm::MemoryBuffer::getFile(
      PIPESCHED_GOLDEN_DIR "/../../../studies/data/zero_bubble_iclr24.json");
  if (!buffer) {
    ADD_FAILURE() << buffer.getError().message();
    return {};
  }
  llvm::json::Value file =
      llvm::cantFail(llvm::json::parse((*buffer)->getBuffer()));
  std::vector<Published> rows;
  for (const llvm::json::Value &row : *file.getAsObject()->getArray("rows"))
    rows.push_back(readRow(*row.getAsObject()));
  return rows;
}

static double rateOf(const Table &table, const Published &row) {
  const Times &times = row.times;
  double work = row.microbatches *
                (times.forwardPs + times.inputGradPs + times.weightGradPs);
  return 1 - work / simulate(table, times).longestSpan;
}

template <typename Generate>
static void expectRates(llvm::StringRef name, Generate &&generate) {
  std::vector<Published> rows = readRows();
  EXPECT_EQ(rows.size(), 6u);
  for (const Published &row : rows) {
    SCOPED_TRACE(testing::Message() << name.str() << " D=" << row.workers
                                    << " N=" << row.microbatches);
    Table table =
        llvm::cantFail(generate(makeLinear(row.workers, row.microbatches)));
    EXPECT_NEAR(rateOf(table, row), row.rates.getNumber(name).value(), 5.1e-5);
  }
}

TEST(PublishedRates, OneFOneB) {
  expectRates("1F1B", [](const Placement &p) { return generate1F1B(p); });
}

TEST(PublishedRates, ZBH1) {
  expectRates("ZB-H1", [](const Placement &p) { return generateZBH1(p); });
}

TEST(PublishedRates, ZBH2) {
  expectRates("ZB-H2", [](const Placement &p) { return generateZBH2(p); });
}

/// ZB-1p, the automatic schedule with 1F1B's memory, has the same rates as
/// ZB-H1.
TEST(PublishedRates, ZB1p) {
  expectRates("ZB-1p", [](const Placement &p) { return generateZBH1(p); });
}

/// The least rate of a linear schedule that holds at most `memory` whole
/// activations until their W. At most that many W can follow the last I of the
/// last worker, which begins (D-1)(F+Tc) later than the first; its gradient
/// then goes all the way up, and one W is left:
///
///   worker 0     F ..                                             I W
///   worker D-1         F I F I .. I W F I ..  I W W W W (memory)
static double leastRate(const Published &row, int64_t memory) {
  const Times &times = row.times;
  int64_t work = row.microbatches *
                 (times.forwardPs + times.inputGradPs + times.weightGradPs);
  int64_t idle = (row.workers - 1) *
                     (times.forwardPs + times.inputGradPs + 2 * times.commPs) -
                 (memory - 1) * times.weightGradPs;
  return static_cast<double>(idle) / (work + idle);
}

/// With 2D - 1 activations ZB-H2 is as short as possible. ZB-2p, with 2D, is
/// shorter than any schedule that does not free a part of an activation at I,
/// as that paper's schedules do.
TEST(PublishedRates, ZB2pFreesPartsOfActivations) {
  std::vector<double> bounds;
  for (const Published &row : readRows()) {
    EXPECT_NEAR(leastRate(row, 2 * row.workers - 1),
                row.rates.getNumber("ZB-H2").value(), 5.1e-5);
    double bound = leastRate(row, 2 * row.workers);
    EXPECT_LT(row.rates.getNumber("ZB-2p").value(), bound);
    bounds.push_back(std::round(1e4 * bound) / 100);
  }
  // docs/Schedules.md has their range.
  EXPECT_EQ(bounds, std::vector<double>({10.15, 7.84, 4.15, 6.07, 4.9, 2.58}));
}

/// Two stages per worker, down and up again, so that a worker holds 16 halves
/// of its share, as much as 1F1B: percent of the span, in the order of the
/// file.
template <typename Generate>
static std::vector<double> percentsOnV(Generate &&generate) {
  std::vector<double> percents;
  for (const Published &row : readRows()) {
    Published halves = row;
    halves.microbatches *= 2;
    for (int64_t *time : {&halves.times.forwardPs, &halves.times.inputGradPs,
                          &halves.times.weightGradPs})
      *time /= 2;
    Table table =
        llvm::cantFail(generate(makeLinear(row.workers, row.microbatches)));
    percents.push_back(std::round(1e4 * rateOf(table, halves)) / 100);
  }
  return percents;
}

TEST(PublishedRates, OfVSchedules) {
  EXPECT_EQ(percentsOnV([](const Placement &p) { return generateZBV(p); }),
            std::vector<double>({7.28, 5.63, 3.07, 4.46, 3.58, 1.83}));
  ZBAutoOptions options;
  auto generateAuto = [&](const Placement &p) {
    return generateZBAuto(p, options);
  };
  EXPECT_EQ(percentsOnV(generateAuto),
            std::vector<double>({18.34, 16.71, 14.47, 12.99, 11.98, 9.73}));
  options.memory = 32;
  EXPECT_EQ(percentsOnV(generateAuto),
            std::vector<double>({14.23, 13.53, 12.83, 8.99, 8.91, 8.12}));
}

/// One layer per chunk; the first and the last stage hold one fewer. The
/// published rates are those of this order less D message delays, in all rows.
/// It is the order of zbpp_vpp among the golden files, by the same authors.
TEST(PublishedRates, InterleavedIsDDelaysShorter) {
  for (const Published &row : readRows()) {
    int64_t chunks = (row.layers + 2) / row.workers;
    SCOPED_TRACE(testing::Message()
                 << "N=" << row.microbatches << " V=" << chunks);
    InterleavedOptions options;
    options.chunks = chunks;
    Table table = llvm::cantFail(generateInterleaved1F1B(
        makeLinear(row.workers, row.microbatches), options));
    Times times = {row.times.forwardPs / chunks, row.times.inputGradPs / chunks,
                   row.times.weightGradPs / chunks, row.times.commPs};
    double work =
        row.microbatches *
        (row.times.forwardPs + row.times.inputGradPs + row.times.weightGradPs);
    double span = simulate(table, times).longestSpan;
    EXPECT_NEAR(1 - work / (span - row.workers * row.times.commPs),
                row.rates.getNumber("1F1B-I").value(), 5.5e-5);
  }
}
