//===- ResizeModel.cpp - A model with other microbatch sizes --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Searches for the description from which a model was expanded. It must yield
// exactly the same facts.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Layers/MicrobatchSizes.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Support/FormatError.h"

using namespace pipesched;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Models of the module
//===----------------------------------------------------------------------===//

/// Returns the one of `others` with that size, or null.
static Expected<const ModelFacts *>
findSize(const ModelFacts &model, int64_t size,
         llvm::ArrayRef<ModelFacts> others) {
  const ModelFacts *found = nullptr;
  for (const ModelFacts &other : others) {
    if (other.microbatchSize != size || !areSizesOfOne(model, other))
      continue;
    if (found)
      return formatError("has model '{0}', and with microbatches of {1} "
                         "sequences there are both '{2}' and '{3}'",
                         model.name, size, found->name, other.name);
    found = &other;
  }
  return found;
}

//===----------------------------------------------------------------------===//
// Shipped descriptions
//===----------------------------------------------------------------------===//

namespace {
struct Expansion {
  Architecture architecture;
  ExpansionOptions options;
};
} // namespace

static bool gives(const Expansion &expansion, const ModelFacts &model) {
  Expected<ModelFacts> facts =
      expandArchitecture(expansion.architecture, expansion.options);
  if (!facts) {
    llvm::consumeError(facts.takeError());
    return false;
  }
  facts->name = model.name;
  return *facts == model;
}

/// Tries all options of an expansion that a model does not record. A model
/// records the bytes of a parameter.
static std::optional<Expansion> findOptions(const Architecture &architecture,
                                            const ModelFacts &model) {
  Expansion tried{architecture, {}};
  tried.options.microbatchSize = model.microbatchSize;
  tried.options.recompute = model.recompute;
  tried.architecture.weightBytesPerParameter = model.weightBytesPerParameter;
  tried.architecture.gradientBytesPerParameter =
      model.gradientBytesPerParameter;
  tried.architecture.optimizerBytesPerParameter =
      model.optimizerBytesPerParameter;
  for (Attention attention :
       {Attention::Fused, Attention::Unfused, Attention::Flash2,
        Attention::Flash3, Attention::Cudnn})
    for (Precision precision :
         {Precision::BF16, Precision::FP8, Precision::NVFP4})
      for (bool isParallel : {true, false}) {
        tried.architecture.attention = attention;
        tried.options.precision = precision;
        tried.options.sequenceParallel = isParallel;
        if (gives(tried, model))
          return tried;
      }
  return std::nullopt;
}

static std::optional<Expansion> findExpansion(const ModelFacts &model) {
  for (const EmbeddedFile &file : embeddedModels()) {
    Expected<Architecture> architecture = architectureFromJson(
        file.text, file.name, SourceRule::Optional, model.sequence);
    if (!architecture) {
      llvm::consumeError(architecture.takeError());
      continue;
    }
    if (architecture->source != model.source)
      continue;
    if (std::optional<Expansion> found = findOptions(*architecture, model))
      return found;
  }
  return std::nullopt;
}

Expected<ModelFacts> pipesched::resizeModel(const ModelFacts &model,
                                            int64_t size,
                                            llvm::ArrayRef<ModelFacts> others) {
  if (size == model.microbatchSize)
    return model;
  Expected<const ModelFacts *> other = findSize(model, size, others);
  if (!other)
    return other.takeError();
  if (*other)
    return **other;
  std::optional<Expansion> expansion = findExpansion(model);
  if (!expansion)
    return formatError(
        "has model '{0}', which does not ship with the library, "
        "and the module has none like it with microbatches of {1} "
        "sequences: attach it with microbatch-size={1} first, "
        "then with microbatch-size={2}",
        model.name, size, model.microbatchSize);
  expansion->options.microbatchSize = size;
  Expected<ModelFacts> facts =
      expandArchitecture(expansion->architecture, expansion->options);
  if (!facts)
    return formatError("has model '{0}', which cannot have microbatches of {1} "
                       "sequences: {2}",
                       model.name, size, llvm::toString(facts.takeError()));
  facts->name = model.name;
  return facts;
}
