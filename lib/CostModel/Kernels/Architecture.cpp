//===- Architecture.cpp - The form of a transformer -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kinds of layers in their order; checks of sizes and of combinations.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/Twine.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Kinds of layers
//===----------------------------------------------------------------------===//

/// Whether the window hides any token.
static bool windowMatters(const Architecture &arch) {
  return arch.window.size > 0 && arch.window.size < arch.sequence &&
         arch.attention != Attention::Unfused;
}

bool pipesched::hasMixedLayers(const Architecture &arch) {
  return (arch.experts && !arch.experts->layers.isAllOrNone()) ||
         (windowMatters(arch) && !arch.window.fullLayers.isAllOrNone()) ||
         (arch.linear && !arch.linear->layers.isAllOrNone()) ||
         !arch.feedforwardOnly.isAllOrNone() || !arch.mixerOnly.isAllOrNone() ||
         !arch.recomputedLayers.isAllOrNone();
}

int64_t pipesched::headSizeOf(const Architecture &arch) {
  if (arch.latent)
    return arch.latent->headSize + arch.latent->ropeHeadSize;
  return arch.attentionWidth % arch.attentionHeads
             ? 0
             : arch.attentionWidth / arch.attentionHeads;
}

std::vector<LayerRun> pipesched::layerRuns(const Architecture &arch) {
  bool hasWindows = windowMatters(arch);
  auto kindOf = [&](int64_t layer) {
    LayerRun run;
    run.count = 1;
    run.hasMixer = !arch.feedforwardOnly.contains(layer);
    run.hasFeedforward = !arch.mixerOnly.contains(layer);
    run.isLinear =
        run.hasMixer && arch.linear && arch.linear->layers.contains(layer);
    run.hasExperts = run.hasFeedforward && arch.experts &&
                     arch.experts->layers.contains(layer);
    run.hasWindow = run.hasAttention() && hasWindows &&
                    !arch.window.fullLayers.contains(layer);
    run.isRecomputed = arch.recomputedLayers.contains(layer);
    return run;
  };
  std::vector<LayerRun> runs = {kindOf(0)};
  if (!hasMixedLayers(arch)) {
    runs.front().count = arch.layers;
    return runs;
  }
  for (int64_t layer = 1; layer < arch.layers; ++layer) {
    LayerRun kind = kindOf(layer);
    LayerRun &last = runs.back();
    if (kind.isLike(last))
      ++last.count;
    else
      runs.push_back(kind);
  }
  return runs;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

namespace {
struct Field {
  StringRef name;
  int64_t value, least;
};
} // namespace

static llvm::Error checkFields(llvm::ArrayRef<Field> fields) {
  for (const Field &field : fields)
    if (field.value < field.least)
      return makeError(field.name + ": expected at least " +
                       Twine(field.least) + ", found " + Twine(field.value));
  return llvm::Error::success();
}

llvm::Error pipesched::setParameterBytes(Architecture &architecture,
                                         llvm::ArrayRef<int64_t> bytes) {
  if (bytes.empty())
    return llvm::Error::success();
  if (bytes.size() != 3)
    return makeError("parameter-bytes: expected three numbers (weight, "
                     "gradient, optimizer state), found " +
                     Twine(bytes.size()));
  for (int64_t value : bytes)
    if (llvm::Error error = checkFields({{"parameter-bytes", value, 0}}))
      return error;
  architecture.weightBytesPerParameter = bytes[0];
  architecture.gradientBytesPerParameter = bytes[1];
  architecture.optimizerBytesPerParameter = bytes[2];
  return llvm::Error::success();
}

static llvm::Error checkSizes(const Architecture &arch) {
  bool isPlain = !arch.latent;
  return checkFields({
      {"hidden", arch.hidden, 1},
      {"feedforward", arch.feedforward, 0},
      {"sequence", arch.sequence, 1},
      {"layers", arch.layers, 1},
      {"attention_heads", arch.attentionHeads, 1},
      {"key_value_heads", arch.keyValueHeads, isPlain ? 1 : 0},
      {"attention_width", arch.attentionWidth, isPlain ? 1 : 0},
      {"window.size", arch.window.size, 0},
      {"vocabulary", arch.vocabulary, 0},
      {"embedding_width", arch.embeddingWidth, 0},
      {"learned_positions", arch.learnedPositions, 0},
      {"prediction_layers", arch.predictionLayers, 0},
      {"saved_bits.linear_inputs", arch.savedBits.linearInputs, 0},
      {"saved_bits.attention_output", arch.savedBits.attentionOutput, 0},
      {"saved_bits.activation_inputs", arch.savedBits.activationInputs, 0},
      {"bytes_per_element", arch.bytesPerElement, 1},
      {"weight_bytes_per_parameter", arch.weightBytesPerParameter, 0},
      {"gradient_bytes_per_parameter", arch.gradientBytesPerParameter, 0},
      {"optimizer_bytes_per_parameter", arch.optimizerBytesPerParameter, 0},
      {"global_batch", arch.globalBatch, 0},
  });
}

/// Checks that query heads form equal groups, each of which shares a key-value
/// head.
static llvm::Error checkHeads(const Architecture &arch) {
  if (const std::optional<LatentAttention> &latent = arch.latent)
    return checkFields({
        {"latent_attention.query_rank", latent->queryRank, 0},
        {"latent_attention.key_value_rank", latent->keyValueRank, 1},
        {"latent_attention.head_size", latent->headSize, 1},
        {"latent_attention.rope_head_size", latent->ropeHeadSize, 0},
        {"latent_attention.value_head_size", latent->valueHeadSize, 1},
    });
  if (arch.attentionHeads % arch.keyValueHeads)
    return makeError("key_value_heads: expected a divisor of the " +
                     Twine(arch.attentionHeads) + " attention_heads, found " +
                     Twine(arch.keyValueHeads));
  int64_t group = arch.attentionHeads / arch.keyValueHeads;
  if (arch.attentionWidth % group)
    return makeError("attention_width: expected a multiple of the " +
                     Twine(group) + " query heads per key-value head, found " +
                     Twine(arch.attentionWidth));
  return llvm::Error::success();
}

static llvm::Error checkExperts(const Experts &experts) {
  if (llvm::Error error = checkFields({
          {"experts.count", experts.count, 1},
          {"experts.per_token", experts.perToken, 1},
          {"experts.feedforward", experts.feedforward, 1},
          {"experts.shared_feedforward", experts.sharedFeedforward, 0},
          {"experts.groups", experts.groups, 1},
          {"experts.groups_per_token", experts.groupsPerToken, 1},
          {"experts.dispatch_bits", experts.dispatchBits, 0},
          {"experts.layers.first", experts.layers.first, 0},
      }))
    return error;
  if (experts.perToken > experts.count)
    return makeError("experts.per_token: expected at most the " +
                     Twine(experts.count) + " experts, found " +
                     Twine(experts.perToken));
  if (experts.count % experts.groups)
    return makeError("experts.groups: expected a divisor of the " +
                     Twine(experts.count) + " experts, found " +
                     Twine(experts.groups));
  if (experts.groupsPerToken > experts.groups)
    return makeError("experts.groups_per_token: expected at most the " +
                     Twine(experts.groups) + " groups, found " +
                     Twine(experts.groupsPerToken));
  int64_t open = experts.count / experts.groups * experts.groupsPerToken;
  if (experts.perToken > open)
    return makeError("experts.per_token: expected at most the " + Twine(open) +
                     " experts of the groups of a token, found " +
                     Twine(experts.perToken));
  if (experts.sharedGate && experts.sharedFeedforward == 0)
    return makeError("experts.shared_gate: there is no shared expert, "
                     "experts.shared_feedforward is 0");
  return llvm::Error::success();
}

static llvm::Error checkLinear(const LinearAttention &linear) {
  bool hasState = linear.recurrence != Recurrence::Convolution;
  bool isMamba = linear.recurrence == Recurrence::Mamba;
  if (llvm::Error error = checkFields({
          {"linear_attention.key_heads", linear.keyHeads, 1},
          {"linear_attention.key_head_size", linear.keyHeadSize, hasState},
          {"linear_attention.value_heads", linear.valueHeads, 1},
          {"linear_attention.value_head_size", linear.valueHeadSize, 1},
          {"linear_attention.convolution", linear.convolution, 1},
          {"linear_attention.chunk", linear.chunk, 1},
          {"linear_attention.time_rank", linear.timeRank, isMamba},
          {"linear_attention.layers.first", linear.layers.first, 0},
      }))
    return error;
  if (linear.valueHeads % linear.keyHeads)
    return makeError("linear_attention.value_heads: expected a multiple of "
                     "the " +
                     Twine(linear.keyHeads) + " key_heads, found " +
                     Twine(linear.valueHeads));
  if (!linear.values().isValid() || !linear.keys().isValid())
    return makeError("linear_attention: all heads together are wider than "
                     "2^63 - 1");
  if (!isMamba && (linear.timeRank || linear.innerNorms))
    return makeError("linear_attention: time_rank and inner_norms need "
                     "recurrence mamba, found " +
                     enumName(linear.recurrence));
  return llvm::Error::success();
}

/// Checks that each layer has at least one of its two parts.
static llvm::Error checkParts(const Architecture &arch) {
  int64_t layer = 0;
  for (const LayerRun &run : layerRuns(arch)) {
    if (!run.hasMixer && !run.hasFeedforward)
      return makeError("mixer_only: layer " + Twine(layer) +
                       " is in feedforward_only, too");
    if (!(run.hasMixer && run.hasFeedforward) &&
        arch.branches != Branches::Sequential)
      return makeError("branches: layer " + Twine(layer) +
                       " has one part, and so no parallel branches");
    layer += run.count;
  }
  return llvm::Error::success();
}

/// Checks features that require or exclude each other.
static llvm::Error checkForm(const Architecture &arch) {
  if (arch.branches != Branches::Sequential &&
      arch.norms != NormPlacement::Before)
    return makeError("norms: parallel branches have theirs before");
  if (arch.queryKeyNorm != QueryKeyNorm::None && arch.latent)
    return makeError("query_key_norm: latent attention already has norms");
  if (arch.queryKeyNorm == QueryKeyNorm::Head &&
      arch.attentionWidth % arch.attentionHeads)
    return makeError("query_key_norm: the " + Twine(arch.attentionHeads) +
                     " attention_heads have no common size in a width of " +
                     Twine(arch.attentionWidth));
  if (flashKernelOf(arch.attention) && headSizeOf(arch) == 0)
    return makeError("attention: " + enumName(arch.attention) +
                     " needs heads of one size, but the " +
                     Twine(arch.attentionHeads) +
                     " attention_heads do not divide a width of " +
                     Twine(arch.attentionWidth));
  if (arch.repeatedKeyValues && arch.latent)
    return makeError("repeated_key_values: latent attention has keys and "
                     "values of each head");
  if (!arch.vocabulary && (arch.learnedPositions || arch.tiedEmbeddings ||
                           arch.embeddingNorm || arch.embeddingWidth))
    return makeError("vocabulary: learned_positions, tied_embeddings, "
                     "embedding_norm and embedding_width need it");
  if (!arch.vocabulary && arch.predictionLayers)
    return makeError("vocabulary: prediction_layers need it");
  if (!arch.latent && arch.recomputed.upProjections)
    return makeError("recomputed: up_projections need latent_attention, which "
                     "the model does not have");
  if (arch.recomputed.experts && !arch.experts)
    return makeError("recomputed: the model has no experts");
  if (arch.recomputed.operations &&
      (arch.latent || arch.experts || arch.linear || arch.attentionGate ||
       arch.attention == Attention::Unfused || arch.separateActivations))
    return makeError("recomputed: operations need layers with plain fused "
                     "attention and an MLP");
  if (arch.attentionGate && arch.latent)
    return makeError("attention_gate: latent attention has none");
  if (arch.learnedPositions && arch.sequence > arch.learnedPositions)
    return makeError("sequence: expected at most the " +
                     Twine(arch.learnedPositions) +
                     " learned_positions, found " + Twine(arch.sequence));
  if (hasMixedLayers(arch) && arch.layers > kMaxMixedLayers)
    return makeError("layers: expected at most " + Twine(kMaxMixedLayers) +
                     " of several kinds, found " + Twine(arch.layers));
  return llvm::Error::success();
}

/// Modules consist of layers, named by the module.
static llvm::Error checkModules(llvm::ArrayRef<Architecture> modules) {
  for (auto [i, part] : llvm::enumerate(modules)) {
    std::string name = "modules: '" + part.name + "'";
    if (llvm::any_of(modules.take_front(i), [&](const Architecture &other) {
          return other.name == part.name;
        }))
      return makeError(name + " is there twice");
    if (part.vocabulary != 0 || !part.modules.empty())
      return makeError(name + " has a vocabulary or modules, expected layers");
    if (llvm::Error error = checkArchitecture(part))
      return makeError(name + ": " + llvm::toString(std::move(error)));
  }
  return llvm::Error::success();
}

llvm::Error pipesched::checkArchitecture(const Architecture &arch) {
  if (llvm::Error error = checkSizes(arch))
    return error;
  if (llvm::Error error = checkHeads(arch))
    return error;
  if (arch.experts)
    if (llvm::Error error = checkExperts(*arch.experts))
      return error;
  if (arch.linear)
    if (llvm::Error error = checkLinear(*arch.linear))
      return error;
  if (llvm::Error error = checkForm(arch))
    return error;
  if (llvm::Error error = checkParts(arch))
    return error;
  bool hasMlp = llvm::any_of(layerRuns(arch),
                             [](const LayerRun &run) { return run.hasMlp(); });
  if (hasMlp && arch.feedforward == 0)
    return makeError("feedforward: expected at least 1, found 0");
  return checkModules(arch.modules);
}
