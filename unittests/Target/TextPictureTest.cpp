//===- TextPictureTest.cpp - Tests of the pictures in a terminal ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small pictures compared letter by letter. For all small sizes folding loses
// nothing, lines keep to the width, and large tables stay small.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/TextPicture.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/Unicode.h"
#include "gmock/gmock.h"

using namespace pipesched;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

static NamedTable nameTable(const Table &table, llvm::StringRef name = "s") {
  NamedTable named;
  named.name = name.str();
  named.placement = table.placement;
  named.table = table.view();
  return named;
}

static std::string draw(const Table &table,
                        const TextPictureOptions &options = {}) {
  NamedTable named = nameTable(table);
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::cantFail(writeTextPictures(stream, {&named}, options));
  return text;
}

static std::vector<llvm::StringRef> linesOf(llvm::StringRef text) {
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n');
  EXPECT_EQ(lines.back(), ""); // after the last newline
  return {lines.begin(), lines.end() - 1};
}

static TextPictureOptions ofWidth(int64_t width) {
  TextPictureOptions options;
  options.width = width;
  return options;
}

//===----------------------------------------------------------------------===//
// Letter by letter
//===----------------------------------------------------------------------===//

TEST(TextPicture, CopiesAndJoinsStandInLinesOfTheirOwn) {
  Table table =
      makeTable(makeLinear(1, 2), {"0F0 0D0 0F1 0d0 0U0 0u0 0B0 0B1"});
  EXPECT_THAT(draw(table), HasSubstr("worker 0  F0 F1 B0─── B1───\n"
                                     " offload     D0 d0\n"
                                     "  reload        U0,u0\n"));
  // A label that a longer neighbour has moved to the right.
  Table crowded = makeTable(makeLinear(1, 3),
                            {"0F0 0D0 0d0 0F1 0D1 0F2 0B2 0U0 0B0 0U1 0B1"});
  EXPECT_THAT(draw(crowded), HasSubstr(" offload     D0,d0 D1\n"));
}

TEST(TextPicture, TheLastCopyMayComeAfterTheLastCell) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0B0 0D0"});
  EXPECT_THAT(draw(table), HasSubstr("worker 0  F0 B0───\n"
                                     " offload           D0\n"));
}

TEST(TextPicture, ColoursAreThoseOfThePalette) {
  Table table =
      makeTable(makePlacement(1, 1, {pathOn({0, 0})}), {"0F0 1F0 1I0 1W0 0B0"});
  TextPictureOptions options;
  options.hasColours = true;
  std::string text = draw(table, options);
  EXPECT_THAT(text, StartsWith("\033[1ms\033[0m  1 worker"));
  EXPECT_THAT(text, HasSubstr("worker 0  \033[48;5;25;38;5;231m0F0\033[0m "
                              "\033[48;5;111;38;5;16m1F0\033[0m "
                              "\033[48;5;116;38;5;16m1I0\033[0m "
                              "\033[48;5;193;38;5;16m1W0\033[0m "
                              "\033[48;5;166;38;5;231m0B0    \033[0m\n"));
  EXPECT_THAT(text, HasSubstr("\ndark to light: chunk 0 to 1\n"));
}

TEST(TextPicture, HalvesOfAPairHaveAColourEach) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0F1+0B0 0B1"});
  TextPictureOptions options;
  options.hasColours = true;
  EXPECT_THAT(draw(table, options),
              HasSubstr(" \033[48;5;25;38;5;231mF1+\033[0m"
                        "\033[48;5;166;38;5;231mB0   \033[0m "));
}

TEST(TextPicture, LongSlotsShareColumns) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  table.slots = {StageSlots(300, 300, 300)};
  EXPECT_EQ(draw(table), //
            "s  1 worker × 1 microbatch · 900 slots · bubble 0.00 %\n"
            "    slot  0\n"
            "worker 0  F0 B0───\n"
            "a column is 100 slots\n"
            "\n"
            "F0 phase, microbatch   F forward   B backward   · idle\n");
}

TEST(TextPicture, SaysWhereCellsTakeNoSlots) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0I0 0W0"});
  table.slots = {StageSlots(0, 1, 1)};
  EXPECT_THAT(draw(table),
              HasSubstr("worker 0  I0 W0\n"
                        "cells shorter than a column, which may be missing: "
                        "1\n"));
}

//===----------------------------------------------------------------------===//
// Folding
//===----------------------------------------------------------------------===//

