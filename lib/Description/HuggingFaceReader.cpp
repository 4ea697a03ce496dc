//===- HuggingFaceReader.cpp - Reads a config.json ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads all fields except for recurrences (HuggingFaceLinear.cpp);
// docs/Models.md lists the fields.
//
//===----------------------------------------------------------------------===//

#include "HuggingFaceReader.h"
#include "Formats.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

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

/// Limit on the assumed sequence length if no training length is given, because
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

/// DBRX and MPT have some sizes in nested objects.
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

/// Whether the value of a field enables a feature.
static bool isOn(const json::Value &value) {
  if (std::optional<double> number = value.getAsNumber())
    return *number != 0;
  if (const json::Array *list = value.getAsArray())
    return !list->empty();
  if (const json::Object *object = value.getAsObject())
    return !object->empty();
  // Gemma's attention between the tokens of an image.
  if (value.getAsString() == "vision")
    return false;
  return value.getAsBoolean().value_or(true);
}

/// Refuses fields that change the costs of layers and have no cost model, so
/// that such layers are not read as usual ones.
void HuggingFaceReader::refuseUnmodelled() {
  for (const UnmodelledField &field : unmodelledFields()) {
    const json::Value *value = config.find(field.name);
    if (value && isOn(*value))
      return config.report(field.name, field.why);
  }
  // In Llama 4, and in files with a list of layer types, these state which
  // layers have chunks.
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
// Missing and unused fields
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

/// Reads the layers with experts by the rules of DeepSeek (each `every` from
/// `first` on), of Qwen and Llama 4 (the last of each `step`), of ERNIE (a
/// range), or from a list.
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

/// The width of the MLP of layers without experts, if there is such a layer.
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

/// Reads `layer_types`, one word per layer. Returns false if the field is
/// absent.
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
  // In the second field, -1 means that there is no window.
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

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

bool pipesched::isHuggingFaceConfig(const json::Object &file) {
  static constexpr StringRef names[] = {"model_type",  "architectures",
                                        "hidden_size", "num_hidden_layers",
                                        "n_embd",      "transformers_version"};
  bool isOurs = file.get("hidden") && file.get("layers");
  return !isOurs && llvm::any_of(names, [&](StringRef name) {
    return file.get(name) != nullptr;
  });
}

std::string pipesched::nameOfFile(StringRef path) {
  StringRef stem = llvm::sys::path::stem(path);
  if (stem != "config" && !stem.empty() && !stem.starts_with("<") &&
      stem != "-")
    return stem.str();
  StringRef folder =
      llvm::sys::path::filename(llvm::sys::path::parent_path(path));
  return folder.starts_with(".") ? "" : folder.str();
}

/// Guesses the traits of an unknown family from the fields.
static ModelFamily guessModelFamily(ConfigReader &config, StringRef modelType,
                                    Architecture &arch) {
  static constexpr StringRef layerNormNames[] = {
      "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon"};
  ModelFamily family = {""};
  bool hasLayerNorm = config.has(layerNormNames) && !config.has("rms_norm_eps");
  StringRef activation = config.text(field::kActivation, "silu");
  bool hasGate = activation == "silu" || activation == "swish" ||
                 activation.ends_with("glu");
  family.norm = hasLayerNorm ? Norm::LayerNorm : Norm::RMSNorm;
  family.traits = hasGate ? kGated : 0;
  arch.notes.push_back(
      ("does not know the model_type '" + modelType + "' and assumes " +
       (hasLayerNorm ? "LayerNorm" : "RMSNorm") +
       " before attention and MLP, " +
       (hasGate ? "a gated MLP" : "an MLP without gate") +
       ", and no biases and tied embeddings but those that fields name")
          .str());
  return family;
}

static bool hasWidth(const json::Object &object) {
  return object.get("hidden_size") || object.get("n_embd");
}

/// Finds the configuration of the language model: an object in the file, whose
/// fields have precedence over fields next to it as in transformers, or the
/// whole file.
static const json::Object *findText(const json::Object &file, StringRef &path) {
  for (StringRef name : {"text_config", "llm_config", "language_config"}) {
    const json::Object *object = file.getObject(name);
    if (object && (hasWidth(*object) || !hasWidth(file))) {
      path = name;
      return object;
    }
  }
  return &file;
}

/// Whether a field describes another part of the model, such as a tower for
/// images or sound: an object with sizes, possibly nested, or the names of
/// other models.
static bool isOtherPart(StringRef name, const json::Value &value) {
  static constexpr StringRef words[] = {"vision", "visual", "image", "img",
                                        "video",  "audio",  "speech"};
  static constexpr StringRef sizes[] = {
      "hidden_size", "num_hidden_layers", "num_layers", "n_layer", "layers",
      "n_embd",      "encoder_layers",    "embed_dim",  "d_model", "depth",
      "width"};
  bool hasWord =
      llvm::any_of(words, [&](StringRef w) { return name.contains(w); });
  if (const json::Object *object = value.getAsObject())
    return hasWord ||
           llvm::any_of(sizes, [&](StringRef s) { return object->get(s); }) ||
           llvm::any_of(*object, [](const auto &field) {
             return field.second.getAsObject() &&
                    isOtherPart(field.first, field.second);
           });
  const json::Array *names = value.getAsArray();
  bool namesModel = value.getAsString() ||
                    (names && !names->empty() && names->front().getAsString());
  return namesModel &&
         (name.contains("_tower") || (hasWord && name.ends_with("_encoder")));
}

/// Returns the names of other parts of the model in a file, sorted; excludes
/// the object at `inside`.
static std::vector<std::string> otherParts(const json::Object &file,
                                           StringRef inside) {
  std::vector<std::string> parts;
  for (const auto &[key, value] : file)
    if (StringRef(key) != inside && isOtherPart(key, value))
      parts.push_back(key.str());
  llvm::sort(parts);
  return parts;
}

Architecture pipesched::readHuggingFace(const json::Object &file,
                                        StringRef path, int64_t sequence,
                                        FileErrors &errors) {
  StringRef inside;
  const json::Object *text = findText(file, inside);
  ConfigReader config(*text, inside, errors);
  ConfigReader whole(file, "", errors);
  StringRef modelType =
      config.text("model_type", whole.text("model_type", "unknown"));
  Architecture arch;
  std::vector<std::string> parts = otherParts(file, inside);
  if (!parts.empty())
    arch.notes.push_back("leaves out other parts of the model: " +
                         llvm::join(parts, ", "));
  if (!inside.empty()) {
    arch.notes.push_back(("reads " + inside).str());
    if (const json::Value *tied = whole.find("tie_word_embeddings"))
      config.setDefault("tie_word_embeddings", *tied);
  }
  if (StringRef why = reasonUnsupported(modelType); !why.empty())
    errors.report("model_type", "'" + modelType + "' " + why);
  if (config.flag("is_encoder_decoder", false))
    errors.report("is_encoder_decoder",
                  "a pipeline has one stack of layers, not two");

  const ModelFamily *known = findModelFamily(modelType);
  ModelFamily guessed = {""};
  if (!known && !errors.any())
    guessed = guessModelFamily(config, modelType, arch);
  for (const std::string &part : parts)
    config.find(StringRef(part));
  HuggingFaceReader reader(config, known ? *known : guessed, arch);
  if (!errors.any())
    reader.read(sequence);

  arch.name = nameOfFile(path);
  if (arch.name.empty())
    arch.name = llvm::sys::path::filename(whole.text("_name_or_path")).str();
  if (arch.name.empty())
    arch.name = modelType.str();
  arch.source = ("Hugging Face configuration, model_type " + modelType).str();
  return arch;
}
