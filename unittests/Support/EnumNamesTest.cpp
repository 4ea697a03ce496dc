//===- EnumNamesTest.cpp - Every enum has one set of names ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names of every enum are unique and lead back to their values; options of
// tools, of passes and of families take each of them.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/CostModel/Layers/Runtime.h"
#include "PipeSched/Exchange/ShardyRules.h"
#include "PipeSched/Exchange/TorchCsv.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/StringSet.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Names and values
//===----------------------------------------------------------------------===//

namespace {
/// One enum, with its values as numbers, so that tests are compiled once.
struct EnumUnderTest {
  struct Value {
    uint64_t number;
    llvm::StringRef name, meaning;
    /// Found by its number.
    llvm::StringRef nameOfNumber;
    /// By its name, by its number, and by an option that is given its name.
    std::optional<uint64_t> ofName, ofNumber, ofOption;
  };
  std::vector<Value> values;
  unsigned numValues;
  std::optional<uint64_t> ofEmptyName, ofOtherName, behindLast, ofMaximum;
};
} // namespace

template <typename Enum>
static std::optional<uint64_t> numberOf(std::optional<Enum> value) {
  if (!value)
    return std::nullopt;
  return static_cast<uint64_t>(*value);
}

/// What an option of an enum says that a name is.
template <typename Enum>
static std::optional<uint64_t> parseOption(llvm::cl::opt<Enum> &option,
                                           llvm::StringRef name) {
  Enum value;
  if (option.getParser().parse(option, option.ArgStr, name, value))
    return std::nullopt;
  return static_cast<uint64_t>(value);
}

template <typename Enum>
static EnumUnderTest describe() {
  EnumUnderTest described;
  llvm::cl::opt<Enum> option("enum-names-test", enumOptionValues<Enum>());
  for (const EnumName<Enum> &entry : enumValues<Enum>()) {
    auto number = static_cast<uint64_t>(entry.value);
    described.values.push_back({number, entry.name, entry.meaning,
                                enumName(entry.value),
                                numberOf(enumFromName<Enum>(entry.name)),
                                numberOf(enumFromNumber<Enum>(number)),
                                parseOption(option, entry.name)});
  }
  option.removeArgument();
  described.numValues = kNumEnumValues<Enum>;
  described.ofEmptyName = numberOf(enumFromName<Enum>(""));
  described.ofOtherName = numberOf(enumFromName<Enum>("no such name"));
  described.behindLast = numberOf(enumFromNumber<Enum>(kNumEnumValues<Enum>));
  described.ofMaximum = numberOf(enumFromNumber<Enum>(~uint64_t(0)));
  return described;
}

template <typename... Enums>
static std::vector<EnumUnderTest> describeAll() {
  return {describe<Enums>()...};
}

static std::vector<EnumUnderTest> allEnums() {
  return describeAll<
      Activation, Assign, Asymmetry, Attention, AttentionKernels, Balance,
      Branches, ChimeraConstruction, ContextExchange, ExpertDispatch,
      ForwardSends, GradientAfter, GradientBuckets, KernelLaunch,
      MessageSemantics, Norm, NormPlacement, OffloadAmount, PlacementKind,
      Precision, QueryKeyNorm, RankOrder, ReceivePlacement, Recompute,
      ReductionPlace, Remainder, Runtime, Sharding, ShardyBackward, SlotMeasure,
      SvgVariant, TorchCsvFormat, Transport, optimize::Objective,
      optimize::Status, pipe::AsymmetricPaths, pipe::SplitGradient>();
}

/// The names of an enum, as what a failure is about.
static std::string namesOf(const EnumUnderTest &described) {
  std::string names = "the enum of";
  for (const EnumUnderTest::Value &value : described.values)
    names += " " + value.name.str();
  return names;
}

