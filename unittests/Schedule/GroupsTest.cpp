//===- GroupsTest.cpp - Tests of Groups.h ---------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/Groups.h"
#include "../Support/TestTables.h"
#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "gtest/gtest.h"

using namespace pipesched;

/// Path 0 cuts the model at 4 of 6, path 1 at 2.
static Table twoSplits(std::initializer_list<llvm::StringRef> rows) {
  std::vector<Path> paths = {pathOn({0, 1}, {{0, 1, 1}}),
                             pathOn({2, 3}, {{1, 2, 1}})};
  paths[0].blocks = {4, 2};
  paths[1].blocks = {2, 4};
  return makeTable(makePlacement(4, 2, std::move(paths)), rows);
}

static Table reduced() {
  return twoSplits({"0F0 0B0 0G0 0O0", "1F0 1B0 1G0 1O0", "0F1 0B1 0G1 0O1",
                    "1F1 1B1 1G1 1O1"});
}

static std::vector<std::string>
membersOf(const Table &table, const Groups &groups, int64_t number) {
  std::vector<std::string> cells;
  for (CellRef at : groups.membersOf(number))
    cells.push_back(table.rows[at.row][at.index].str());
  return cells;
}

using Names = std::vector<std::string>;

TEST(Groups, HaveNumbersNamesAndMembers) {
  Table table = reduced();
  Groups groups = llvm::cantFail(Groups::create(table.view()));
  ASSERT_EQ(groups.size(), 3);
  EXPECT_EQ(membersOf(table, groups, 0), Names({"0G0", "0G1"}));
  EXPECT_EQ(membersOf(table, groups, 1), Names({"0G0", "1G1"}));
  EXPECT_EQ(membersOf(table, groups, 2), Names({"1G0", "1G1"}));
  EXPECT_EQ(describeGroup(groups.nameOf(1)), "blocks 2 to 4");
  EXPECT_TRUE(llvm::is_sorted(groups.getNames()));
  EXPECT_TRUE(llvm::equal(groups.groupsOf(parseRow("0G0")[0]),
                          std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(groups.groupsOf(parseRow("0O0")[0]).empty());
  EXPECT_FALSE(groups.eachMeetsOnce());
  EXPECT_EQ(groups.indexOf(Phase::AllReduce, 0), 2);
}

TEST(Groups, AreThoseOfThePrograms) {
  Table table = reduced();
  Groups groups = llvm::cantFail(Groups::create(table.view()));
  Program program =
      llvm::cantFail(lowerTable(table.view(), ReceivePlacement::Arrival));
  EXPECT_TRUE(groups.getNames() == llvm::ArrayRef(program.groups));
  for (int64_t row = 0; row != program.getNumWorkers(); ++row)
    for (uint32_t i = program.rowBegins[row]; i != program.rowBegins[row + 1];
         ++i) {
      const Instruction &self = program.instructions[i];
      if (self.is(InstructionRole::Collective))
        EXPECT_TRUE(llvm::is_contained(groups.groupsOf(self.cell), self.peer));
    }
}

/// A stage without a G is in no group, though others reduce its blocks.
TEST(Groups, AreOfCellsThatTheTableHas) {
  Table table = twoSplits({"0F0 0B0 0G0", "1F0 1B0", "0F1 0B1", "1F1 1B1"});
  Groups groups = llvm::cantFail(Groups::create(table.view()));
  EXPECT_EQ(groups.size(), 2);
  EXPECT_EQ(groups.membersOf(0).size(), 1u);
  EXPECT_EQ(groups.indexOf(Phase::AllReduce, 2), -1);
  std::optional<Violation> violation = verifyTable(table.view());
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->message,
            "0G1 is missing: worker 0 runs 0G0 and worker 2 "
            "holds the same blocks");
}

TEST(Groups, OfATableWithoutCollectivesAreNone) {
  Table table = twoSplits({"0F0 0B0", "1F0 1B0", "0F1 0B1", "1F1 1B1"});
  Groups groups = llvm::cantFail(Groups::create(table.view()));
  EXPECT_EQ(groups.size(), 0);
  EXPECT_TRUE(groups.getPhases().isEmpty());
  EXPECT_TRUE(groups.eachMeetsOnce());
}

/// The numbers of costs are those of groups by blocks, so these come first.
TEST(Groups, ByBlocksAreNumberedFirst) {
  GroupName blocks, later;
  blocks.blocks = {5, 6};
  later.blocks = {5, 7};
  EXPECT_LT(blocks, later);
  EXPECT_LT(Grouping::Blocks, Grouping::Unit);
  Cell cell(1, Phase::AllReduce, 0);
  EXPECT_EQ(nameGroup(InstructionKind::AllReduce, cell, {5, 6}), blocks);
}
