//===- ClosestNameTest.cpp - Suggestions for misspelled names -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/ClosestName.h"
#include "gtest/gtest.h"
#include <vector>

using namespace pipesched;

static const llvm::StringRef kNames[] = {"gpipe", "1f1b", "bytes_per_s", "F"};

TEST(ClosestName, SuggestsWhatIsClose) {
  EXPECT_EQ(closeName("GPipes", kNames), "gpipe");
  EXPECT_EQ(closeName("1fb1", kNames), "1f1b");
  EXPECT_EQ(closeName("bytes", kNames), "bytes_per_s");
  EXPECT_EQ(nameHint("gpip", kNames), ", the closest is 'gpipe'");
}

TEST(ClosestName, PrefersTheWholeNameToALongerOne) {
  EXPECT_EQ(closeName("dualpip", {"dualpipe-v", "dualpipe"}), "dualpipe");
  EXPECT_EQ(closeName("dualpip", {"dualpipe", "dualpipe-v"}), "dualpipe");
  EXPECT_EQ(closeName("dualpipe-", {"dualpipe", "dualpipe-v"}), "dualpipe");
  EXPECT_EQ(closeName("llama3-", {"llama3-405b", "llama3-8b"}), "llama3-8b");
}

TEST(ClosestName, ListsWhatIsKnownIfNothingIsClose) {
  for (llvm::StringRef name : {"nope", "X", "", "something else"})
    EXPECT_EQ(nameHint(name, kNames), " (known: gpipe, 1f1b, bytes_per_s, F)");
  EXPECT_EQ(nameHint("nope", {}), "");
  std::vector<llvm::StringRef> many(23, "name");
  std::string hint = nameHint("X", many);
  EXPECT_TRUE(llvm::StringRef(hint).ends_with("name and 3 more)"));
}