TEST(TextPicture, FoldsIntoLinesOfMuchTheSameLength) {
  Table table = llvm::cantFail(generateZBH1(makeLinear(2, 4)));
  EXPECT_EQ(draw(table, ofWidth(45)), //
            "s  2 workers × 4 microbatches · 13 slots · bubble 7.69 %\n"
            "    slot  0              5\n"
            "worker 0  F0 F1 ·  I0 W0 F2 I1 W1 F3 I2\n"
            "worker 1  ·  F0 I0 F1 I1 W0 F2 I2 W1 F3\n"
            "\n"
            "    slot  10\n"
            "worker 0  W2 I3 W3\n"
            "worker 1  I3 W2 W3\n"
            "\n"
            "F0 phase, microbatch   F forward\n"
            "I input gradient   W weight gradient   · idle\n");
}

TEST(TextPicture, CutsCellsBetweenLines) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0F1 0B0 0B1"});
  // The first B has room for its name before the cut, and none after it.
  EXPECT_THAT(draw(table, ofWidth(19)), HasSubstr("worker 0  F0 F1 B0─\n"
                                                  "\n"
                                                  "    slot        5\n"
                                                  "worker 0  ── B1───\n"));
}

/// The whole table, at any width.
static TextPictureOptions everythingIn(int64_t width) {
  TextPictureOptions options = ofWidth(width);
  options.slots.emplace();
  options.workers.emplace();
  return options;
}

/// The text after the label of a worker, panels joined.
static std::string joinPanels(llvm::StringRef text, int64_t worker) {
  std::string label = "worker " + std::to_string(worker) + "  ", joined;
  for (llvm::StringRef line : linesOf(text))
    if (line.trim(' ').starts_with(llvm::StringRef(label).rtrim()))
      joined += line.substr(line.find(label) + label.size()).str() + " ";
  return joined;
}

TEST(TextPicture, LosesNothingByFolding) {
  for (int64_t workers = 1; workers <= 5; ++workers)
    for (int64_t microbatches = 1; microbatches <= 12; ++microbatches)
      for (int64_t width : {1, 15, 40, 77, 120}) {
        SCOPED_TRACE(testing::Message()
                     << workers << " x " << microbatches << " in " << width);
        // Each cell takes one slot, so no cell is cut.
        Table table =
            llvm::cantFail(generateZBH1(makeLinear(workers, microbatches)));
        std::string folded = draw(table, everythingIn(width));
        std::string whole = draw(table, ofWidth(0));
        for (int64_t worker = 0; worker < workers; ++worker) {
          llvm::SmallVector<llvm::StringRef> a, b;
          std::string joined = joinPanels(folded, worker);
          std::string line = joinPanels(whole, worker);
          llvm::SplitString(joined, a);
          llvm::SplitString(line, b);
          EXPECT_EQ(a, b);
        }
      }
}

TEST(TextPicture, LinesEndInTimeAndWithoutBlanks) {
  LoopOptions loop;
  loop.chunks = 2;
  for (int64_t microbatches : {1, 7, 12, 120})
    for (int64_t width : {30, 40, 77, 120, 200})
      for (const Table &table :
           {llvm::cantFail(generate1F1B(makeLinear(11, microbatches))),
            llvm::cantFail(
                generateLoopedBFS(makeLinear(3, microbatches), loop))}) {
        std::string text = draw(table, everythingIn(width));
        // The title and the legend's longest item may be longer.
        std::vector<llvm::StringRef> lines = linesOf(text);
        for (llvm::StringRef line : llvm::drop_begin(lines)) {
          EXPECT_LE(llvm::sys::unicode::columnWidthUTF8(line), width)
              << line.str();
          EXPECT_EQ(line, line.rtrim(' '));
        }
      }
}

TEST(TextPicture, NamesEveryCellOnce) {
  LoopOptions loop;
  loop.chunks = 3;
  for (int64_t width : {20, 33, 50, 120}) {
    Table table = llvm::cantFail(generateLoopedBFS(makeLinear(3, 5), loop));
    std::string text = draw(table, everythingIn(width));
    for (int64_t worker = 0; worker < 3; ++worker) {
      std::string line = joinPanels(text, worker);
      for (Cell cell : table.rows[worker])
        EXPECT_EQ(llvm::StringRef(line).count(cell.str()), 1u)
            << cell.str() << " in " << width << " columns";
    }
  }
}

