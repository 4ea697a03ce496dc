//===- FamilyCases.h - Every small schedule of a family ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All sizes up to D = 8, N = 24, V = 4 with all values of a family's options,
// including refused ones.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_FAMILYCASES_H
#define PIPESCHED_UNITTESTS_SUPPORT_FAMILYCASES_H

#include "PipeSched/Schedule/Family/Families.h"
#include "TestEffort.h"
#include "TestTables.h"

namespace pipesched {

struct FamilyCase {
  const Family *family = nullptr;
  int64_t workers = 0, microbatches = 0;
  FamilyOptions options;

  llvm::Expected<Table> generate() const {
    return pipesched::generate(*family, workers, microbatches, options);
  }
  bool sendsAfterInput() const {
    return options.splitBackward.value_or(false) &&
           options.gradientAfter == GradientAfter::InputGrad;
  }
  int64_t chunks() const { return options.chunks.value_or(1); }
  int64_t pairs() const { return options.pairs.value_or(1); }
  int64_t slices() const { return options.slices.value_or(1); }
  int64_t units() const { return microbatches * slices(); }
};

inline std::ostream &operator<<(std::ostream &os, const FamilyCase &one) {
  os << one.family->name.str() << " D=" << one.workers
     << " N=" << one.microbatches;
  auto print = [&](const char *name, std::optional<int64_t> value) {
    if (value)
      os << ' ' << name << '=' << *value;
  };
  print("chunks", one.options.chunks);
  print("group", one.options.group);
  print("waves", one.options.waves);
  print("pairs", one.options.pairs);
  print("memory", one.options.memory);
  print("slices", one.options.slices);
  if (one.options.construction)
    os << ' ' << enumName(*one.options.construction).str();
  if (one.options.vocabulary)
    os << ' ' << enumName(*one.options.vocabulary).str();
  if (one.options.splitBackward)
    os << (*one.options.splitBackward ? " split" : " whole");
  if (one.sendsAfterInput())
    os << " after I";
  return os;
}

/// All combinations of options and their values.
class OptionSet {
public:
  template <typename Value>
  void cross(std::optional<Value> FamilyOptions::*option,
             llvm::ArrayRef<std::optional<Value>> values) {
    std::vector<FamilyOptions> crossed;
    for (const FamilyOptions &known : all)
      for (std::optional<Value> value : values) {
        crossed.push_back(known);
        crossed.back().*option = value;
      }
    all = std::move(crossed);
  }
  void crossUpTo(std::optional<int64_t> FamilyOptions::*option, int64_t least,
                 int64_t most) {
    std::vector<std::optional<int64_t>> values;
    for (int64_t value = least; value <= most; ++value)
      values.emplace_back(value);
    cross<int64_t>(option, values);
  }

  std::vector<FamilyOptions> all = {FamilyOptions()};
};

/// Adds whole backwards, and split ones with the gradient after W and after I.
/// With a given group only whole backwards are tried.
inline void addBackwards(std::vector<FamilyOptions> &all) {
  size_t numWhole = all.size();
  for (size_t i = 0; i < numWhole; ++i) {
    all[i].splitBackward = false;
    if (all[i].group)
      continue;
    FamilyOptions split = all[i];
    split.splitBackward = true;
    split.gradientAfter = GradientAfter::WeightGrad;
    all.push_back(split);
    split.gradientAfter = GradientAfter::InputGrad;
    all.push_back(split);
  }
}

inline std::vector<FamilyOptions>
optionsOf(const Family &family, int64_t workers, int64_t microbatches) {
  OptionSet options;
  if (family.takes(FamilyOption::Chunks))
    options.crossUpTo(&FamilyOptions::chunks, 1, 4);
  if (family.takes(FamilyOption::Waves))
    options.crossUpTo(&FamilyOptions::waves, 1, 4);
  if (family.takes(FamilyOption::Pairs))
    options.crossUpTo(&FamilyOptions::pairs, 1, 4);
  if (family.takes(FamilyOption::Slices))
    options.crossUpTo(&FamilyOptions::slices, 1, 3);
  if (family.takes(FamilyOption::Memory))
    options.crossUpTo(&FamilyOptions::memory, 1, 2 * workers + 1);
  if (family.takes(FamilyOption::Construction))
    options.cross<ChimeraConstruction>(&FamilyOptions::construction,
                                       {ChimeraConstruction::Concat,
                                        ChimeraConstruction::Doubling,
                                        ChimeraConstruction::Halving});
  if (family.takes(FamilyOption::Vocabulary))
    options.cross<VocabularyAlgorithm>(
        &FamilyOptions::vocabulary,
        {VocabularyAlgorithm::Vocab1, VocabularyAlgorithm::Vocab2});
  if (family.takes(FamilyOption::Embedding))
    options.cross<bool>(&FamilyOptions::embedding, {false, true});
  if (family.takes(FamilyOption::Group)) {
    std::vector<FamilyOptions> ungrouped = options.all;
    options.crossUpTo(&FamilyOptions::group, 1, microbatches + 1);
    options.all.insert(options.all.end(), ungrouped.begin(), ungrouped.end());
  }
  if (family.takes(FamilyOption::SplitBackward))
    addBackwards(options.all);
  return std::move(options.all);
}

/// Calls `check(const FamilyCase &)` for the given sizes with all options.
template <typename Check>
void forAllOptions(const Family &family, int64_t workers, int64_t microbatches,
                   Check &&check) {
  for (FamilyOptions &options : optionsOf(family, workers, microbatches)) {
    FamilyCase one = {&family, workers, microbatches, std::move(options)};
    SCOPED_TRACE(testing::Message() << one);
    check(one);
  }
}

/// The same for all sizes.
template <typename Check>
void forAllCases(const Family &family, Check &&check) {
  for (int64_t workers = 1; workers <= mostWorkers(); ++workers)
    for (int64_t microbatches = 1; microbatches <= mostMicrobatches();
         ++microbatches)
      forAllOptions(family, workers, microbatches, check);
}

constexpr int64_t kLargeWorkers[] = {9, 12, 14, 16, 17, 31};

/// The same for larger sizes with every remainder by two and three, with
/// microbatches just below, at and above multiples of the workers, and a few
/// groups and memories.
template <typename Check>
void forLargeCases(const Family &family, Check &&check) {
  auto isTried = [](const FamilyCase &one) {
    int64_t group = one.options.group.value_or(one.workers);
    int64_t memory = one.options.memory.value_or(2);
    return (group == one.workers || group == one.workers + 1 ||
            group == 2 * one.workers) &&
           (memory <= 3 || memory % one.workers <= 2);
  };
  llvm::ArrayRef<int64_t> all = kLargeWorkers;
  for (int64_t workers : kIsSanitized ? all.take_front() : all)
    for (int64_t microbatches : {workers - 1, workers, 2 * workers - 1,
                                 2 * workers, 3 * workers + 2, 5 * workers})
      forAllOptions(family, workers, microbatches, [&](const FamilyCase &one) {
        if (isTried(one))
          check(one);
      });
}

/// Names a parameterized test after its family: "zb_v".
inline std::string
printFamily(const testing::TestParamInfo<const Family *> &info) {
  std::string name = info.param->name.str();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

inline std::vector<const Family *> allFamilies() {
  std::vector<const Family *> all;
  for (const Family &family : families())
    all.push_back(&family);
  return all;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_FAMILYCASES_H
