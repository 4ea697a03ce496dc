//===- HuggingFaceLinear.cpp - Recurrences in a config.json ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Linear attention, state spaces and short convolutions, and which layers have
// them: by the rules of each family, or by lists.
//
//===----------------------------------------------------------------------===//

#include "HuggingFaceReader.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr StringRef kWords[] = {"layer_types", "layers_block_type"};
static constexpr StringRef kTaps[] = {"mamba_d_conv", "conv_kernel",
                                      "conv_L_cache", "linear_conv_kernel_dim"};
static constexpr StringRef kState[] = {"mamba_d_state", "ssm_state_size",
                                       "state_size"};
static constexpr StringRef kStateHeads[] = {"mamba_n_heads", "mamba_num_heads",
                                            "num_heads"};
static constexpr StringRef kStateGroups[] = {"mamba_n_groups", "n_groups"};
static constexpr StringRef kExpand[] = {"mamba_expand", "expand"};
static constexpr StringRef kChunk[] = {"mamba_chunk_size", "chunk_size"};
static constexpr StringRef kConvolutionBias[] = {"mamba_conv_bias",
                                                 "use_conv_bias", "conv_bias"};

//===----------------------------------------------------------------------===//
// Kinds of layers
//===----------------------------------------------------------------------===//

namespace {
/// The mixer of a layer; for a layer with one part, that part.
enum class Part { Attention, Linear, Mlp, Experts, Unknown };
} // namespace

static Part partOfWord(StringRef word) {
  return llvm::StringSwitch<Part>(word)
      .Cases({"attention", "full_attention", "sliding_attention"},
             Part::Attention)
      .Cases({"linear_attention", "mamba", "mamba2", "conv"}, Part::Linear)
      .Case("mlp", Part::Mlp)
      .Case("moe", Part::Experts)
      .Default(Part::Unknown);
}

static Part partOfLetter(char letter) {
  switch (letter) {
  case 'M':
    return Part::Linear;
  case '*':
    return Part::Attention;
  case '-':
    return Part::Mlp;
  case 'E':
    return Part::Experts;
  default:
    return Part::Unknown;
  }
}

bool pipesched::isLinearWord(StringRef word) {
  return partOfWord(word) == Part::Linear;
}

/// Returns the layers whose word in `layer_types` means a recurrence, or
/// nothing if the file has no such list.
std::optional<LayerSet> HuggingFaceReader::readLinearWords() {
  const json::Value *value = config.find(kWords);
  const json::Array *words = value ? value->getAsArray() : nullptr;
  if (!words)
    return std::nullopt;
  StringRef name = config.has("layer_types") ? kWords[0] : kWords[1];
  if (int64_t(words->size()) != arch.layers) {
    config.report(name, "expected one for each of the " + Twine(arch.layers) +
                            " layers, found " + Twine(words->size()));
    return LayerSet::none();
  }
  return listLayers([&](int64_t layer) {
    const json::Value &word = (*words)[layer];
    Part part = partOfWord(word.getAsString().value_or(""));
    if (part != Part::Attention && part != Part::Linear)
      config.report(name, "expected attention or a recurrence, found " +
                              textOf(word));
    return part == Part::Linear;
  });
}

//===----------------------------------------------------------------------===//
// Preparation before sizes are read
//===----------------------------------------------------------------------===//

/// Whether a field of an unknown model_type indicates recurrences.
static bool namesRecurrence(StringRef field) {
  static constexpr StringRef names[] = {"hybrid_override_pattern",
                                        "linear_attn_config",
                                        "full_attention_interval",
                                        "attn_layer_period",
                                        "layers_block_type",
                                        "ssm_state_size",
                                        "conv_L_cache",
                                        "lru_width"};
  return llvm::is_contained(names, field) || field.starts_with("mamba_") ||
         field.starts_with("linear_num_");
}

