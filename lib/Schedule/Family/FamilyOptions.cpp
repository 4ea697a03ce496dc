//===- FamilyOptions.cpp - Options of families as text ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of options, and the parser of their values.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Families.h"
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
  static const std::string algorithms =
      describeEnumNames<VocabularyAlgorithm>();
  static const std::string gradients = describeEnumNames<GradientAfter>();
  static const FamilyOptionInfo options[] = {
      {FamilyOption::Chunks, "chunks", "an integer from 1", "stages per worker",
       "as in the path", &FamilyOptions::chunks, /*isWritten=*/false},
      {FamilyOption::Group, "group", "an integer from D",
       "microbatches that run on a chunk before the next chunk",
       "the N / max(1, N div D) of PyTorch", &FamilyOptions::group,
       /*isWritten=*/true},
      {FamilyOption::Waves, "waves", "an integer from 1",
       "times down and up the workers", "as in the path, or one",
       &FamilyOptions::waves, /*isWritten=*/false},
      {FamilyOption::Pairs, "pairs", "an integer from 1",
       "mirrored pairs of paths", "as in the paths, or one",
       &FamilyOptions::pairs, /*isWritten=*/false},
      {FamilyOption::Memory, "memory", "an integer from 2",
       "activations of a stage and microbatch that a worker may hold",
       "2D, as 1F1B holds", &FamilyOptions::memory, /*isWritten=*/true},
      {FamilyOption::Construction, "construction", constructions,
       "the construction for more microbatches than a basic unit has", "",
       &FamilyOptions::construction, /*isWritten=*/true},
      {FamilyOption::SplitBackward, "split-backward", "true or false",
       "split each backward into I and, right after it, W", "",
       &FamilyOptions::splitBackward, /*isWritten=*/true},
      {FamilyOption::GradientAfter, "gradient-after", gradients,
       "which cell of a split backward sends the gradient to the previous "
       "stage",
       "", &FamilyOptions::gradientAfter, /*isWritten=*/false},
      {FamilyOption::Slices, "slices", "an integer from 1",
       "slices of each microbatch along its tokens",
       "as in the schedule; for whole microbatches 4 with seq1f1b and "
       "terapipe, D with slimpipe, else 1",
       &FamilyOptions::slices, /*isWritten=*/false},
      {FamilyOption::Vocabulary, "vocabulary", algorithms,
       "how the shards of a vocabulary compute the gradient of the last output",
       "", &FamilyOptions::vocabulary, /*isWritten=*/true},
      {FamilyOption::Backward, "backward", "an integer from 1",
       "the time of B in percent of the time of F, for which the order is made",
       "200, as in unit slots", &FamilyOptions::backward, /*isWritten=*/true},
      {FamilyOption::Embedding, "embedding", "true or false",
       "separate cells for the shards of the embedding", "",
       &FamilyOptions::embedding, /*isWritten=*/true},
      {FamilyOption::ForwardOnly, "forward-only", "true or false",
       "no backwards, as in an evaluation", "", &FamilyOptions::forwardOnly,
       /*isWritten=*/false},
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
  return formatError("no schedule family has an option '{0}'{1}", name,
                     nameHint(name, names));
}

namespace {
/// Reads a value from text; returns false if the text has another form.
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

Error pipesched::setOption(FamilyOptions &options, StringRef name,
                           StringRef value) {
  Expected<const FamilyOptionInfo *> info = lookUpOption(name);
  if (!info)
    return info.takeError();
  FamilyOptions changed = options;
  auto parse = [&](auto field) { return ParseValue{value}(changed.*field); };
  if (!std::visit(parse, (*info)->field))
    return formatError("the option '{0}' takes {1}, found '{2}'", (*info)->name,
                       (*info)->values, value);
  options = std::move(changed);
  return Error::success();
}
