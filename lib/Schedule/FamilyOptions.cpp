//===- FamilyOptions.cpp - Options of families as text ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of options, and their values from text.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Families.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/FormatError.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

llvm::ArrayRef<FamilyOptionInfo> pipesched::familyOptions() {
  static const std::string constructions =
      describeEnumNames<ChimeraConstruction>();
  static const std::string gradients = describeEnumNames<GradientAfter>();
  static const FamilyOptionInfo options[] = {
      {FamilyOption::Chunks, "chunks", "an integer from 1",
       "stages per worker"},
      {FamilyOption::Group, "group", "an integer from D",
       "microbatches that run on a chunk before the next has its turn"},
      {FamilyOption::Waves, "waves", "an integer from 1",
       "times down and up the workers"},
      {FamilyOption::Pairs, "pairs", "an integer from 1",
       "mirrored pairs of paths"},
      {FamilyOption::Memory, "memory", "an integer from 2",
       "activations of a stage and microbatch that a worker may hold"},
      {FamilyOption::Construction, "construction", constructions,
       "what more microbatches than a basic unit has become"},
      {FamilyOption::SplitBackward, "split-backward", "true or false",
       "split each backward into I and, right behind it, W"},
      {FamilyOption::GradientAfter, "gradient-after", gradients,
       "which cell of a split backward sends the gradient upstream"},
  };
  return options;
}

static Expected<const FamilyOptionInfo *> lookUpOption(StringRef name) {
  std::string spelled = name.lower();
  std::replace(spelled.begin(), spelled.end(), '_', '-');
  llvm::SmallVector<StringRef> names;
  for (const FamilyOptionInfo &info : familyOptions()) {
    if (info.name == spelled)
      return &info;
    names.push_back(info.name);
  }
  return formatError("no schedule family has an option '{0}', the closest is "
                     "'{1}'",
                     name, closestName(name, names));
}

namespace {
/// Reads a value; false where it is none.
struct ParseValue {
  StringRef text;

  bool operator()(std::optional<int64_t> &value) const {
    int64_t number = 0;
    bool isNumber = !text.getAsInteger(10, number);
    value = number;
    return isNumber;
  }
  bool operator()(std::optional<bool> &value) const {
    value = text.equals_insensitive("true") || text == "1";
    return *value || text.equals_insensitive("false") || text == "0";
  }
  template <typename Enum>
  std::enable_if_t<std::is_enum_v<Enum>, bool>
  operator()(std::optional<Enum> &value) const {
    for (const EnumName<Enum> &entry : enumValues<Enum>())
      if (entry.name.equals_insensitive(text))
        value = entry.value;
    return value.has_value();
  }
};
} // namespace

static bool parseInto(FamilyOptions &options, FamilyOption option,
                      ParseValue parse) {
  switch (option) {
  case FamilyOption::Chunks:
    return parse(options.chunks);
  case FamilyOption::Group:
    return parse(options.group);
  case FamilyOption::Waves:
    return parse(options.waves);
  case FamilyOption::Pairs:
    return parse(options.pairs);
  case FamilyOption::Memory:
    return parse(options.memory);
  case FamilyOption::Construction:
    return parse(options.construction);
  case FamilyOption::SplitBackward:
    return parse(options.splitBackward);
  case FamilyOption::GradientAfter:
    return parse(options.gradientAfter);
  }
  llvm_unreachable("covered switch");
}

Error pipesched::setOption(FamilyOptions &options, StringRef name,
                           StringRef value) {
  Expected<const FamilyOptionInfo *> info = lookUpOption(name);
  if (!info)
    return info.takeError();
  FamilyOptions changed = options;
  if (!parseInto(changed, (*info)->option, {value}))
    return formatError("the option '{0}' takes {1}, found '{2}'", (*info)->name,
                       (*info)->values, value);
  options = std::move(changed);
  return Error::success();
}
