//===- ModelJson.cpp - Models as JSON -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fields of models/*.json: an architecture, which TransformerBlock.h
// expands to kernels. Files of other tools are recognized by their fields.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

/// Reads `attention_width`, or `head_size` times the heads; the default is
/// hidden.
static void readAttentionWidth(FieldReader &reader, Architecture &arch) {
  bool hasWidth = reader.find("attention_width");
  bool hasHeadSize = reader.find("head_size");
  FileErrors &errors = reader.getErrors();
  if (hasWidth && hasHeadSize)
    errors.report("attention_width", "expected either this or head_size");
  arch.attentionWidth = reader.integer("attention_width", 1, arch.hidden);
  if (!hasHeadSize)
    return;
  int64_t headSize = reader.integer("head_size", 1, 1);
  if (llvm::MulOverflow(headSize, arch.attentionHeads, arch.attentionWidth))
    errors.report("head_size", "all heads together are wider than 2^63 - 1");
}

/// Reads `{"first": 3, "every": 1}` (every `every`-th layer from `first` on) or
/// an ascending list of layers counted from 0.
static LayerSet readLayerSet(FieldReader &parent, StringRef name,
                             LayerSet otherwise) {
  const json::Value *value = parent.find(name);
  if (!value)
    return otherwise;
  LayerSet set;
  FileErrors &errors = parent.getErrors();
  const json::Array *list = value->getAsArray();
  if (!list) {
    FieldReader reader(value, parent.pathOf(name), errors);
    set.first = reader.integer("first", 0, 0);
    set.every = reader.integer("every", 1, 1);
    reader.finish();
    return set;
  }
  set.listed.emplace();
  for (const json::Value &entry : *list) {
    std::optional<int64_t> layer = entry.getAsInteger();
    int64_t least = set.listed->empty() ? 0 : set.listed->back() + 1;
    if (!layer || *layer < least)
      errors.report(parent.pathOf(name),
                    "expected layers that ascend from 0, found " +
                        textOf(entry));
    set.listed->push_back(layer.value_or(least));
  }
  return set;
}

static void readLatentAttention(FieldReader &parent, Architecture &arch) {
  const json::Value *value = parent.find("latent_attention");
  if (!value)
    return;
  FieldReader reader(value, "latent_attention", parent.getErrors());
  LatentAttention &latent = arch.latent.emplace();
  latent.queryRank = reader.integer("query_rank", 1, 0);
  latent.keyValueRank = reader.integer("key_value_rank", 1);
  latent.headSize = reader.integer("head_size", 1);
  latent.ropeHeadSize = reader.integer("rope_head_size", 0);
  latent.valueHeadSize = reader.integer("value_head_size", 1);
  reader.finish();
  for (StringRef name : {"key_value_heads", "attention_width", "head_size"})
    if (parent.find(name))
      parent.getErrors().report(name, "latent_attention has sizes of its own");
}

static void readExperts(FieldReader &parent, Architecture &arch) {
  const json::Value *value = parent.find("experts");
  if (!value)
    return;
  FieldReader reader(value, "experts", parent.getErrors());
  Experts &experts = arch.experts.emplace();
  experts.count = reader.integer("count", 1);
  experts.perToken = reader.integer("per_token", 1);
  experts.feedforward = reader.integer("feedforward", 1);
  experts.sharedFeedforward = reader.integer("shared_feedforward", 1, 0);
  experts.sharedGate = reader.flag("shared_gate", false);
  experts.routerBias = reader.flag("router_bias", false);
  experts.biases = reader.flag("biases", false);
  experts.groups = reader.integer("groups", 1, 1);
  experts.groupsPerToken = reader.integer("groups_per_token", 1, 1);
  experts.dispatchBits = reader.integer("dispatch_bits", 1, 0);
  experts.layers = readLayerSet(reader, "layers", LayerSet());
  reader.finish();
}

/// Sets the members of `flags` whose names are in a list.
template <typename Flags>
static void readNames(const json::Array &list, StringRef field,
                      llvm::ArrayRef<std::pair<StringRef, bool Flags::*>> names,
                      Flags &flags, FileErrors &errors) {
  std::string wanted;
  for (const auto &name : names.drop_back())
    wanted += (wanted.empty() ? "" : ", ") + name.first.str();
  wanted += " or " + names.back().first.str();
  for (const json::Value &entry : list) {
    const auto *found = llvm::find_if(names, [&](const auto &name) {
      return name.first == entry.getAsString();
    });
    if (found != names.end())
      flags.*found->second = true;
    else
      errors.report(field, "expected " + wanted + ", found " + textOf(entry));
  }
}

