//===- DeploymentTest.cpp - Tests for the options of a training -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/System.h"
#include "llvm/ADT/StringSet.h"
#include <gtest/gtest.h>

using namespace pipesched;

static std::string setError(llvm::StringRef name, llvm::StringRef value) {
  Deployment deployment;
  return llvm::toString(setOption(deployment, name, value));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

TEST(DeploymentTable, RowsAreSound) {
  llvm::StringSet<> names, attributes;
  for (const DeploymentOption &option : deploymentOptions()) {
    SCOPED_TRACE(option.name.str());
    EXPECT_TRUE(names.insert(option.name).second);
    EXPECT_TRUE(attributes.insert(option.attribute).second);
    EXPECT_EQ(option.get(Deployment()), option.unsaid);
    EXPECT_LE(option.least, option.unsaid);
    EXPECT_LE(option.unsaid, option.most);
    EXPECT_FALSE(option.summary.empty() || option.summary.ends_with("."));
    EXPECT_EQ(option.values.empty(), !option.isChoice());
    EXPECT_EQ(option.wanted.empty(), option.kind == DeploymentKind::Choice);
    EXPECT_EQ(option.unit.empty(), option.kind == DeploymentKind::Choice);
    EXPECT_EQ(option.putSizes != nullptr, option.kind == DeploymentKind::Sizes);
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// Each option is a part of equality, and changes nothing else.
TEST(Deployment, OptionsAreIndependent) {
  for (const DeploymentOption &option : deploymentOptions()) {
    SCOPED_TRACE(option.name.str());
    Deployment deployment;
    EXPECT_FALSE(option.isGiven(deployment));
    int64_t other = option.unsaid + (option.unsaid == option.most ? -1 : 1);
    llvm::cantFail(setOption(deployment, option, other));
    EXPECT_FALSE(deployment == Deployment());
    for (const DeploymentOption &each : deploymentOptions())
      EXPECT_EQ(each.isGiven(deployment), &each == &option);
    option.put(deployment, option.unsaid);
    EXPECT_TRUE(deployment == Deployment());
  }
}

/// Sizes and a word each take the place of the other.
TEST(Deployment, TakesSizesInPlaceOfAWord) {
  Deployment deployment;
  llvm::cantFail(setOption(deployment, "slice-cut", "work"));
  llvm::cantFail(setOption(deployment, "slice-cut", "4930, 4238,3776,3440"));
  EXPECT_EQ(deployment.sliceCut, SliceCut::Tokens);
  EXPECT_EQ(deployment.sliceCutSizes,
            (std::vector<int64_t>{4930, 4238, 3776, 3440}));
  EXPECT_FALSE(deployment == Deployment());
  EXPECT_FALSE(llvm::errorToBool(checkRanges(deployment)));
  Deployment same = deployment;
  EXPECT_TRUE(same == deployment);
  same.sliceCutSizes.back() += 2;
  EXPECT_FALSE(same == deployment);
  same.sliceCutSizes.back() = 0;
  EXPECT_TRUE(llvm::errorToBool(checkRanges(same)));
  llvm::cantFail(setOption(deployment, "slice-cut", "tokens"));
  EXPECT_TRUE(deployment == Deployment());
}

TEST(Deployment, SaysWhatSizesItWants) {
  EXPECT_EQ(setError("slice-cut", "4096,0"),
            "expected slice-cut to give each slice at least 1 of the tokens, "
            "found 0 for slice 1 of 2");
  for (const char *text : {"token", "4096,", "", "4096;4096", "4k"})
    EXPECT_EQ(setError("slice-cut", text),
              "expected slice-cut to be tokens, work or tokens of each slice "
              "such as 4930,4238,3776,3440, found '" +
                  std::string(text) + "'");
}

TEST(Deployment, SaysWhatItWants) {
  EXPECT_EQ(setError("data-paralel", "4"),
            "no training has an option 'data-paralel', the closest is "
            "'data-parallel'");
  EXPECT_EQ(setError("data-parallel", "two"),
            "expected 1 to 2147483647 data-parallel pipelines, found 'two'");
  EXPECT_EQ(setError("context-parallel", "0"),
            "expected a degree of context parallelism of at least 1, found 0");
  EXPECT_EQ(setError("context-parallel", "9223372036854775808"),
            "expected a degree of context parallelism of at least 1, found "
            "'9223372036854775808'");
  EXPECT_EQ(setError("expert-balance", "0.5"),
            "expected an expert balance (rows of the fullest rank divided by "
            "the mean) from 1 to 1000, found 0.500000");
  EXPECT_EQ(setError("expert-dispatch", "per_node"),
            "expected expert-dispatch to be all-to-all, per-node or per-rank, "
            "found 'per_node'");
}

//===----------------------------------------------------------------------===//
// Systems
//===----------------------------------------------------------------------===//

TEST(Deploy, ChecksEveryOption) {
  HardwareFacts hardware;
  hardware.name = "toy";
  for (const DeploymentOption &option : deploymentOptions()) {
    SCOPED_TRACE(option.name.str());
    Deployment deployment;
    option.put(deployment, option.least - 1);
    if (option.get(deployment) != option.least - 1)
      continue; // the member cannot be wrong
    llvm::Expected<SystemFacts> system = deploy(hardware, deployment);
    ASSERT_FALSE(bool(system));
    EXPECT_TRUE(llvm::StringRef(llvm::toString(system.takeError()))
                    .starts_with("system 'toy': expected "));
  }
}

TEST(Deploy, IsHardwareAndDeployment) {
  HardwareFacts hardware;
  hardware.accelerators = 4;
  Deployment deployment;
  deployment.contextParallel = 2;
  SystemFacts system = llvm::cantFail(deploy(hardware, deployment));
  EXPECT_TRUE(system.hardware() == hardware);
  EXPECT_TRUE(system.deployment() == deployment);
  EXPECT_EQ(system.tensorParallel(), 2);
  SystemFacts other = system;
  EXPECT_TRUE(system == other);
  other.dataParallel = 2;
  EXPECT_FALSE(system == other);
  other = system;
  other.memoryBytes = 1;
  EXPECT_FALSE(system == other);
}
