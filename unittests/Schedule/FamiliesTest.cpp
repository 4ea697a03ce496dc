//===- FamiliesTest.cpp - Families by name and options --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names, aliases, options and default placements of the registry;
// docs/Schedules.md must list them. FamilyPropertiesTest checks the tables.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Families.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Family/Formulas.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>

using namespace pipesched;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static std::string nameFor(StringRef name) {
  const Family *family = findFamily(name);
  return family ? family->name.str() : "";
}

/// Names as users of each framework write them.
TEST(Families, KnowOtherNames) {
  EXPECT_EQ(nameFor("VPP"), "interleaved-1f1b");
  EXPECT_EQ(nameFor("GPipe"), "gpipe");
  EXPECT_EQ(nameFor("1F1B"), "1f1b");
  EXPECT_EQ(nameFor("Interleaved1F1B"), "interleaved-1f1b");
  EXPECT_EQ(nameFor("LoopedBFS"), "looped-bfs");
  EXPECT_EQ(nameFor("InterleavedZeroBubble"), "interleaved-zb");
  EXPECT_EQ(nameFor("ZBVZeroBubble"), "zb-v");
  EXPECT_EQ(nameFor("DualPipeV"), "dualpipe-v");
  EXPECT_EQ(nameFor("ScheduleInterleavedZeroBubble"), "interleaved-zb");
  EXPECT_EQ(nameFor("schedule_zbv_zero_bubble"), "zb-v");
  EXPECT_EQ(nameFor("ZB-H1"), "zb-h1");
  EXPECT_EQ(nameFor("zbh2"), "zb-h2");
  EXPECT_EQ(nameFor("1F1B-I"), "interleaved-1f1b");
  EXPECT_EQ(nameFor("V-ZB"), "zb-v");
  EXPECT_EQ(nameFor("V Half"), "v-half");
  EXPECT_EQ(nameFor("Eager1F1B"), "eager-1f1b");
  EXPECT_EQ(nameFor("F-then-B"), "gpipe");
  EXPECT_EQ(nameFor("PipeDream-Flush"), "1f1b");
}

TEST(Families, DoNotKnowEveryName) {
  for (StringRef name : {"", "schedule", "-", "1f1", "2F2B", "zb"})
    EXPECT_EQ(findFamily(name), nullptr) << name.str();
}

/// A name belongs to one family, over all lists of names.
TEST(Families, HaveNamesOfTheirOwn) {
  for (const Family &family : families()) {
    EXPECT_EQ(findFamily(family.name), &family);
    EXPECT_EQ(findFamily(StringRef(family.name).upper()), &family);
  }
  for (const FamilyAlias &alias : familyAliases()) {
    EXPECT_EQ(nameFor(alias.alias), alias.family.str()) << alias.alias.str();
    EXPECT_EQ(nameFor(alias.family), alias.family.str());
  }
}

TEST(Families, SuggestTheClosestName) {
  EXPECT_EQ(errorOf(lookUpFamily("1f1c")),
            "there is no schedule family '1f1c', the closest is '1f1b'");
  EXPECT_EQ(errorOf(lookUpFamily("interleavd")),
            "there is no schedule family 'interleavd', the closest is "
            "'interleaved', which is interleaved-1f1b");
  for (llvm::StringRef name : {"nope", "something else", "x"})
    EXPECT_EQ(errorOf(lookUpFamily(name))
                  .find(("there is no schedule family '" + name +
                         "' (known: gpipe, 1f1b, eager-1f1b, ")
                            .str()),
              0u);
  EXPECT_EQ(llvm::cantFail(lookUpFamily("vpp")), findFamily("VPP"));
}

TEST(Families, HaveAFormulaOrAReason) {
  for (const Family &family : families()) {
    SCOPED_TRACE(family.name.str());
    Placement placement = llvm::cantFail(placeFamily(family, 4, 8));
    llvm::Expected<FormulaResult> formula = evaluateFormulaOfRows(
        family.name, placement, formulaInputsOf(placement));
    if (formula)
      EXPECT_FALSE(formula->source.empty());
    else
      EXPECT_EQ(llvm::toString(formula.takeError())
                    .find(("no closed formula is known for family '" +
                           family.name + "': ")
                              .str()),
                0u);
  }
  FormulaInputs inputs = formulaInputsOf(makeLinear(4, 8));
  EXPECT_EQ(llvm::cantFail(evaluateFormula("PipeDream-Flush", inputs)).source,
            llvm::cantFail(evaluateFormula("1f1b", inputs)).source);
}

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