TEST(EnumNames, NamesAreUniqueAndInOrder) {
  for (const EnumUnderTest &described : allEnums()) {
    SCOPED_TRACE(namesOf(described));
    llvm::StringSet<> names;
    unsigned number = 0;
    for (const EnumUnderTest::Value &value : described.values) {
      EXPECT_EQ(value.number, number++);
      EXPECT_TRUE(names.insert(value.name).second) << value.name.str();
      EXPECT_FALSE(value.name.empty());
      EXPECT_FALSE(value.meaning.empty()) << value.name.str();
      EXPECT_FALSE(value.meaning.ends_with(".")) << value.name.str();
    }
    EXPECT_EQ(number, described.numValues);
    EXPECT_GT(number, 1u);
  }
}

TEST(EnumNames, NamesAndNumbersLeadBackToValues) {
  for (const EnumUnderTest &described : allEnums()) {
    SCOPED_TRACE(namesOf(described));
    for (const EnumUnderTest::Value &value : described.values) {
      EXPECT_EQ(value.nameOfNumber, value.name);
      EXPECT_EQ(value.ofName, value.number);
      EXPECT_EQ(value.ofNumber, value.number);
    }
    EXPECT_EQ(described.ofEmptyName, std::nullopt);
    EXPECT_EQ(described.ofOtherName, std::nullopt);
    EXPECT_EQ(described.behindLast, std::nullopt);
    EXPECT_EQ(described.ofMaximum, std::nullopt);
  }
}

TEST(EnumNames, AnOptionTakesEveryName) {
  for (const EnumUnderTest &described : allEnums()) {
    SCOPED_TRACE(namesOf(described));
    for (const EnumUnderTest::Value &value : described.values)
      EXPECT_EQ(value.ofOption, value.number) << value.name.str();
  }
}

TEST(EnumNames, AreProse) {
  EXPECT_EQ(describeEnumNames<ChimeraConstruction>(),
            "concat, doubling or halving");
  EXPECT_EQ(describeEnumNames<GradientAfter>(), "I or W");
  EXPECT_EQ(quoteEnumNames<GradientAfter>(), "\"I\" or \"W\"");
}

TEST(EnumNames, ADefaultIsMarked) {
  llvm::cl::opt<ReceivePlacement> option(
      "enum-names-test",
      enumOptionValuesWithDefault<ReceivePlacement::Consumer>());
  const auto &parser = option.getParser();
  ASSERT_EQ(parser.getNumOptions(), kNumEnumValues<ReceivePlacement>);
  EXPECT_EQ(parser.getDescription(0), enumMeaning(ReceivePlacement::Arrival));
  EXPECT_EQ(parser.getDescription(1),
            enumMeaning(ReceivePlacement::Consumer).str() + " (default)");
  option.removeArgument();
}

//===----------------------------------------------------------------------===//
// Enums that stand twice
//===----------------------------------------------------------------------===//

TEST(EnumNames, RecomputeIsThatOfTheDialect) {
  EXPECT_EQ(pipe::getMaxEnumValForRecomputeKind() + 1,
            kNumEnumValues<Recompute>);
  for (const EnumName<Recompute> &entry : enumValues<Recompute>())
    EXPECT_EQ(pipe::symbolizeRecomputeKind(entry.name),
              pipe::RecomputeKind(entry.value))
        << entry.name.str();
}

//===----------------------------------------------------------------------===//
// Options of passes and of families
//===----------------------------------------------------------------------===//

namespace {
struct PassOption {
  const char *pass, *option;
  llvm::SmallVector<llvm::StringRef> names;
};
} // namespace

template <typename Enum>
static PassOption takes(const char *pass, const char *option) {
  return {pass, option, listEnumNames<Enum>()};
}

