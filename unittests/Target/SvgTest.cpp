//===- SvgTest.cpp - Tests of the pictures ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Extreme sizes, and text with characters that XML reserves.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Svg.h"
#include "Results.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace pipesched;
using namespace pipesched::test;
using testing::HasSubstr;
using testing::Not;

static std::string draw(llvm::ArrayRef<NamedEvaluation> results,
                        SvgVariant variant = SvgVariant::Timed) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::cantFail(writeSvg(stream, results, variant));
  return text;
}

static size_t count(llvm::StringRef text, llvm::StringRef pattern) {
  return text.count(pattern);
}

TEST(Svg, OneBoxPerCell) {
  NamedEvaluation result = evaluate1F1B("s", 3, 5);
  for (SvgVariant variant : {SvgVariant::Timed, SvgVariant::Slots}) {
    std::string text = draw(result, variant);
    EXPECT_EQ(count(text, "<title>0F"), 5u);
    EXPECT_EQ(count(text, "<title>2B"), 5u);
  }
}

TEST(Svg, EscapesNames) {
  std::string text = draw(evaluate1F1B("<a & b>\x01", 1, 1));
  EXPECT_THAT(text, HasSubstr("&lt;a &amp; b&gt;\\x01"));
}

TEST(Svg, BarsOnlyWhereMessagesTakeTime) {
  EXPECT_THAT(draw(evaluate1F1B("s", 2, 2)),
              Not(HasSubstr("bars below a row")));
  std::string text = draw(evaluate1F1B("s", 2, 2, profileWithMessages()));
  EXPECT_THAT(text, HasSubstr("bars below a row: send, receive"));
  EXPECT_THAT(text, HasSubstr("<title>send 0F0: 10.00 us to 13.00 us"));
}

/// The y of each row of the page, which has the class of idle time.
static std::vector<std::string> rowsOf(llvm::StringRef text) {
  std::vector<std::string> rows;
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  for (llvm::StringRef line : lines)
    if (line.starts_with("<rect class=\"i\" x=\"76\""))
      rows.push_back(line.split(" y=\"").second.split('"').first.str());
  return rows;
}

TEST(Svg, RowsOfAWorkerAreBelowEachOther) {
  NamedEvaluation results[] = {evaluate1F1B("one", 3, 4),
                               evaluate1F1B("two", 3, 5)};
  std::string text = draw(results, SvgVariant::Rows);
  EXPECT_EQ(count(text, ">worker "), 3u);
  EXPECT_EQ(count(text, "<title>1F0:"), 2u);
  EXPECT_EQ(count(text, "<title>1F4:"), 1u);
  EXPECT_LT(text.find(">one<"), text.find(">two<"));
  std::vector<std::string> rows = rowsOf(text);
  ASSERT_EQ(rows.size(), 6u);
  auto at = [&](size_t row) { return std::stod(rows[row]); };
  EXPECT_LT(at(1) - at(0), at(2) - at(1)); // the gap between workers
  EXPECT_DOUBLE_EQ(at(2) - at(0), at(4) - at(2));
}

TEST(Svg, RowsAreOfTheSameWorkers) {
  NamedEvaluation results[] = {evaluate1F1B("one", 3, 4),
                               evaluate1F1B("two", 2, 4)};
  std::string text;
  llvm::raw_string_ostream stream(text);
  EXPECT_EQ(llvm::toString(
                writeSvg(stream, llvm::ArrayRef(results), SvgVariant::Rows)),
            "'two' has 2 workers and 'one' 3; rows can be below each other "
            "only if they are of the same workers");
  EXPECT_EQ(text, "");
}

TEST(Svg, ProgramsHaveNoSlots) {
  NamedEvaluation program = evaluate1F1B("p", 2, 2);
  program.evaluation.table.reset();
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::Error error = writeSvg(stream, program, SvgVariant::Slots);
  EXPECT_THAT(llvm::toString(std::move(error)),
              HasSubstr("program 'p' has no slots"));
  EXPECT_EQ(text, "");
}

TEST(Svg, NoTimeAtAll) {
  CostInputs costs;
  costs.profile.emplace();
  costs.profile->phasePs[Phase::Forward] =
      costs.profile->phasePs[Phase::Backward] = {0};
  EXPECT_THAT(draw(evaluate1F1B("s", 2, 2, costs)), HasSubstr("step 0 ps"));
}

TEST(Svg, LongestTimesEnd) {
  CostInputs costs;
  costs.profile.emplace();
  costs.profile->phasePs[Phase::Forward] = {
      std::numeric_limits<int64_t>::max() / 4};
  costs.profile->phasePs[Phase::Backward] = {1};
  EXPECT_THAT(draw(evaluate1F1B("s", 1, 2, costs)), HasSubstr("</svg>"));
}

TEST(Svg, ShortensLongNames) {
  std::string name(300, 'x');
  std::string text = draw(evaluate1F1B(name, 1, 1));
  EXPECT_EQ(count(text, name), 1u); // in the tooltip
  EXPECT_THAT(text, HasSubstr("xxx…</tspan><tspan class=\"s\""));
  EXPECT_THAT(draw(evaluate1F1B("short", 1, 1)), Not(HasSubstr("…")));
}

TEST(Svg, DrawsNoMoreThanThereIsRoomFor) {
  // 96,000 slots on 3,200 px.
  NamedEvaluation result = evaluate1F1B("s", 2, 32000);
  for (SvgVariant variant : {SvgVariant::Timed, SvgVariant::Slots}) {
    std::string text = draw(result, variant);
    EXPECT_LT(count(text, "<rect"), 2 * 3200u + 100);
    EXPECT_GT(count(text, "<rect"), 2 * 1600u);
    EXPECT_THAT(text, HasSubstr("<title>0B0 and "));
    EXPECT_THAT(text, HasSubstr("narrower than a pixel: several cells as one"));
  }
}

TEST(Svg, LeavesNoCellOutOfARun) {
  std::string text = draw(evaluate1F1B("s", 1, 9000), SvgVariant::Slots);
  llvm::StringRef rest = text;
  int64_t numCells = 0;
  while (true) {
    size_t at = rest.find("<title>0");
    if (at == llvm::StringRef::npos)
      break;
    rest = rest.drop_front(at);
    llvm::StringRef title = rest.take_until([](char c) { return c == ':'; });
    int64_t numMore = 0;
    auto [before, after] = title.split(" and ");
    EXPECT_TRUE(after.empty() || !after.consumeInteger(10, numMore));
    numCells += 1 + numMore;
    rest = rest.drop_front(title.size());
  }
  EXPECT_EQ(numCells, 18000);
}