TEST(TextPicture, ColoursChangeNothingElse) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(4, 6)));
  for (int64_t width : {30, 64, 120}) {
    TextPictureOptions options = everythingIn(width);
    std::string plain = draw(table, options);
    options.hasColours = true;
    std::string coloured = draw(table, options);
    llvm::Regex code("\033\\[[0-9;]*m");
    while (code.match(coloured))
      coloured = code.sub("", coloured);
    std::string expected, actual;
    for (llvm::StringRef line : linesOf(plain)) {
      std::string blank = line.str();
      for (size_t at; (at = blank.find("─")) != std::string::npos;)
        blank.replace(at, 3, " ");
      expected += llvm::StringRef(blank).rtrim().str() + "\n";
    }
    for (llvm::StringRef line : linesOf(coloured))
      actual += line.rtrim().str() + "\n";
    EXPECT_EQ(actual, expected);
  }
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

TEST(TextPicture, DrawsTheRangesThatAreAskedFor) {
  Table table = llvm::cantFail(generateZBH1(makeLinear(3, 8)));
  TextPictureOptions options;
  options.slots = {4, 8};
  options.workers = {1, 3};
  std::string text = draw(table, options);
  EXPECT_THAT(text, HasSubstr("    slot     5\n"
                              "worker 1  I0 F2 I1 W0\n"
                              "worker 2  F1 I1 F2 I2\n\n"));
  EXPECT_THAT(text, Not(HasSubstr("worker 0")));
  EXPECT_THAT(text, Not(HasSubstr("left out")));
  options.slots = {1000, 2000};
  EXPECT_THAT(draw(table, options),
              HasSubstr("nothing to draw: the table has 3 workers and 26 "
                        "slots\n"));
}

TEST(TextPicture, LeavesOutTheMiddleOfLargeTables) {
  Table table = llvm::cantFail(generate1F1B(makeLinear(100, 1000)));
  std::string text = draw(table);
  EXPECT_LT(linesOf(text).size(), 120u);
  for (const char *shown : {"worker 0 ", "worker 11 ", "worker 88 ",
                            "worker 99 ", " F0 ", " B999────", "⋮\n"})
    EXPECT_THAT(text, HasSubstr(shown));
  EXPECT_THAT(text, Not(HasSubstr("worker 12 ")));
  EXPECT_THAT(text, HasSubstr("workers 12 to 87 are left out; "
                              "--text-workers=12:88 draws them, "
                              "--text-workers=: all\n"));
  EXPECT_THAT(text, HasSubstr("slots 40 to 3277 are left out; "
                              "--text-slots=40:3278 draws them, "
                              "--text-slots=: all\n"));
}

TEST(TextPicture, LongestIdleTimesEnd) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  Row &row = table.rows.front();
  row.insert(row.begin() + 1, 8, Cell::idle(Cell::kMaxMicrobatches));
  table.aligned = true;
  for (int64_t width : {0, 1, 80}) {
    std::string text = draw(table, ofWidth(width));
    EXPECT_THAT(text, HasSubstr("left out"));
    EXPECT_LT(text.size(), size_t(1) << 24);
  }
}

TEST(TextPicture, LongestCellsEnd) {
  Table table = makeTable(makeLinear(1, 2), {"0F0 0B0 0F1 0B1"});
  table.slots = {StageSlots(1, kMaxSlots / 4, kMaxSlots / 8)};
  for (int64_t width : {0, 1, 80})
    EXPECT_THAT(draw(table, ofWidth(width)), HasSubstr("a column is"));
}

TEST(TextPicture, NamesCannotSteerTheTerminal) {
  Table table = makeTable(makeLinear(1, 1), {"0F0 0B0"});
  NamedTable named =
      nameTable(table, "a\033[2Jb\xc2\x9b\x31mc\xc2\xa0\n\x7f\xff");
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::cantFail(writeTextPictures(stream, {&named}, {}));
  EXPECT_THAT(
      text,
      StartsWith("a\\x1b[2Jb\\x9b1mc\xc2\xa0\\x0a\\x7f\xef\xbf\xbd  1 worker"));
}

TEST(TextPicture, ReadsRanges) {
  auto read = [](llvm::StringRef text) {
    TextRange range = llvm::cantFail(parseTextRange(text));
    return std::pair(range.begin, range.end);
  };
  constexpr int64_t max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(read("3:7"), std::pair(int64_t(3), int64_t(7)));
  EXPECT_EQ(read("3:"), std::pair(int64_t(3), max));
  EXPECT_EQ(read(":7"), std::pair(int64_t(0), int64_t(7)));
  EXPECT_EQ(read(":"), std::pair(int64_t(0), max));
  for (llvm::StringRef text : {"", "3", "7:3", "3:3", "-1:3", "a:", "1:2:3",
                               "9223372036854775808:", " 1:2"})
    EXPECT_EQ(errorOf(parseTextRange(text)),
              "'" + text.str() +
                  "' is not a range; expected begin:end with begin < end, "
                  "where either may be left out");
}
