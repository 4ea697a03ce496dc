//===- HuggingFaceReader.cpp - Reads a config.json ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads what all layers have in common; docs/Models.md lists the fields.
//
//===----------------------------------------------------------------------===//

#include "HuggingFaceReader.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr StringRef kHidden[] = {"hidden_size", "n_embd", "d_model",
                                        "n_embed"};
static constexpr StringRef kHeads[] = {
    "num_attention_heads", "n_head", "n_heads", "attention_heads", "num_heads"};
static constexpr StringRef kKeyValueHeads[] = {"num_key_value_heads",
                                               "num_kv_heads", "n_head_kv"};
static constexpr StringRef kHeadSize[] = {"head_dim", "kv_channels",
                                          "attention_head_dim"};
static constexpr StringRef kVocabulary[] = {"vocab_size", "padded_vocab_size"};
static constexpr StringRef kPositions[] = {"max_position_embeddings",
                                           "n_positions",
                                           "max_sequence_length",
                                           "seq_length",
                                           "max_seq_len",
                                           "model_max_length",
                                           "n_ctx"};
static constexpr StringRef kDropout[] = {"resid_pdrop", "hidden_dropout",
                                         "resid_dropout", "dropout"};
static constexpr StringRef kPredictionLayers[] = {
    "num_nextn_predict_layers", "num_mtp_modules", "num_mtp_layers",
    "mtp_num_layers", "mtp_num_hidden_layers"};

/// The longest sequence that is assumed if no training length is given, because
/// published limits are for inference.
static constexpr int64_t kLongestAssumed = 8192;
static constexpr int64_t kShortestAssumed = 2048;

void HuggingFaceReader::read(int64_t sequence) {
  flattenChildren();
  applyDefaults();
  refuseUnmodelled();
  prepareLinear();
  readSizes();
  readLinear();
  readExperts();
  config.finish();
  if (failed())
    return;
  readHeads();
  readActivation();
  readNorms();
  readBiases();
  readEmbedding();
  readWindow();
  readSequence(sequence);
  nameTheRest();
}

/// DBRX and MPT keep some sizes in nested objects.
void HuggingFaceReader::flattenChildren() {
  auto lift = [&](StringRef child, StringRef from, StringRef to) {
    const json::Object *object = config.child(child);
    if (const json::Value *value = object ? object->get(from) : nullptr)
      config.setDefault(to, *value);
  };
  lift("attn_config", "kv_n_heads", "num_key_value_heads");
  lift("ffn_config", "ffn_hidden_size", "intermediate_size");
  lift("ffn_config", "moe_num_experts", "num_local_experts");
  lift("ffn_config", "moe_top_k", "num_experts_per_tok");
}

void HuggingFaceReader::applyDefaults() {
  for (const ModelDefault &value : modelDefaults()) {
    if (!isFamily(value.type) || (value.isNestedOnly && !config.isNested()))
      continue;
    if (value.isNestedOnly && !config.has(value.field))
      note("assumes " + value.field + " " + Twine(value.value) +
           ", the default of " + value.type);
    config.setDefault(value.field, value.value);
  }
}

/// Whether a field turns something on, by its value alone.
static bool isOn(const json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
    return *number != 0;
  if (const json::Array *list = value.getAsArray())
    return !list->empty();
  if (const json::Object *object = value.getAsObject())
    return !object->empty();
  // The attention of Gemma among the tokens of an image.
  if (value.getAsString() == "vision")
    return false;
  return value.getAsBoolean().value_or(true);
}

/// Refuses what would change the costs of layers and has no cost model, rather
/// than read the layers as usual ones.
void HuggingFaceReader::refuseUnmodelled() {
  for (const UnmodelledField &field : unmodelledFields()) {
    const json::Value *value = config.find(field.name);
    if (value && isOn(*value))
      return config.report(field.name, field.why);
  }
  // Llama 4 and lists of layers say which layers have chunks.
  if (!isFamily("llama4_text") && !config.has("layer_types") &&
      config.integer("attention_chunk_size", 0).value_or(0))
    config.report("attention_chunk_size",
                  "needs layer_types, which say which layers have chunks");
}