/// Reads which outputs are recomputed, and the bits of the kept ones.
static void readKept(FieldReader &parent, Architecture &arch) {
  const json::Value *value = parent.find("recomputed");
  const json::Array *list = value ? value->getAsArray() : nullptr;
  FileErrors &errors = parent.getErrors();
  if (value && !list)
    errors.report("recomputed", "expected a list of names");
  using Outputs = RecomputedOutputs;
  if (list)
    readNames<Outputs>(*list, "recomputed",
                       {{"norms", &Outputs::norms},
                        {"up_projections", &Outputs::upProjections},
                        {"activations", &Outputs::activations},
                        {"operations", &Outputs::operations},
                        {"mlps", &Outputs::mlps},
                        {"experts", &Outputs::experts}},
                       arch.recomputed, errors);
  arch.recomputedLayers =
      readLayerSet(parent, "recomputed_layers", LayerSet::none());
  if (const json::Value *bits = parent.find("saved_bits")) {
    FieldReader reader(bits, "saved_bits", errors);
    SavedBits &saved = arch.savedBits;
    saved.linearInputs = reader.integer("linear_inputs", 1, 0);
    saved.attentionOutput = reader.integer("attention_output", 1, 0);
    saved.activationInputs = reader.integer("activation_inputs", 1, 0);
    reader.finish();
  }
  arch.separateCasts = parent.flag("separate_casts", false);
  arch.separateAccumulation = parent.flag("separate_accumulation", false);
  arch.separateNorms = parent.flag("separate_norms", false);
  arch.separateActivations = parent.flag("separate_activations", false);
  arch.separateLoss = parent.flag("separate_loss", false);
  arch.parallelLoss = parent.flag("parallel_loss", false);
  if (arch.parallelLoss && !arch.separateLoss)
    errors.report("parallel_loss", "needs separate_loss, whose operations it "
                                   "divides");
  arch.gatheredLoss = parent.flag("gathered_loss", false);
  if (arch.gatheredLoss && (!arch.separateLoss || arch.parallelLoss))
    errors.report("gathered_loss", "needs separate_loss, whose operations run "
                                   "on all logits, and no parallel_loss");
  arch.gatheredInputs = parent.flag("gathered_inputs", false);
}

static void readWindow(FieldReader &parent, Architecture &arch) {
  const json::Value *value = parent.find("window");
  if (!value)
    return;
  FieldReader reader(value, "window", parent.getErrors());
  arch.window.size = reader.integer("size", 1);
  arch.window.fullLayers =
      readLayerSet(reader, "full_layers", LayerSet::none());
  reader.finish();
}

static void readLinearAttention(FieldReader &parent, Architecture &arch) {
  arch.attentionGate = parent.flag("attention_gate", false);
  arch.mixerOnly = readLayerSet(parent, "mixer_only", LayerSet::none());
  arch.feedforwardOnly =
      readLayerSet(parent, "feedforward_only", LayerSet::none());
  const json::Value *value = parent.find("linear_attention");
  if (!value)
    return;
  FieldReader reader(value, "linear_attention", parent.getErrors());
  LinearAttention &linear = arch.linear.emplace();
  linear.recurrence = reader.choice<Recurrence>("recurrence");
  linear.keyHeads = reader.integer("key_heads", 1, 1);
  linear.keyHeadSize = reader.integer("key_head_size", 1, 0);
  linear.valueHeads = reader.integer("value_heads", 1);
  linear.valueHeadSize = reader.integer("value_head_size", 1);
  linear.convolution = reader.integer("convolution", 1, 4);
  linear.chunk = reader.integer("chunk", 1, 64);
  linear.timeRank = reader.integer("time_rank", 1, 0);
  linear.convolutionBias = reader.flag("convolution_bias", false);
  linear.projectionBias = reader.flag("projection_bias", false);
  linear.innerNorms = reader.flag("inner_norms", false);
  linear.layers = readLayerSet(reader, "layers", LayerSet());
  reader.finish();
}

static void readSizes(FieldReader &reader, Architecture &arch) {
  arch.hidden = reader.integer("hidden", 1);
  readExperts(reader, arch);
  readLinearAttention(reader, arch);
  std::optional<int64_t> noMlp;
  if (arch.experts || reader.find("mixer_only"))
    noMlp = 0;
  arch.feedforward = reader.integer("feedforward", 1, noMlp);
  arch.sequence = reader.integer("sequence", 1);
  arch.layers = reader.integer("layers", 1);
  arch.attentionHeads = reader.integer("attention_heads", 1);
  arch.keyValueHeads =
      reader.integer("key_value_heads", 1, arch.attentionHeads);
  readAttentionWidth(reader, arch);
  readLatentAttention(reader, arch);
  readWindow(reader, arch);
  arch.vocabulary = reader.integer("vocabulary", 1, 0);
  arch.embeddingWidth = reader.integer("embedding_width", 1, 0);
  arch.predictionLayers = reader.integer("prediction_layers", 1, 0);
  arch.globalBatch = reader.integer("global_batch", 1, 0);
}

