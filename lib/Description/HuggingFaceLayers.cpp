//===- HuggingFaceLayers.cpp - Kinds of layers in a config.json -----------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Experts and windows, and which layers have them: by the rules of each family,
// or by lists.
//
//===----------------------------------------------------------------------===//

#include "HuggingFaceReader.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr StringRef kExpertCount[] = {
    "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts",
    "num_routed_experts"};
static constexpr StringRef kExpertsPerToken[] = {
    "num_experts_per_tok", "num_experts_per_token",
    "experts_per_token",   "moe_topk",
    "moe_top_k",           "moe_k"};
static constexpr StringRef kExpertWidth[] = {"moe_intermediate_size",
                                             "moe_ffn_hidden_size"};
static constexpr StringRef kSharedCount[] = {
    "n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
    "num_shared_expert"};
static constexpr StringRef kSharedWidth[] = {
    "shared_expert_intermediate_size", "shared_intermediate_size",
    "moe_shared_expert_intermediate_size"};

//===----------------------------------------------------------------------===//
// MLP and experts
//===----------------------------------------------------------------------===//

LayerSet
HuggingFaceReader::listLayers(llvm::function_ref<bool(int64_t)> isMember) {
  LayerSet set;
  set.listed.emplace();
  if (arch.layers > kMaxMixedLayers) {
    config.report(field::kLayers[0],
                  "expected at most " + Twine(kMaxMixedLayers) +
                      " layers of several kinds, found " + Twine(arch.layers));
    return set;
  }
  for (int64_t layer = 0; layer < arch.layers; ++layer)
    if (isMember(layer))
      set.listed->push_back(layer);
  return set;
}

/// The rules of DeepSeek (each `every` from `first` on), of Qwen and Llama 4
/// (the last of each `step`), of ERNIE (a range), and lists.
LayerSet HuggingFaceReader::readExpertLayers() {
  if (expertLayers)
    return *expertLayers;
  auto integer = [&](StringRef name, int64_t least, int64_t otherwise) {
    return config.integer(name, least).value_or(otherwise);
  };
  if (std::optional<std::vector<int64_t>> listed =
          config.integers("moe_layers"))
    return listLayers(
        [&](int64_t layer) { return llvm::is_contained(*listed, layer); });

  int64_t first = integer("first_k_dense_replace", 0, 0);
  int64_t every = 1;
  const json::Value *frequency = config.find("moe_layer_freq");
  const json::Array *pattern = frequency ? frequency->getAsArray() : nullptr;
  if (!pattern)
    every = integer("moe_layer_freq", 1, 1);
  static constexpr StringRef stepNames[] = {
      "decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval"};
  int64_t step = config.integer(stepNames, 1).value_or(1);
  first = std::max(first, integer("moe_layer_start_index", 0, 0));
  int64_t last = integer("moe_layer_end_index", -1, -1);
  std::vector<int64_t> dense =
      config.integers("mlp_only_layers").value_or(std::vector<int64_t>());

  bool hasAll = first == 0 && every == 1 && step == 1 && last == -1 &&
                dense.empty() && !pattern;
  if (hasAll)
    return LayerSet();
  return listLayers([&](int64_t layer) {
    if (pattern && size_t(layer) < pattern->size())
      return (*pattern)[layer].getAsInteger() == 1;
    return layer >= first && layer % every == 0 && (layer + 1) % step == 0 &&
           (last == -1 || layer <= last) && !llvm::is_contained(dense, layer);
  });
}

/// The width of all shared experts together.
int64_t HuggingFaceReader::readSharedWidth() {
  const Experts &experts = *arch.experts;
  std::optional<int64_t> count = config.integer(kSharedCount, 0);
  std::optional<int64_t> width = config.integer(kSharedWidth, 0);
  if (width)
    return *width;
  if (!count)
    count = family.has(kSharedExpert) ? 1 : 0;
  int64_t total = 0;
  if (llvm::MulOverflow(*count, experts.feedforward, total))
    config.report(kSharedCount[0], "all of them are wider than 2^63 - 1");
  return total;
}

/// DeepSeek's routers choose among groups of experts, unless they are greedy.
/// Groups that do not divide the experts are ignored.
void HuggingFaceReader::readExpertGroups(Experts &experts) {
  int64_t groups = config.integer("n_group", 1).value_or(1);
  int64_t chosen = config.integer("topk_group", 1).value_or(groups);
  StringRef method = config.text("topk_method");
  if (groups == 1 || chosen >= groups || experts.count % groups != 0 ||
      method == "greedy" || experts.perToken > experts.count / groups * chosen)
    return;
  experts.groups = groups;
  experts.groupsPerToken = chosen;
}

/// The width of the MLP of models without experts, if a layer has one.
void HuggingFaceReader::readMlp() {
  if (isFamily("granitemoehybrid")) {
    arch.feedforward = config.require("shared_intermediate_size", 1);
    config.find(field::kFeedforward);
    return;
  }
  bool hasMlp = !failed() && llvm::any_of(layerRuns(arch), [](const auto &run) {
    return run.hasMlp();
  });
  if (!hasMlp && !failed())
    return;
  arch.feedforward = config.require(field::kFeedforward, 1);
  if (isFamily("qwen")) // its field covers gate and value
    arch.feedforward /= 2;
  if (isFamily("lfm2"))
    adjustFeedforward();
}