TEST(FamilyOptions, RefuseOtherText) {
  FamilyOptions options;
  auto refusal = [&](StringRef name, StringRef value) {
    return llvm::toString(setOption(options, name, value));
  };
  EXPECT_EQ(refusal("chunk", "2"),
            "no schedule family has an option 'chunk', the closest is "
            "'chunks'");
  EXPECT_EQ(refusal("chunks", "two"),
            "the option 'chunks' takes an integer from 1, found 'two'");
  EXPECT_EQ(refusal("chunks", "99999999999999999999"),
            "the option 'chunks' takes an integer from 1, found "
            "'99999999999999999999'");
  EXPECT_EQ(refusal("split-backward", "maybe"),
            "the option 'split-backward' takes true or false, found 'maybe'");
  EXPECT_EQ(refusal("gradient-after", "B"),
            "the option 'gradient-after' takes I or W, found 'B'");
  EXPECT_EQ(refusal("construction", ""),
            "the option 'construction' takes concat, doubling or halving, "
            "found ''");
  EXPECT_FALSE(options.chunks || options.splitBackward ||
               options.gradientAfter || options.construction);
}

/// Each option by itself, given to each family.
TEST(FamilyOptions, AreTakenOrRefused) {
  const std::pair<StringRef, StringRef> values[] = {{"chunks", "1"},
                                                    {"group", "8"},
                                                    {"waves", "1"},
                                                    {"pairs", "1"},
                                                    {"memory", "8"},
                                                    {"construction", "concat"},
                                                    {"split-backward", "false"},
                                                    {"gradient-after", "W"},
                                                    {"slices", "1"},
                                                    {"vocabulary", "vocab-2"},
                                                    {"backward", "150"},
                                                    {"embedding", "true"},
                                                    {"forward-only", "true"}};
  EXPECT_EQ(std::size(values), familyOptions().size());
  for (const Family &family : families())
    for (auto [info, value] : llvm::zip_equal(familyOptions(), values)) {
      SCOPED_TRACE(testing::Message()
                   << family.name.str() << ' ' << info.name.str());
      ASSERT_EQ(StringRef(info.name), value.first);
      FamilyOptions options;
      llvm::cantFail(setOption(options, value.first, value.second));
      llvm::Expected<Table> table = generate(family, 4, 8, options);
      EXPECT_EQ(static_cast<bool>(table), family.takes(info.option));
      if (!table)
        EXPECT_EQ(llvm::toString(table.takeError())
                      .find(family.name.str() + " has no option '" +
                            info.name.str() + "'"),
                  0u);
    }
}

TEST(FamilyOptions, OfAFamilyAreNamedInRefusals) {
  auto refusal = [](StringRef family, StringRef option, StringRef value) {
    FamilyOptions options;
    llvm::cantFail(setOption(options, option, value));
    return errorOf(generate(*findFamily(family), 4, 8, options));
  };
  EXPECT_EQ(refusal("looped-bfs", "group", "4"),
            "looped-bfs has no option 'group'; it has chunks, split-backward, "
            "gradient-after, forward-only");
  EXPECT_EQ(refusal("v-half", "split-backward", "true"),
            "v-half has no option 'split-backward'; it has none");
  FamilyOptions options;
  options.slots.resize(4);
  EXPECT_EQ(errorOf(generate(*findFamily("gpipe"), 4, 8, options)),
            "gpipe has no option 'slots'; it has split-backward, "
            "gradient-after, forward-only");
}

//===----------------------------------------------------------------------===//
// Placements and tables
//===----------------------------------------------------------------------===//

/// A family gives the same table on a linear path as on its own placement.
TEST(Families, ReplaceTheLinearPath) {
  for (const Family &family : families()) {
    SCOPED_TRACE(family.name.str());
    FamilyOptions options;
    if (family.placement == FamilyPlacement::Interleaved)
      options.chunks = 2;
    Table onLinear =
        llvm::cantFail(generate(family, makeLinear(4, 8), options));
    Table onItsOwn = llvm::cantFail(generate(family, 4, 8, options));
    EXPECT_EQ(printRows(onLinear.rows), printRows(onItsOwn.rows));
  }
}

/// Every family with a fixed placement refuses these.
TEST(Families, RefuseTheStagesOfNoFamily) {
  const std::vector<std::vector<Path>> placements = {
      {pathOn({0, 0})},
      {pathOn({0, 0, 1, 1})},
      {pathOn({0, 1, 0})},
      {pathOn({0, 1}), pathOn({0, 1})},
  };
  for (const Family &family : families()) {
    if (family.placement == FamilyPlacement::Any)
      continue;
    for (size_t i = 0; i < placements.size(); ++i) {
      SCOPED_TRACE(testing::Message() << family.name.str() << " " << i);
      Placement placement = makePlacement(2, 4, placements[i]);
      EXPECT_TRUE(StringRef(errorOf(generate(family, placement, {})))
                      .starts_with((family.name + " takes").str()));
    }
  }
}