/// Reads true (the linear layers of attention and MLP) or a list of names.
static void readBiases(FieldReader &reader, Biases &biases) {
  const json::Value *value = reader.find("biases");
  const json::Array *list = value ? value->getAsArray() : nullptr;
  if (!list) {
    bool hasAll = reader.flag("biases", false);
    biases = {hasAll, hasAll, hasAll, /*head=*/false};
    return;
  }
  readNames<Biases>(*list, "biases",
                    {{"query_key_value", &Biases::queryKeyValue},
                     {"output", &Biases::output},
                     {"mlp", &Biases::mlp},
                     {"head", &Biases::head}},
                    biases, reader.getErrors());
}

/// Reads true (one for each position of the sequence) or a number.
static void readPositions(FieldReader &reader, Architecture &arch) {
  const json::Value *value = reader.find("learned_positions");
  if (!value)
    return;
  std::optional<bool> flag = value->getAsBoolean();
  arch.learnedPositions = !flag   ? reader.integer("learned_positions", 1, 0)
                          : *flag ? arch.sequence
                                  : 0;
  if (arch.learnedPositions && !arch.vocabulary)
    reader.getErrors().report("learned_positions",
                              "stand in the embedding, which needs the field "
                              "'vocabulary'");
}

static void readForm(FieldReader &reader, Architecture &arch) {
  arch.activation = reader.choice<Activation>("activation");
  arch.norm = reader.choice<Norm>("norm");
  arch.norms = reader.choice("norms", std::optional(NormPlacement::Before));
  arch.branches =
      reader.choice("branches", std::optional(Branches::Sequential));
  arch.queryKeyNorm =
      reader.choice("query_key_norm", std::optional(QueryKeyNorm::None));
  arch.queryKeyNormForm =
      reader.choice("query_key_norm_form", std::optional(arch.norm));
  arch.attention = reader.choice("attention", std::optional(Attention::Fused));
  arch.repeatedKeyValues = reader.flag("repeated_key_values", false);
  arch.dropout = reader.flag("dropout", false);
  readBiases(reader, arch.biases);
  arch.attentionSinks = reader.flag("attention_sinks", false);
  arch.tiedEmbeddings = reader.flag("tied_embeddings", false);
  arch.embeddingNorm = reader.flag("embedding_norm", false);
  arch.finalNorm = reader.flag("final_norm", true);
  readPositions(reader, arch);
}

static void readBytes(FieldReader &reader, Architecture &arch) {
  arch.bytesPerElement = reader.integer("bytes_per_element", 1, 2);
  arch.weightBytesPerParameter =
      reader.integer("weight_bytes_per_parameter", 0, 2);
  arch.gradientBytesPerParameter =
      reader.integer("gradient_bytes_per_parameter", 0, 2);
  arch.optimizerBytesPerParameter =
      reader.integer("optimizer_bytes_per_parameter", 0, 12);
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static void readFields(FieldReader &reader, Architecture &arch) {
  arch.name = reader.text("name");
  readSizes(reader, arch);
  readForm(reader, arch);
  readKept(reader, arch);
  readBytes(reader, arch);
}

/// Reads a list of parts of the model, each with the fields of one.
static void readModules(FieldReader &parent, Architecture &arch) {
  const json::Value *value = parent.find("modules");
  const json::Array *list = value ? value->getAsArray() : nullptr;
  if (value && !list)
    parent.getErrors().report("modules", "expected a list of models");
  for (size_t i = 0; list && i != list->size(); ++i) {
    FieldReader reader(&(*list)[i], "modules[" + std::to_string(i) + "]",
                       parent.getErrors());
    readFields(reader, arch.modules.emplace_back());
    reader.finish();
  }
}

Architecture pipesched::readModelFields(const json::Value &file,
                                        SourceRule rule, FileErrors &errors) {
  FieldReader reader(&file, "", errors);
  Architecture arch;
  reader.text("$schema", "");
  arch.source = reader.text("description");
  readFields(reader, arch);
  readModules(reader, arch);
  readAliases(reader);
  finishWithSources(reader, file, rule);
  return arch;
}

/// Reads a model in any format. Files that are not in the format of another
/// tool are PipeSched's own.
static Architecture readAnyModel(const json::Value &value, StringRef file,
                                 SourceRule rule, int64_t sequence,
                                 FileErrors &errors) {
  const json::Object *object = value.getAsObject();
  if (object && isHuggingFaceConfig(*object))
    return readHuggingFace(*object, file, sequence, errors);
  if (object && isCalculonApplication(*object))
    return readCalculonApplication(value, file, errors);
  return readModelFields(value, rule, errors);
}

llvm::Expected<Architecture> pipesched::architectureFromJson(StringRef text,
                                                             StringRef file,
                                                             SourceRule rule,
                                                             int64_t sequence) {
  llvm::Expected<json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  Architecture arch = readAnyModel(*value, file, rule, sequence, errors);
  if (errors.any())
    return errors.take();
  if (sequence)
    arch.sequence = sequence;
  if (llvm::Error error = checkArchitecture(arch))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   file + ": " +
                                       llvm::toString(std::move(error)));
  return arch;
}
