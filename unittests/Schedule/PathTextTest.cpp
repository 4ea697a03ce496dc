//===- PathTextTest.cpp - Paths written by hand ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the parser accepts, and every refusal with its character.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/PathText.h"
#include "../Support/TestTables.h"

using namespace pipesched;
using Workers = std::vector<int32_t>;
using Counts = std::vector<int64_t>;

static std::vector<Path> read(llvm::StringRef text) {
  return llvm::cantFail(parsePaths(text));
}

TEST(PathText, ReadsWorkers) {
  EXPECT_EQ(read("0,1,2")[0].workers, Workers({0, 1, 2}));
  EXPECT_EQ(read(" [ 0 , 1 ] ")[0].workers, Workers({0, 1}));
  EXPECT_EQ(read("0:4, 7, 3:-1:-1")[0].workers,
            Workers({0, 1, 2, 3, 7, 3, 2, 1, 0}));
  EXPECT_EQ(read("0:7:3,6:1:-2")[0].workers, Workers({0, 3, 6, 6, 4, 2}));
  std::vector<Path> paths = read("0,1;1,0");
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[1].workers, Workers({1, 0}));
  EXPECT_TRUE(paths[1].takes.empty());
}

TEST(PathText, ReadsWhatElseAPathSays) {
  std::vector<Path> paths =
      read("0,1 takes 0:8:2, 9 blocks 20*2;[1, 0] weights [1, 2]takes[1:8:2]");
  ASSERT_EQ(paths.size(), 2u);
  EXPECT_EQ(paths[0].takes,
            (std::vector<MicrobatchRange>{{0, 8, 2}, {9, 10, 1}}));
  EXPECT_EQ(paths[0].blocks, Counts({20, 20}));
  EXPECT_EQ(paths[1].weights, Counts({1, 2}));
  EXPECT_EQ(paths[1].takes, (std::vector<MicrobatchRange>{{1, 8, 2}}));
}

TEST(PathText, ReadsCounts) {
  EXPECT_EQ(llvm::cantFail(parseStageCounts("7,8*3,7")),
            (std::vector<Counts>{{7, 8, 8, 8, 7}}));
  EXPECT_EQ(llvm::cantFail(parseStageCounts("[1,2];0*2")),
            (std::vector<Counts>{{1, 2}, {0, 0}}));
}

TEST(PathText, NamesTheCharacter) {
  auto refuse = [](llvm::StringRef text) { return errorOf(parsePaths(text)); };
  EXPECT_EQ(refuse(""), "character 1: expected a worker, found the end");
  EXPECT_EQ(refuse("0,1;"), "character 5: expected a worker, found the end");
  EXPECT_EQ(refuse("0,x"), "character 3: expected a worker, found 'x'");
  EXPECT_EQ(refuse("0,-"), "character 3: expected a worker, found '-'");
  EXPECT_EQ(refuse("0 1"),
            "character 3: expected 'takes', 'blocks' or 'weights', each once, "
            "or ';', found '1'");
  EXPECT_EQ(refuse("0 takes 1 takes 2"),
            "character 11: expected 'takes', 'blocks' or 'weights', each once, "
            "or ';', found 't'");
  EXPECT_EQ(refuse("0 block 1"),
            "character 3: expected 'takes', 'blocks' or 'weights', each once, "
            "or ';', found 'b'");
  EXPECT_EQ(refuse("[0,1;1,0]"), "character 5: expected ',' or ']', found ';'");
  EXPECT_EQ(refuse("0,65536"),
            "character 3: worker 65536 is not one of 0 to 65535");
  EXPECT_EQ(refuse("0,2:-2:-1"),
            "character 3: worker -1 is not one of 0 to 65535");
  EXPECT_EQ(refuse("0,4:2"), "character 3: the workers 4:2:1 are none");
  EXPECT_EQ(refuse("0,0:4:0"), "character 3: the workers 0:4:0 are none");
  EXPECT_EQ(refuse("0,0:4:"),
            "character 7: expected the step of a range, found the end");
  EXPECT_EQ(refuse("99999999999999999999"),
            "character 1: the number 99999999999999999999 is too large");
  EXPECT_EQ(refuse("0 takes 4611686018427387904"),
            "character 9: the number 4611686018427387904 is too large");
  EXPECT_EQ(refuse("0:2305843009213693952"),
            "character 1: a path may have 16777216 stages at most");
  EXPECT_EQ(refuse("0 blocks 3*0"),
            "character 10: 0 times 3 is not 1 to 16777216 counts");
  EXPECT_EQ(refuse("0 blocks 3*99999999999"),
            "character 10: 99999999999 times 3 is not 1 to 16777216 counts");
  EXPECT_EQ(errorOf(parseStageCounts("1,2 3")),
            "character 5: expected ';' or the end, found '3'");
  EXPECT_EQ(errorOf(parseStageCounts("1;")),
            "character 3: expected a count, found the end");
}
