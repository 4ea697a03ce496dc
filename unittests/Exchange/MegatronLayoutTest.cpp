//===- MegatronLayoutTest.cpp - Megatron-Core's pipeline layouts ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layouts in use, every refusal with its character, and a round trip over all
// small lists of layers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Exchange/MegatronLayout.h"
#include "gtest/gtest.h"
#include <numeric>

using namespace pipesched;
using Layers = std::vector<int64_t>;

static Layers read(llvm::StringRef layout) {
  return llvm::cantFail(parseMegatronLayout(layout));
}

static std::string refuse(llvm::StringRef layout) {
  llvm::Expected<Layers> layers = parseMegatronLayout(layout);
  return layers ? "" : llvm::toString(layers.takeError());
}

TEST(MegatronLayout, ReadsEveryForm) {
  EXPECT_EQ(read("EL"), Layers({0}));
  EXPECT_EQ(read("EtttL"), Layers({3}));
  EXPECT_EQ(read("E|t*3|L"), Layers({0, 3, 0}));
  EXPECT_EQ(read("Et|(tt|)*2,t*4|,,L"), Layers({1, 2, 2, 4, 0}));
  EXPECT_EQ(read("Et||*2tL"), Layers({1, 0, 0, 1}));
  EXPECT_EQ(read("(E)t|((t|)*2tt|)*2L"), Layers({1, 1, 1, 2, 1, 1, 2, 0}));
  EXPECT_EQ(read("E(t)*3|()*5L"), Layers({3, 0}));
  // A stage that spans the end of a group.
  EXPECT_EQ(read("E(t|t)*3L"), Layers({1, 2, 2, 1}));
}

/// The 80 layers on 40 stages that Megatron-Core's documentation divides.
TEST(MegatronLayout, ReadsALongOne) {
  llvm::StringRef text = "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL";
  Layers layers = read(text);
  EXPECT_EQ(layers.size(), 40u);
  EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), int64_t(0)), 80);
  EXPECT_EQ(layers[35], 3);
  EXPECT_EQ(layers[39], 1);
  EXPECT_EQ(writeMegatronLayout(layers), text);
}

TEST(MegatronLayout, NamesTheCharacter) {
  EXPECT_EQ(refuse(""), "character 1: the layout has no loss 'L', which its "
                        "last stage ends with");
  EXPECT_EQ(refuse("tL"), "character 1: 't' is before the embedding 'E', but "
                          "the first stage must begin with it");
  EXPECT_EQ(refuse("|EtL"), "character 1: '|' is before the embedding 'E', but "
                            "the first stage must begin with it");
  EXPECT_EQ(refuse("Et|EL"), "character 4: a second embedding 'E': the first "
                             "stage holds the only one");
  EXPECT_EQ(refuse("(E|)*2L"), "character 2: a second embedding 'E': the "
                               "first stage holds the only one");
  EXPECT_EQ(refuse("E*2tL"), "character 1: 'E' must occur once, found 2 times");
  EXPECT_EQ(refuse("EtL*2"), "character 3: 'L' must occur once, found 2 times");
  EXPECT_EQ(refuse("EtLt"), "character 4: 't' comes after the loss 'L', "
                            "which the last stage ends with");
  EXPECT_EQ(refuse("EtL|"), "character 4: '|' comes after the loss 'L', "
                            "which the last stage ends with");
  EXPECT_EQ(refuse("Et*3|(tt|)*29,m|L"),
            "character 15: blocks are decoder layers 't'; an MTP layer 'm' "
            "cannot be said with them");
  EXPECT_EQ(refuse("Et xL"),
            "character 3: expected 'E', 't', 'L', '|' or a group, found ' '");
  EXPECT_EQ(refuse("Et*L"), "character 4: expected a number after '*'");
  EXPECT_EQ(refuse("Et*0L"), "character 4: 0 is not 1 to 2^63 - 1 times");
  EXPECT_EQ(refuse("Et*99999999999999999999L"),
            "character 4: 99999999999999999999 is not 1 to 2^63 - 1 times");
  EXPECT_EQ(refuse("Et*9223372036854775807,tL"),
            "character 24: the stage has more than 2^63 - 1 layers");
  EXPECT_EQ(refuse("E(t|L"), "character 2: '(' is not closed");
  EXPECT_EQ(refuse("Et)*2L"), "character 3: ')' closes nothing");
  EXPECT_EQ(refuse("E*"), "character 3: expected a number after '*'");
}

TEST(MegatronLayout, BoundsWhatItRepeats) {
  EXPECT_EQ(refuse("E|*16777216L"),
            "character 2: there may be 16777216 stages at most");
  EXPECT_EQ(refuse("E(((((|)*99)*99)*99)*99)*99L"),
            "character 7: the layout has more than 16777216 items, repeated "
            "ones counted");
  EXPECT_EQ(refuse("E()*9223372036854775807L"),
            "character 3: the layout has more than 16777216 items, repeated "
            "ones counted");
  std::string deep(65, '(');
  EXPECT_EQ(refuse("E" + deep),
            "character 66: groups may be nested 64 deep at most");
}

TEST(MegatronLayout, WritesWhatMegatronReads) {
  EXPECT_EQ(writeMegatronLayout({0}), "EL");
  EXPECT_EQ(writeMegatronLayout({5}), "Et*5L");
  EXPECT_EQ(writeMegatronLayout({1, 1}), "Et|tL");
  EXPECT_EQ(writeMegatronLayout({2, 2, 2, 2}), "Et*2|(t*2|)*2,t*2L");
  EXPECT_EQ(writeMegatronLayout({3, 0, 0, 1, 4, 4, 0}),
            "Et*3|(|)*2,t|(t*4|)*2,L");
}

/// Every list of up to six stages with up to three layers each.
TEST(MegatronLayout, RoundTrips) {
  for (size_t stages = 1; stages <= 6; ++stages) {
    Layers layers(stages, 0);
    do {
      std::string text = writeMegatronLayout(layers);
      EXPECT_EQ(read(text), layers) << text;
      size_t digit = 0;
      while (digit < stages && ++layers[digit] == 4)
        layers[digit++] = 0;
      if (digit == stages)
        break;
    } while (true);
  }
}