/// Reads fields whose names differ between families, or that some families
/// omit.
void HuggingFaceReader::prepareLinear() {
  if (family.type.empty()) {
    for (const std::string &name : config.unusedNames())
      if (namesRecurrence(name))
        config.report(name, "belongs to recurrent or linear-attention layers, "
                            "whose cost model follows from a known model_type");
    return;
  }
  if (isFamily("mamba") || isFamily("falcon_mamba"))
    config.setDefault("num_attention_heads", 1);
  if (isFamily("mamba2"))
    config.setDefault("num_attention_heads", config.require(kStateHeads, 1));
  if (!isFamily("nemotron_h"))
    return;
  const json::Value *act = config.find("mlp_hidden_act");
  config.setDefault("hidden_act", act ? *act : json::Value("relu2"));
  StringRef pattern = config.text("hybrid_override_pattern");
  const json::Value *words = config.find(kWords);
  const json::Array *list = words ? words->getAsArray() : nullptr;
  size_t count = list ? list->size() : pattern.size();
  if (count > 0)
    config.setDefault("num_hidden_layers", int64_t(count));
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// Qwen3-Next and Qwen3.5: every fourth layer has attention, whose output is
/// gated.
void HuggingFaceReader::readGatedDelta() {
  LinearAttention &linear = arch.linear.emplace();
  linear.keyHeads = config.require("linear_num_key_heads", 1);
  linear.keyHeadSize = config.require("linear_key_head_dim", 1);
  linear.valueHeads = config.require("linear_num_value_heads", 1);
  linear.valueHeadSize = config.require("linear_value_head_dim", 1);
  linear.convolution = config.integer(kTaps, 1).value_or(4);
  arch.attentionGate = config.flag("attn_output_gate", true);
  int64_t interval = config.integer("full_attention_interval", 1).value_or(4);
  std::optional<LayerSet> listed = readLinearWords();
  linear.layers = listed ? *listed : listLayers([&](int64_t layer) {
    return (layer + 1) % interval != 0;
  });
}

void HuggingFaceReader::readStateSpace() {
  LinearAttention &linear = arch.linear.emplace();
  linear.recurrence = Recurrence::Mamba2;
  linear.keyHeads = config.integer(kStateGroups, 1).value_or(1);
  linear.keyHeadSize = config.require(kState, 1);
  linear.valueHeads = config.require(kStateHeads, 1);
  linear.convolution = config.integer(kTaps, 1).value_or(4);
  linear.chunk = config.integer(kChunk, 1).value_or(256);
  linear.convolutionBias = config.flag(kConvolutionBias, true);
  // Bamba and Granite have the first field, Mamba-2 and Nemotron-H the second.
  linear.projectionBias = config.flag("mamba_proj_bias", false);
  linear.projectionBias = config.flag("use_bias", linear.projectionBias);
  int64_t expand = config.integer(kExpand, 1).value_or(2);

  static constexpr StringRef sizes[] = {"mamba_d_head", "mamba_head_dim"};
  const json::Value *size = config.find(sizes);
  if (size && size->getAsInteger())
    linear.valueHeadSize = config.integer(sizes, 1).value_or(0);
  else if (isFamily("mamba2"))
    linear.valueHeadSize = config.require("head_dim", 1);
  else if (linear.valueHeads > 0)
    linear.valueHeadSize =
        (CheckedInt(expand) * arch.hidden).get() / linear.valueHeads;
}

/// Reads Mamba's own sizes, with the names of Jamba or of Mamba.
void HuggingFaceReader::readMamba() {
  LinearAttention &linear = arch.linear.emplace();
  linear.recurrence = Recurrence::Mamba;
  linear.keyHeadSize = config.integer(kState, 1).value_or(16);
  int64_t expand = config.integer(kExpand, 1).value_or(2);
  if (llvm::MulOverflow(expand, arch.hidden, linear.valueHeads))
    config.report(kExpand[0], "the layer is wider than 2^63 - 1");
  linear.valueHeadSize = 1;
  linear.convolution = config.integer(kTaps, 1).value_or(4);
  linear.convolutionBias = config.flag(kConvolutionBias, true);
  linear.projectionBias = config.flag("mamba_proj_bias", false);
  linear.projectionBias = config.flag("use_bias", linear.projectionBias);
  linear.innerNorms = isFamily("jamba");

  static constexpr StringRef ranks[] = {"mamba_dt_rank", "time_step_rank"};
  const json::Value *rank = config.find(ranks);
  bool isAuto = !rank || rank->getAsString() == "auto";
  linear.timeRank = isAuto
                        ? int64_t(llvm::divideCeil(uint64_t(arch.hidden), 16))
                        : config.integer(ranks, 1).value_or(1);
}

/// Reads models whose layers are only a recurrence, attention, an MLP or
/// experts.
void HuggingFaceReader::readPattern() {
  StringRef pattern = config.text("hybrid_override_pattern");
  const json::Value *value = config.find(kWords);
  const json::Array *words = value ? value->getAsArray() : nullptr;
  size_t count = words ? words->size() : pattern.size();
  StringRef name = words ? kWords[1] : "hybrid_override_pattern";
  if (int64_t(count) != arch.layers) {
    config.report(name, "expected one for each of the " + Twine(arch.layers) +
                            " layers, found " + Twine(count));
    return;
  }
  auto partOf = [&](int64_t layer) {
    return words ? partOfWord((*words)[layer].getAsString().value_or(""))
                 : partOfLetter(pattern[layer]);
  };
  auto layersOf = [&](Part part) {
    return listLayers([&](int64_t layer) { return partOf(layer) == part; });
  };
  LayerSet unknown = layersOf(Part::Unknown);
  for (int64_t layer : *unknown.listed)
    config.report(
        name,
        "expected M (mamba), * (attention), - (mlp) or E (moe), "
        "found " +
            (words ? textOf((*words)[layer]) : pattern.substr(layer, 1).str()));
  arch.linear->layers = layersOf(Part::Linear);
  expertLayers = layersOf(Part::Experts);
  auto isMixer = [&](int64_t layer) {
    return partOf(layer) == Part::Linear || partOf(layer) == Part::Attention;
  };
  if (config.flag("mlp_bias", false) && !expertLayers->listed->empty())
    note("leaves out the biases of shared experts");
  if (!expertLayers->listed->empty())
    config.require("n_routed_experts", 2);
  arch.mixerOnly = listLayers(isMixer);
  arch.feedforwardOnly =
      listLayers([&](int64_t layer) { return !isMixer(layer); });
}

void HuggingFaceReader::readShortConvolution() {
  LinearAttention &linear = arch.linear.emplace();
  linear.recurrence = Recurrence::Convolution;
  linear.valueHeads = arch.hidden;
  linear.valueHeadSize = 1;
  linear.convolution = config.integer(kTaps, 1).value_or(3);
  linear.convolutionBias = linear.projectionBias =
      config.flag(kConvolutionBias, false);
  std::optional<LayerSet> listed = readLinearWords();
  std::optional<std::vector<int64_t>> full = config.integers("full_attn_idxs");
  if (listed)
    linear.layers = *listed;
  else
    linear.layers = listLayers([&](int64_t layer) {
      return full && !llvm::is_contained(*full, layer);
    });
  if (isFamily("lfm2_moe"))
    expertLayers = LayerSet{config.integer("num_dense_layers", 0).value_or(0),
                            1, std::nullopt};
}

/// LFM2 uses two thirds of the width, times a factor, rounded up.
void HuggingFaceReader::adjustFeedforward() {
  bool isOn = config.flag("block_auto_adjust_ff_dim", true);
  double factor = config.has("block_ffn_dim_multiplier")
                      ? config.number("block_ffn_dim_multiplier")
                      : 1;
  int64_t multiple = config.integer("block_multiple_of", 1).value_or(256);
  if (!isOn || failed())
    return;
  auto width = static_cast<int64_t>(
      double(arch.feedforward / 3 * 2 + arch.feedforward % 3 * 2 / 3) * factor);
  arch.feedforward =
      int64_t(llvm::divideCeil(uint64_t(width), uint64_t(multiple))) * multiple;
}

//===----------------------------------------------------------------------===//
// All families
//===----------------------------------------------------------------------===//

void HuggingFaceReader::readLinear() {
  if (isFamily("qwen3_next") || isFamily("qwen3_5_text") ||
      isFamily("qwen3_5_moe_text"))
    return readGatedDelta();
  if (isFamily("lfm2") || isFamily("lfm2_moe"))
    return readShortConvolution();
  if (isFamily("nemotron_h")) {
    readStateSpace();
    return readPattern();
  }
  if (isFamily("bamba")) {
    readStateSpace();
    std::vector<int64_t> full =
        config.integers("attn_layer_indices").value_or(std::vector<int64_t>());
    arch.linear->layers = listLayers(
        [&](int64_t layer) { return !llvm::is_contained(full, layer); });
  } else if (isFamily("granitemoehybrid")) {
    readStateSpace();
    arch.linear->layers = readLinearWords().value_or(LayerSet());
  } else if (isFamily("jamba")) {
    readMamba();
    int64_t period = config.integer("attn_layer_period", 1).value_or(8);
    int64_t offset = config.integer("attn_layer_offset", 0).value_or(4);
    arch.linear->layers =
        listLayers([&](int64_t layer) { return layer % period != offset; });
    expertLayers = LayerSet{
        config.integer("expert_layer_offset", 0).value_or(1),
        config.integer("expert_layer_period", 1).value_or(2), std::nullopt};
  } else if (isFamily("mamba2") || isFamily("mamba") ||
             isFamily("falcon_mamba")) {
    isFamily("mamba2") ? readStateSpace() : readMamba();
    arch.mixerOnly = LayerSet();
    config.find(field::kFeedforward);
    if (isFamily("falcon_mamba"))
      note("leaves out the norms without parameters of step sizes, B and C");
  }
}
