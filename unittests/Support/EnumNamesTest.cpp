//===- EnumNamesTest.cpp - Every enum has one set of names ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The names of every enum are unique and lead back to their values.
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
#include "llvm/ADT/StringSet.h"
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
    /// By its name and by its number.
    std::optional<uint64_t> ofName, ofNumber;
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

template <typename Enum>
static EnumUnderTest describe() {
  EnumUnderTest described;
  for (const EnumName<Enum> &entry : enumValues<Enum>()) {
    auto number = static_cast<uint64_t>(entry.value);
    described.values.push_back({number, entry.name, entry.meaning,
                                enumName(entry.value),
                                numberOf(enumFromName<Enum>(entry.name)),
                                numberOf(enumFromNumber<Enum>(number))});
  }
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
      SvgVariant, TensorOverlap, TorchCsvFormat, Transport, optimize::Objective,
      optimize::Status, pipe::AsymmetricPaths, pipe::SplitGradient>();
}

/// The names of an enum, as the subject of a failure.
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
// Enums that are twice
//===----------------------------------------------------------------------===//

TEST(EnumNames, RecomputeIsThatOfTheDialect) {
  EXPECT_EQ(pipe::getMaxEnumValForRecomputeKind() + 1,
            kNumEnumValues<Recompute>);
  for (const EnumName<Recompute> &entry : enumValues<Recompute>())
    EXPECT_EQ(pipe::symbolizeRecomputeKind(entry.name),
              pipe::RecomputeKind(entry.value))
        << entry.name.str();
}
