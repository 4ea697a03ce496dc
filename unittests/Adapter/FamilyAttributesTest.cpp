//===- FamilyAttributesTest.cpp - Options of families in IR ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes of a schedule for its family are enough to generate its rows
// again.
//
//===----------------------------------------------------------------------===//

#include "../Support/FamilyCases.h"
#include "PipeSched/Adapter/CreateSchedule.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

using namespace mlir;
using namespace pipesched;

namespace {
struct FamilyAttributesTest : testing::Test {
  FamilyAttributesTest() { context.loadDialect<pipe::PipeDialect>(); }

  /// A schedule that says that it was generated so.
  pipe::ScheduleOp create(Table &&table, const Family &family,
                          const FamilyOptions &options) {
    Location location = UnknownLoc::get(&context);
    module = ModuleOp::create(location);
    auto builder = OpBuilder::atBlockEnd(module->getBody());
    pipe::ScheduleOp schedule =
        createSchedule(builder, location, "s", std::move(table));
    schedule.setFamily(family.name, describeFamily(builder, family, options));
    return schedule;
  }

  void expectSameRowsAgain(const FamilyCase &one) {
    llvm::Expected<Table> table = one.generate();
    if (!table)
      return llvm::consumeError(table.takeError());
    Table copy = *table;
    pipe::ScheduleOp schedule =
        create(std::move(*table), *one.family, one.options);
    EXPECT_FALSE(verifyFamily(schedule, copy.view())) << one;
    FamilyOptions loaded = loadFamilyOptions(schedule);
    Table again = llvm::cantFail(generate(*one.family, copy.placement, loaded));
    EXPECT_EQ(printRows(again.rows), printRows(copy.rows));
    EXPECT_EQ(again.gradientAfter, copy.gradientAfter);
    numGroups += loaded.group.has_value();
    numMemories += loaded.memory.has_value();
    numConstructions += loaded.construction.has_value();
    numSplits += loaded.splitBackward.has_value();
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  int64_t numGroups = 0, numMemories = 0, numConstructions = 0, numSplits = 0;
};
} // namespace

TEST_F(FamilyAttributesTest, GenerateTheRowsAgain) {
  for (const Family &family : families())
    for (int64_t microbatches : {4, 8, 9})
      forAllOptions(family, 4, microbatches,
                    [&](const FamilyCase &one) { expectSameRowsAgain(one); });
  EXPECT_GT(numGroups, 0);
  EXPECT_GT(numMemories, 0);
  EXPECT_GT(numConstructions, 0);
  EXPECT_GT(numSplits, 0);
}

TEST_F(FamilyAttributesTest, AreRefusedForTheRowsOfOthers) {
  std::vector<llvm::StringRef> names = {"gpipe", "1f1b", "eager-1f1b", "zb-h1",
                                        "zb-h2"};
  for (llvm::StringRef name : names) {
    Table table = llvm::cantFail(generate(*findFamily(name), 4, 8));
    for (llvm::StringRef other : names)
      EXPECT_EQ(verifyFamily(table.view(), *findFamily(other), {}).has_value(),
                name != other)
          << name.str() << " as " << other.str();
  }
}

TEST_F(FamilyAttributesTest, AreRefusedForAnyTwoCellsExchanged) {
  for (llvm::StringRef name :
       {"1f1b", "zb-h1", "interleaved-1f1b", "chimera"}) {
    const Family &family = *findFamily(name);
    Table table = llvm::cantFail(generate(family, 4, 4));
    for (Row &row : table.rows)
      for (size_t i = 1; i < row.size(); ++i) {
        std::swap(row[i - 1], row[i]);
        EXPECT_TRUE(verifyFamily(table.view(), family, {})) << name.str() << i;
        std::swap(row[i - 1], row[i]);
      }
    EXPECT_FALSE(verifyFamily(table.view(), family, {}));
  }
}

TEST_F(FamilyAttributesTest, AreReadOneByOne) {
  const Family &chimera = *findFamily("chimera");
  FamilyOptions options;
  options.construction = ChimeraConstruction::Halving;
  options.splitBackward = true;
  options.gradientAfter = GradientAfter::WeightGrad;
  Table table = llvm::cantFail(generate(chimera, 4, 8, options));
  pipe::ScheduleOp schedule = create(std::move(table), chimera, options);
  FamilyOptions loaded = loadFamilyOptions(schedule);
  EXPECT_EQ(loaded.construction, ChimeraConstruction::Halving);
  EXPECT_EQ(loaded.splitBackward, true);
  EXPECT_EQ(loaded.gradientAfter, GradientAfter::WeightGrad);
  EXPECT_FALSE(loaded.group || loaded.memory || loaded.pairs);

  Builder builder(&context);
  schedule.setFamily(
      "VPP", {builder.getNamedAttr("group", builder.getI64IntegerAttr(6)),
              builder.getNamedAttr("memory", builder.getI64IntegerAttr(5))});
  loaded = loadFamilyOptions(schedule);
  EXPECT_EQ(loaded.group, 6);
  EXPECT_EQ(loaded.memory, 5);
  EXPECT_FALSE(loaded.construction || loaded.splitBackward ||
               loaded.gradientAfter);
}

TEST_F(FamilyAttributesTest, ThatNoGeneratorWritesDoNotCount) {
  const Family &gpipe = *findFamily("gpipe");
  Table table = llvm::cantFail(generate(gpipe, 2, 2));
  pipe::ScheduleOp schedule = create(std::move(table), gpipe, {});
  Builder builder(&context);
  auto add = [&](llvm::StringRef name, Attribute value) {
    return builder.getNamedAttr(name, value);
  };
  schedule.setFamily("gpipe",
                     {add("construction", builder.getStringAttr("units")),
                      add("chunks", builder.getI64IntegerAttr(3)),
                      add("group", builder.getStringAttr("four")),
                      add("split_backward", builder.getStringAttr("true"))});
  FamilyOptions loaded = loadFamilyOptions(schedule);
  EXPECT_FALSE(loaded.construction || loaded.chunks || loaded.group ||
               loaded.splitBackward || loaded.gradientAfter);
}