void HuggingFaceReader::readExperts() {
  int64_t count = config.integer(kExpertCount, 0).value_or(0);
  std::optional<int64_t> width = config.integer(kExpertWidth, 1);
  bool hasNone =
      expertLayers && expertLayers->listed && expertLayers->listed->empty();
  if (count <= 1 || hasNone)
    return readMlp();
  Experts &experts = arch.experts.emplace();
  experts.count = count;
  experts.perToken = config.require(kExpertsPerToken, 1);
  if (experts.perToken > count)
    config.report(kExpertsPerToken[0], "expected at most the " + Twine(count) +
                                           " experts, found " +
                                           Twine(experts.perToken));
  experts.feedforward = width ? *width : config.require(field::kFeedforward, 1);
  experts.sharedFeedforward = readSharedWidth();
  experts.sharedGate = family.has(kSharedGate) && experts.sharedFeedforward > 0;
  experts.routerBias = family.has(kRouterBias);
  experts.biases = family.has(kExpertBiases);
  experts.layers = readExpertLayers();
  readExpertGroups(experts);
  if (failed())
    return;

  bool hasMlp = llvm::any_of(layerRuns(arch),
                             [](const LayerRun &run) { return run.hasMlp(); });
  static constexpr StringRef denseNames[] = {
      "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size"};
  if (hasMlp)
    arch.feedforward = config.require(denseNames, 1);
  else
    config.find(denseNames);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Reads `layer_types`, one word per layer. Returns false if it is absent.
bool HuggingFaceReader::readLayerTypes() {
  const json::Value *value = config.find("layer_types");
  const json::Array *types = value ? value->getAsArray() : nullptr;
  if (!types)
    return false;
  if (int64_t(types->size()) != arch.layers) {
    config.report("layer_types", "expected one for each of the " +
                                     Twine(arch.layers) + " layers, found " +
                                     Twine(types->size()));
    return true;
  }
  bool isChunked = false;
  arch.window.fullLayers = listLayers([&](int64_t layer) {
    StringRef type = (*types)[layer].getAsString().value_or("");
    isChunked |= type == "chunked_attention";
    if (arch.linear && isLinearWord(type))
      return true;
    if (type == "sliding_attention" || type == "chunked_attention")
      return false;
    if (type != "full_attention" && type != "attention")
      config.report("layer_types",
                    "expected full_attention, sliding_attention or "
                    "chunked_attention, found " +
                        textOf((*types)[layer]));
    return true;
  });
  if (isChunked)
    arch.window.size = config.integer("attention_chunk_size", 1).value_or(0);
  return true;
}

/// Reads GPT-Neo's `attention_layers`; without them, layers alternate between
/// full and local attention.
bool HuggingFaceReader::readLocalLayers() {
  if (!isFamily("gpt_neo"))
    return false;
  arch.window.size = config.integer("window_size", 1).value_or(256);
  config.find("attention_types");
  const json::Value *value = config.find("attention_layers");
  const json::Array *layers = value ? value->getAsArray() : nullptr;
  arch.window.fullLayers = listLayers([&](int64_t layer) {
    if (layers && size_t(layer) < layers->size())
      return (*layers)[layer].getAsString() != "local";
    return layer % 2 == 0;
  });
  return true;
}

void HuggingFaceReader::readWindow() {
  if (readLocalLayers())
    return;
  // Of the second name -1 means none.
  int64_t other = config.integer("sliding_window_size", -1).value_or(0);
  int64_t size =
      config.integer("sliding_window", 0).value_or(std::max<int64_t>(other, 0));
  bool isOn = config.flag("use_sliding_window", true);
  int64_t prefix = config.integer("max_window_layers", 0).value_or(0);
  static constexpr StringRef patternNames[] = {"sliding_window_pattern",
                                               "_sliding_window_pattern"};
  const json::Value *pattern = config.find(patternNames);
  std::optional<int64_t> period =
      pattern ? pattern->getAsInteger() : std::nullopt;
  if (std::optional<StringRef> text =
          pattern ? pattern->getAsString() : std::nullopt)
    period = text->size(); // "LLLG"
  if (!isOn || size == 0) {
    if (!readLayerTypes() && family.type == "llama4_text") {
      arch.window.size = config.integer("attention_chunk_size", 1).value_or(0);
      arch.window.fullLayers = {3, 4, std::nullopt};
    }
    return;
  }
  arch.window.size = size;
  if (readLayerTypes())
    return;
  if (isFamily("gemma2") || isFamily("gpt_oss"))
    period = 2;
  if (period && *period > 0)
    arch.window.fullLayers = {*period - 1, *period, std::nullopt};
  else if (config.has("max_window_layers"))
    arch.window.fullLayers =
        listLayers([&](int64_t layer) { return layer < prefix; });
}