/// Every option of a pass that is an enum.
static std::vector<PassOption> passOptions() {
  std::vector<PassOption> options = {
      takes<Transport>("pipe-verify", "transport"),
      takes<MessageSemantics>("pipe-verify", "messages"),
      takes<MessageSemantics>("exec-verify", "messages"),
      takes<ReceivePlacement>("pipe-verify", "receive-placement"),
      takes<ReceivePlacement>("convert-pipe-to-exec", "receive-placement"),
      takes<Remainder>("pipe-split-backward", "overlapped"),
      takes<pipe::SplitGradient>("pipe-split-backward", "gradient-after"),
      takes<Recompute>("pipe-attach-model", "recompute"),
      takes<Recompute>("pipe-optimize", "recompute"),
      takes<Precision>("pipe-attach-model", "precision"),
      takes<AttentionKernels>("pipe-attach-model", "attention"),
      takes<OffloadAmount>("pipe-add-offload", "amount"),
      takes<optimize::Objective>("pipe-optimize", "objective"),
      takes<ReductionPlace>("pipe-add-optimizer", "all-reduce"),
      takes<SlotMeasure>("pipe-schedule-greedy", "slots"),
      takes<Assign>("pipe-place-bidirectional", "assign"),
      takes<Asymmetry>("pipe-place-asymmetric", "way"),
      takes<pipe::AsymmetricPaths>("pipe-place-asymmetric", "on"),
      takes<Balance>("pipe-place-blocks", "balance"),
      takes<ChimeraConstruction>("pipe-schedule-chimera", "construction"),
      takes<VocabularyAlgorithm>("pipe-schedule-vocab-1f1b", "vocabulary"),
      takes<GradientAfter>("pipe-schedule-1f1b", "gradient-after"),
  };
  for (const DeploymentOption &option : deploymentOptions())
    if (option.kind == DeploymentKind::Choice)
      options.push_back({"pipe-attach-system", option.name.data(),
                         llvm::SmallVector<llvm::StringRef>(option.values)});
  return options;
}

TEST(EnumNames, PassesTakeEveryName) {
  registerAllPasses();
  for (const PassOption &option : passOptions())
    for (llvm::StringRef name : option.names) {
      std::string pass = std::string(option.pass) + "{" + option.option + "=" +
                         name.str() + "}";
      std::string error, printed;
      llvm::raw_string_ostream errors(error), os(printed);
      mlir::OpPassManager passes("builtin.module");
      EXPECT_TRUE(
          mlir::succeeded(mlir::parsePassPipeline(pass, passes, errors)))
          << pass << ": " << error;
      passes.printAsTextualPipeline(os);
      EXPECT_THAT(printed, testing::HasSubstr(std::string(option.option) + "=" +
                                              name.str()));
    }
}

/// What --help says of a pass.
static std::string helpOf(const char *pass) {
  testing::internal::CaptureStdout();
  mlir::PassInfo::lookup(pass)->printHelpStr(/*indent=*/0, /*descIndent=*/40);
  llvm::outs().flush();
  return testing::internal::GetCapturedStdout();
}

TEST(EnumNames, HelpHasEveryName) {
  registerAllPasses();
  for (const PassOption &option : passOptions()) {
    std::string help = helpOf(option.pass);
    for (llvm::StringRef name : option.names)
      EXPECT_THAT(help, testing::HasSubstr("=" + name.str() + " "))
          << option.pass << " " << option.option;
  }
  // A list of texts, for which the pass suggests the closest name.
  EXPECT_THAT(helpOf("pipe-optimize"),
              testing::HasSubstr(describeEnumNames<PlacementKind>()));
}

template <typename Enum>
static void checkFamilyOption(llvm::StringRef option) {
  for (llvm::StringRef name : listEnumNames<Enum>()) {
    FamilyOptions options;
    EXPECT_FALSE(llvm::errorToBool(setOption(options, option, name)))
        << option.str() << "=" << name.str();
    EXPECT_FALSE(llvm::errorToBool(setOption(options, option, name.lower())));
  }
  FamilyOptions options;
  llvm::Error error = setOption(options, option, "no such name");
  ASSERT_TRUE(bool(error));
  EXPECT_THAT(llvm::toString(std::move(error)),
              testing::HasSubstr(describeEnumNames<Enum>()));
}

TEST(EnumNames, FamiliesTakeEveryName) {
  checkFamilyOption<ChimeraConstruction>("construction");
  checkFamilyOption<VocabularyAlgorithm>("vocabulary");
  checkFamilyOption<GradientAfter>("gradient-after");
}