/// Microbatches with slices or on several paths have lower limits, too.
TEST(Families, RefuseMoreCellsThanATableHolds) {
  for (const Family &family : families()) {
    bool hasSlices = family.takes(FamilyOption::Slices);
    int64_t microbatches = hasSlices ? 1 << 27 : Cell::kMaxMicrobatches - 1;
    EXPECT_TRUE(StringRef(errorOf(generate(family, 2, microbatches)))
                    .contains("268435456 at most"))
        << family.name.str();
  }
}

//===----------------------------------------------------------------------===//
// docs/Schedules.md
//===----------------------------------------------------------------------===//

static StringRef nameOf(FamilyPlacement placement) {
  switch (placement) {
  case FamilyPlacement::Linear:
    return "linear";
  case FamilyPlacement::Rounds:
    return "rounds";
  case FamilyPlacement::Interleaved:
    return "interleaved";
  case FamilyPlacement::V:
    return "v";
  case FamilyPlacement::Wave:
    return "wave";
  case FamilyPlacement::Bidirectional:
    return "bidirectional";
  case FamilyPlacement::Any:
    return "any";
  }
  llvm_unreachable("covered switch");
}

/// | family | also called | placement | options | sizes |
static std::string glanceRow(const Family &family) {
  std::vector<StringRef> aliases, options;
  for (const FamilyAlias &alias : familyAliases())
    if (alias.family == family.name)
      aliases.push_back(alias.alias);
  for (const FamilyOptionInfo &info : familyOptions())
    if (family.takes(info.option))
      options.push_back(info.name);
  return llvm::formatv("\n| {0} | {1} | {2} | {3} | {4} |\n", family.name,
                       llvm::join(aliases, ", "), nameOf(family.placement),
                       llvm::join(options, ", "), family.sizes);
}

static std::string semanticsOf(const Family &family,
                               ReceivePlacement receives) {
  std::vector<StringRef> names;
  for (MessageSemantics semantics :
       {MessageSemantics::Unbounded, MessageSemantics::Fifo,
        MessageSemantics::Batched, MessageSemantics::Rendezvous})
    if (family.finishesUnder(semantics, receives))
      names.push_back(enumName(semantics));
  return llvm::join(names, ", ");
}

/// | families | at arrival | before the consumer |
static std::vector<std::string> messagesRows() {
  std::map<std::string, std::vector<StringRef>> namesOf;
  for (const Family &family : families())
    namesOf[llvm::formatv("{0} | {1}",
                          semanticsOf(family, ReceivePlacement::Arrival),
                          semanticsOf(family, ReceivePlacement::Consumer))]
        .push_back(family.name);
  std::vector<std::string> rows;
  for (const auto &[semantics, names] : namesOf)
    rows.push_back(
        llvm::formatv("\n| {0} | {1} |\n", llvm::join(names, ", "), semantics));
  return rows;
}

/// | option | values | meaning | not given |
static std::string optionRow(const FamilyOptionInfo &info) {
  return llvm::formatv("\n| {0} | {1} | {2} | {3} |\n", info.name, info.values,
                       info.summary, info.notGiven);
}

/// The text from the heading of a family to the next one.
static StringRef sectionOf(StringRef page, const Family &family) {
  std::string heading = ("\n## " + family.name + "\n").str();
  StringRef section = page.drop_front(
      std::min(page.size(), page.find(heading) + heading.size()));
  return section.take_front(section.find("\n## "));
}

/// A section has a picture of the slots (test/Docs/images.test), or the example
/// of the pass (test/Docs/examples.test): a block, a line of this form, and
/// another block.
static bool showsRows(StringRef section, const Family &family) {
  if (section.contains("\n    slot  0 "))
    return true;
  size_t after = section.find(("\nAfter `pipe-schedule-" + family.name).str());
  return after != StringRef::npos &&
         section.take_front(after).contains("\n```mlir\n") &&
         section.drop_front(after).contains(
             ("family \"" + family.name + "\"").str());
}

TEST(Families, AreDocumented) {
  auto buffer = llvm::MemoryBuffer::getFile(PIPESCHED_DOCS_DIR "/Schedules.md");
  ASSERT_TRUE(static_cast<bool>(buffer));
  StringRef page = (*buffer)->getBuffer();
  for (const Family &family : families()) {
    EXPECT_TRUE(page.contains(glanceRow(family))) << glanceRow(family);
    EXPECT_TRUE(page.contains(("\n## " + family.name + "\n").str()));
    EXPECT_TRUE(showsRows(sectionOf(page, family), family))
        << family.name.str();
  }
  for (const std::string &row : messagesRows())
    EXPECT_TRUE(page.contains(row)) << row;
  for (const FamilyOptionInfo &info : familyOptions())
    EXPECT_TRUE(page.contains(optionRow(info))) << optionRow(info);
}