void HuggingFaceReader::readSizes() {
  arch.hidden = config.require(kHidden, 1);
  arch.layers = config.require(field::kLayers, 1);
  arch.attentionHeads = config.require(kHeads, 1);
  arch.vocabulary = config.require(kVocabulary, 1);
  maxPositions = config.integer(kPositions, 1).value_or(0);
  if (family.has(kFourfold)) {
    int64_t ratio = config.integer("expansion_ratio", 1).value_or(4);
    int64_t width = 0;
    if (!llvm::MulOverflow(ratio, arch.hidden, width))
      config.setDefault("intermediate_size", width);
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

void HuggingFaceReader::readKeyValueHeads() {
  arch.keyValueHeads =
      config.integer(kKeyValueHeads, 1).value_or(arch.attentionHeads);
  bool hasGroups = config.flag("multi_query_attention", false);
  if (std::optional<int64_t> groups =
          config.integer("multi_query_group_num", 1))
    arch.keyValueHeads = hasGroups ? *groups : arch.attentionHeads;
  if (isFamily("gpt_bigcode") && config.flag("multi_query", true))
    arch.keyValueHeads = 1;
  config.find("multi_query");
  if (isFamily("falcon") && !config.flag("new_decoder_architecture", false))
    arch.keyValueHeads =
        config.flag("multi_query", true) ? 1 : arch.attentionHeads;
}

void HuggingFaceReader::readHeads() {
  readKeyValueHeads();
  std::optional<int64_t> headSize = config.integer(kHeadSize, 1);
  if (config.has("kv_lora_rank")) {
    readLatentAttention();
    return;
  }
  if (arch.attentionHeads % arch.keyValueHeads)
    config.report(kKeyValueHeads[0], "expected a divisor of the " +
                                         Twine(arch.attentionHeads) +
                                         " num_attention_heads, found " +
                                         Twine(arch.keyValueHeads));
  arch.attentionWidth = arch.hidden;
  if (!headSize && arch.hidden % arch.attentionHeads)
    config.report(kHidden[0], Twine(arch.hidden) + " is no multiple of the " +
                                  Twine(arch.attentionHeads) +
                                  " num_attention_heads; give head_dim");
  if (headSize &&
      llvm::MulOverflow(*headSize, arch.attentionHeads, arch.attentionWidth))
    config.report(kHeadSize[0], "all heads together are wider than 2^63 - 1");
}

void HuggingFaceReader::readLatentAttention() {
  LatentAttention &latent = arch.latent.emplace();
  latent.queryRank = config.integer("q_lora_rank", 1).value_or(0);
  latent.keyValueRank = config.require("kv_lora_rank", 1);
  latent.headSize = config.require("qk_nope_head_dim", 1);
  latent.ropeHeadSize = config.require("qk_rope_head_dim", 0);
  latent.valueHeadSize = config.require("v_head_dim", 1);
  config.find("qk_head_dim");
  config.finish();
}

//===----------------------------------------------------------------------===//
// Norms, biases, activation
//===----------------------------------------------------------------------===//

void HuggingFaceReader::readActivation() {
  bool hasGate = family.has(kGated);
  StringRef name = config.text(field::kActivation, hasGate ? "silu" : "gelu");
  if (name == "swiglu" || name == "geglu" || name == "reglu")
    hasGate = true;
  if (name == "relu2" || name == "squared_relu") {
    arch.activation = Activation::SquaredRelu;
    return;
  }
  if (name == "relu" || name == "reglu") {
    arch.activation = hasGate ? Activation::ReGLU : Activation::Relu;
    return;
  }
  if (name == "silu" || name == "swish" || name == "swiglu") {
    arch.activation = hasGate ? Activation::SwiGLU : Activation::Silu;
    return;
  }
  arch.activation = hasGate ? Activation::GeGLU : Activation::Gelu;
  if (!name.contains_insensitive("gelu") && name != "geglu")
    note("takes the activation '" + name + "' for GELU");
}

void HuggingFaceReader::readNorms() {
  arch.norm = family.norm;
  if (family.has(kNormsAfter))
    arch.norms = NormPlacement::After;
  if (family.has(kNormsAround))
    arch.norms = NormPlacement::Around;

  static constexpr StringRef parallelNames[] = {"use_parallel_residual",
                                                "parallel_attn"};
  bool hasOneNorm = family.has(kSharedNorm);
  if (isFamily("falcon")) {
    bool isNew = config.flag("new_decoder_architecture", false);
    int64_t norms =
        config.integer("num_ln_in_parallel_attn", 1).value_or(isNew ? 2 : 1);
    hasOneNorm = norms == 1;
  }
  if (config.flag(parallelNames, family.has(kParallel)))
    arch.branches =
        hasOneNorm ? Branches::ParallelSharedNorm : Branches::Parallel;

  static constexpr StringRef queryKeyNames[] = {"use_qk_norm", "qk_layernorm",
                                                "qk_norm"};
  bool hasQueryKeyNorm =
      family.queryKeyNorm != QueryKeyNorm::None && !family.has(kQkNormOff);
  QueryKeyNorm scope = family.queryKeyNorm == QueryKeyNorm::None
                           ? QueryKeyNorm::Head
                           : family.queryKeyNorm;
  if (config.flag(queryKeyNames, hasQueryKeyNorm) && !arch.latent) {
    arch.queryKeyNorm = scope;
    arch.queryKeyNormForm = family.queryKeyNormForm;
  }
}

void HuggingFaceReader::readBiases() {
  Biases &biases = arch.biases;
  biases.queryKeyValue = family.has(kQkvBias);
  biases.output = family.has(kOutputBias);
  biases.mlp = family.has(kMlpBias);

  static constexpr StringRef attentionNames[] = {"attention_bias", "bias"};
  if (config.has(attentionNames)) {
    biases.queryKeyValue = config.flag(attentionNames, false);
    if (!family.has(kNarrowBias))
      biases.output = biases.queryKeyValue;
  }
  if (isFamily("falcon"))
    biases.mlp = biases.queryKeyValue;
  static constexpr StringRef allNames[] = {"use_bias", "enable_bias"};
  if (config.has(allNames) && !arch.linear)
    biases.queryKeyValue = biases.output = biases.mlp =
        config.flag(allNames, false);
  if (config.has("no_bias"))
    biases.queryKeyValue = biases.output = biases.mlp =
        !config.flag("no_bias", true);
  if (config.has("add_bias_linear"))
    biases.output = biases.mlp = config.flag("add_bias_linear", false);

  static constexpr StringRef narrowNames[] = {"qkv_bias", "use_qkv_bias",
                                              "add_qkv_bias"};
  biases.queryKeyValue = config.flag(narrowNames, biases.queryKeyValue);
  biases.output = config.flag("attention_out_bias", biases.output);
  biases.mlp = config.flag("mlp_bias", biases.mlp);
  biases.head = config.flag("lm_head_bias", family.has(kHeadBias));
  arch.attentionSinks = family.has(kSinks);
}

//===----------------------------------------------------------------------===//
// Embedding and head
//===----------------------------------------------------------------------===//

void HuggingFaceReader::readEmbedding() {
  static constexpr StringRef tiedNames[] = {"tie_word_embeddings",
                                            "tie_embedding"};
  arch.tiedEmbeddings = config.flag(tiedNames, family.has(kTied));
  arch.embeddingNorm = family.has(kEmbeddingNorm);
  arch.dropout = config.number(kDropout) > 0;
  if (family.has(kLearnedPositions)) {
    arch.learnedPositions = config.require(kPositions, 1);
    // OPT's positions start at 2.
    if (isFamily("opt") && llvm::AddOverflow(arch.learnedPositions, int64_t(2),
                                             arch.learnedPositions))
      config.report(kPositions[0], "is too large");
  }
  if (std::optional<int64_t> width = config.integer("word_embed_proj_dim", 1))
    arch.embeddingWidth = *width == arch.hidden ? 0 : *width;
  arch.finalNorm = config.flag("do_layer_norm_before", true) &&
                   !config.flag("_remove_final_layer_norm", false);
  config.finish();
}

//===----------------------------------------------------------------------===//
// What the file does not say, and what is not used of it
//===----------------------------------------------------------------------===//

void HuggingFaceReader::readSequence(int64_t sequence) {
  arch.sequence = sequence;
  if (sequence)
    return;
  arch.sequence =
      maxPositions ? std::min(maxPositions, kLongestAssumed) : kShortestAssumed;
  if (!maxPositions)
    note("assumes sequences of " + Twine(arch.sequence) +
         " tokens, the file has no max_position_embeddings");
  else if (maxPositions > kLongestAssumed)
    note("assumes sequences of " + Twine(arch.sequence) +
         " tokens of at most " + Twine(maxPositions));
}

void HuggingFaceReader::nameTheRest() {
  if (int64_t layers = config.integer(kPredictionLayers, 0).value_or(0))
    note("leaves out " + Twine(layers) + " multi-token prediction layer" +
         (layers > 1 ? "s" : ""));
  for (StringRef name : {"n_embd", "model_type"})
    config.find(name);
  std::vector<std::string> unused;
  for (std::string &name : config.unusedNames())
    if (!isIgnoredField(name))
      unused.push_back(std::move(name));
  if (!unused.empty())
    note("does not use the field" + Twine(unused.size() > 1 ? "s " : " ") +
         llvm::join(unused, ", "));
}
