//===- Architecture.h - The form of a transformer ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Contents of a model file: sizes, and the variant of each part.
// TransformerBlock.h expands it to FLOPs and bytes.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_KERNELS_ARCHITECTURE_H
#define PIPESCHED_COSTMODEL_KERNELS_ARCHITECTURE_H

#include "PipeSched/CostModel/Kernels/LinearAttention.h"
#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>
#include <vector>

namespace pipesched {

/// The kernels of attention and of the pointwise work around it: one per
/// operation, or FlashAttention and fused pointwise kernels. Fused names no
/// attention kernel, so its attention has the rate of GEMMs. The last three
/// name an attention kernel, whose rate the system states.
enum class Attention : uint8_t { Unfused, Fused, Flash2, Flash3, Cudnn };

/// The attention kernel whose rate on the system is used, if there is one.
constexpr std::optional<FlashKernel> flashKernelOf(Attention attention) {
  switch (attention) {
  case Attention::Unfused:
  case Attention::Fused:
    return std::nullopt;
  case Attention::Flash2:
    return FlashKernel::Flash2;
  case Attention::Flash3:
    return FlashKernel::Flash3;
  case Attention::Cudnn:
    return FlashKernel::Cudnn;
  }
  return std::nullopt;
}

template <>
struct EnumNames<Attention> {
  static constexpr EnumName<Attention> values[] = {
      {Attention::Unfused, "unfused", "One kernel per operation"},
      {Attention::Fused, "fused",
       "FlashAttention and fused pointwise kernels, at the rate of GEMMs"},
      {Attention::Flash2, enumName(FlashKernel::Flash2),
       enumMeaning(FlashKernel::Flash2)},
      {Attention::Flash3, enumName(FlashKernel::Flash3),
       enumMeaning(FlashKernel::Flash3)},
      {Attention::Cudnn, enumName(FlashKernel::Cudnn),
       enumMeaning(FlashKernel::Cudnn)}};
};

/// The requested attention kernels: as in the description of the model, or
/// others.
enum class AttentionKernels : uint8_t {
  AsDescribed,
  Fused,
  Unfused,
  Flash2,
  Flash3,
  Cudnn
};

template <>
struct EnumNames<AttentionKernels> {
  static constexpr EnumName<AttentionKernels> values[] = {
      {AttentionKernels::AsDescribed, "as-described",
       "Those of the description"},
      {AttentionKernels::Fused, enumName(Attention::Fused),
       enumMeaning(Attention::Fused)},
      {AttentionKernels::Unfused, enumName(Attention::Unfused),
       enumMeaning(Attention::Unfused)},
      {AttentionKernels::Flash2, enumName(Attention::Flash2),
       enumMeaning(Attention::Flash2)},
      {AttentionKernels::Flash3, enumName(Attention::Flash3),
       enumMeaning(Attention::Flash3)},
      {AttentionKernels::Cudnn, enumName(Attention::Cudnn),
       enumMeaning(Attention::Cudnn)}};
};

/// Returns the kernels for a request if the model's description states
/// `described`.
constexpr Attention chooseAttention(AttentionKernels asked,
                                    Attention described) {
  switch (asked) {
  case AttentionKernels::AsDescribed:
    return described;
  case AttentionKernels::Fused:
    return Attention::Fused;
  case AttentionKernels::Unfused:
    return Attention::Unfused;
  case AttentionKernels::Flash2:
    return Attention::Flash2;
  case AttentionKernels::Flash3:
    return Attention::Flash3;
  case AttentionKernels::Cudnn:
    return Attention::Cudnn;
  }
  return described;
}

/// Activation function of the MLP. The last three are gated: the result is
/// multiplied by the output of a second matrix (arXiv 2002.05202).
enum class Activation : uint8_t {
  Gelu,
  Relu,
  SquaredRelu,
  Silu,
  GeGLU,
  ReGLU,
  SwiGLU
};

template <>
struct EnumNames<Activation> {
  static constexpr EnumName<Activation> values[] = {
      {Activation::Gelu, "gelu", "GELU"},
      {Activation::Relu, "relu", "ReLU"},
      {Activation::SquaredRelu, "squared_relu", "The square of ReLU"},
      {Activation::Silu, "silu", "SiLU"},
      {Activation::GeGLU, "geglu", "GELU, gated"},
      {Activation::ReGLU, "reglu", "ReLU, gated"},
      {Activation::SwiGLU, "swiglu", "SiLU, gated"}};
};

constexpr bool isGated(Activation activation) {
  return activation >= Activation::GeGLU;
}

/// LayerNorm has a gain and a bias, RMSNorm a gain. GainNorm is a LayerNorm
/// with only a gain, PlainNorm one with neither.
enum class Norm : uint8_t { LayerNorm, RMSNorm, GainNorm, PlainNorm };

template <>
struct EnumNames<Norm> {
  static constexpr EnumName<Norm> values[] = {
      {Norm::LayerNorm, "layer", "LayerNorm with a gain and a bias"},
      {Norm::RMSNorm, "rms", "RMSNorm with a gain"},
      {Norm::GainNorm, "layer_no_bias", "LayerNorm with a gain alone"},
      {Norm::PlainNorm, "layer_no_parameters", "LayerNorm without parameters"}};
};

/// Parameters of a norm per normalized element.
constexpr int64_t parametersPerElement(Norm norm) {
  return norm == Norm::LayerNorm ? 2 : norm == Norm::PlainNorm ? 0 : 1;
}

/// The places of norms around the attention and around the MLP.
enum class NormPlacement : uint8_t { Before, After, Around };

template <>
struct EnumNames<NormPlacement> {
  static constexpr EnumName<NormPlacement> values[] = {
      {NormPlacement::Before, "before",
       "Before the attention and before the MLP"},
      {NormPlacement::After, "after", "After them"},
      {NormPlacement::Around, "around", "Before and after them"}};
};

/// Attention and MLP run one after the other, or both on the input of the
/// layer, each after a separate norm or after a shared one.
enum class Branches : uint8_t { Sequential, Parallel, ParallelSharedNorm };

template <>
struct EnumNames<Branches> {
  static constexpr EnumName<Branches> values[] = {
      {Branches::Sequential, "sequential", "One after the other"},
      {Branches::Parallel, "parallel",
       "Both on the input of the layer, each behind its own norm"},
      {Branches::ParallelSharedNorm, "parallel_shared_norm",
       "Both on the input of the layer, behind one norm"}};
};

/// Norms of queries and of keys: of each head, with one gain for all heads, or
/// with a gain for each element of all heads.
enum class QueryKeyNorm : uint8_t { None, Head, Width };

template <>
struct EnumNames<QueryKeyNorm> {
  static constexpr EnumName<QueryKeyNorm> values[] = {
      {QueryKeyNorm::None, "none", "No norm"},
      {QueryKeyNorm::Head, "head", "Each head, with one gain for all heads"},
      {QueryKeyNorm::Width, "width",
       "Each head, with a gain for each element of all heads"}};
};

/// The linear layers that add a bias. With latent attention `queryKeyValue`
/// means the two down-projections.
struct Biases {
  bool queryKeyValue = false, output = false, mlp = false, head = false;
};

/// Layers whose tokens attend only to the last `size` tokens.
struct Window {
  int64_t size = 0; ///< 0: every token attends to all earlier tokens
  LayerSet fullLayers = LayerSet::none(); ///< layers without this window
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1):
/// keys and values, and optionally queries, are expanded from one narrow vector
/// per token. A head's queries and keys have one part without and one with
/// rotary positions; all heads share the positional part of the keys.
struct LatentAttention {
  int64_t queryRank = 0; ///< 0: queries are not compressed
  int64_t keyValueRank = 0;
  int64_t headSize = 0;     ///< of the part without positions
  int64_t ropeHeadSize = 0; ///< of the part with positions
  int64_t valueHeadSize = 0;
};

/// Mixture of experts in place of the MLP: a router sends each token to
/// `perToken` experts; every token also goes through the shared experts.
struct Experts {
  int64_t count = 0, perToken = 0;
  int64_t feedforward = 0;       ///< width of one expert
  int64_t sharedFeedforward = 0; ///< total width of all shared experts; 0: none
  bool sharedGate = false;       ///< a sigmoid gate scales the shared experts
  bool routerBias = false, biases = false;
  /// Experts form groups of equal size. The router chooses some groups for a
  /// token, and then experts in these groups (arXiv 2412.19437, section 2.1.2).
  int64_t groups = 1, groupsPerToken = 1;
  /// The bits per element of rows, and of gradients, that are sent to experts;
  /// 0: as `bytesPerElement`. Rows that return from experts always have
  /// `bytesPerElement`.
  int64_t dispatchBits = 0;
  LayerSet layers; ///< layers with experts; all others have an MLP
};

/// Outputs that a gradient needs but that the forward does not keep: the
/// backward recomputes them from the kept outputs (arXiv 2412.19437, section
/// 3.2.3; `--recompute-modules` of Megatron-Core).
struct RecomputedOutputs {
  bool norms =
      false; ///< of norms before attention and MLP, and inside latent attention
  bool upProjections = false; ///< of latent attention: queries, keys, values
  bool activations = false;   ///< of activation functions
  /// All except outputs of attention and of every second linear layer:
  /// torchtitan's selective checkpointing of operations.
  bool operations = false;
  bool mlps = false; ///< all of an MLP
  bool experts =
      false; ///< all outputs from the router to the sum of the experts

  bool ofNorms() const { return norms || operations; }
  bool ofActivations() const { return activations || operations; }
};

/// The bits per element of tensors that the forward keeps. 0: as
/// `bytesPerElement`; if linear layers run in 8 bits, as their inputs: 8, plus
/// 16 for the attention's output, which the backward of attention reads.
struct SavedBits {
  int64_t linearInputs = 0; ///< except the input of the output projection
  int64_t attentionOutput = 0;
  int64_t activationInputs = 0;
};

/// The facts of a model file (models/*.json). Sizes in elements.
struct Architecture {
  std::string name, source;
  /// The assumptions and omissions of a reader, one sentence each without a
  /// period.
  std::vector<std::string> notes;
  int64_t hidden = 0;
  int64_t feedforward = 0; ///< of the MLP; 0 if every layer has experts
  int64_t sequence = 0;
  int64_t layers = 0;
  int64_t attentionHeads = 0;
  int64_t keyValueHeads =
      0; ///< less than attentionHeads with grouped-query attention
  /// The width of all query heads together. It may differ from hidden and need
  /// not be a multiple of the number of heads (the paper has 80 heads and width
  /// 4096). Latent attention has separate sizes and ignores this field and
  /// keyValueHeads.
  int64_t attentionWidth = 0;
  std::optional<LatentAttention> latent;
  std::optional<Experts> experts;
  Window window;
  std::optional<LinearAttention> linear;
  /// Whether attention outputs are multiplied by the sigmoid of a gate for each
  /// element, which is computed alongside the queries.
  bool attentionGate = false;
  /// Layers with an MLP or experts but without attention, and layers with
  /// attention or a recurrence but without an MLP.
  LayerSet feedforwardOnly = LayerSet::none(), mixerOnly = LayerSet::none();
  Activation activation = Activation::Gelu;
  Norm norm = Norm::LayerNorm;
  NormPlacement norms = NormPlacement::Before;
  Branches branches = Branches::Sequential;
  QueryKeyNorm queryKeyNorm = QueryKeyNorm::None;
  Norm queryKeyNormForm = Norm::RMSNorm;
  Attention attention = Attention::Fused;
  /// Whether keys and values are copied to all query heads that share them
  /// before the attention. The attention then reads, keeps and exchanges the
  /// copies.
  bool repeatedKeyValues = false;
  bool dropout = false;
  Biases biases;
  bool attentionSinks = false; ///< one parameter per head
  int64_t vocabulary = 0;      ///< 0: without embedding and head
  /// Whether the head uses the embedding's table as its matrix.
  bool tiedEmbeddings = false;
  /// Width of the embedding's rows if a linear layer expands them to `hidden`
  /// (and another reduces them before the head); 0: the width is `hidden`.
  int64_t embeddingWidth = 0;
  bool embeddingNorm = false;
  bool finalNorm = true;
  int64_t learnedPositions = 0; ///< rows of the position table; needs
                                ///< vocabulary
  /// Layers after the last one that predict one more token each, with the
  /// embedding and the head of the model (arXiv 2412.19437, section 2.2).
  int64_t predictionLayers = 0;
  RecomputedOutputs recomputed;
  /// Layers of which only the input is kept (`--recompute-num-layers` of
  /// Megatron-Core).
  LayerSet recomputedLayers = LayerSet::none();
  SavedBits savedBits;
  /// Whether separate kernels cast operands to 8 bits (arXiv 2412.19437,
  /// section 3.5.2). Otherwise the preceding kernels do it.
  bool separateCasts = false;
  /// Whether a separate kernel adds the gradients of a microbatch to the sum of
  /// earlier microbatches. Otherwise the GEMM does it.
  bool separateAccumulation = false;
  /// Whether norms of the residual stream have a kernel for each operation, in
  /// FP32: `norm(x.float()).type_as(x) * gain`. Otherwise a norm is one kernel.
  bool separateNorms = false;
  /// Whether separate kernels compute the activation function and the product
  /// with its gate, for any attention.
  bool separateActivations = false;
  /// Whether the loss has a kernel for each operation. Their results, 4 bytes
  /// per element, are all held. Otherwise the loss reads the logits directly.
  bool separateLoss = false;
  /// Whether tensor-parallel ranks compute such a loss on their parts of the
  /// logits (`loss_parallel` of PyTorch), which holds one more result.
  bool parallelLoss = false;
  /// Whether tensor-parallel ranks gather the logits, so that each computes
  /// such a loss on all logits.
  bool gatheredLoss = false;
  /// Whether tensor-parallel ranks keep the gathered inputs of linear layers;
  /// otherwise they gather them again in the backward.
  bool gatheredInputs = false;
  int64_t bytesPerElement = 2;
  int64_t weightBytesPerParameter = 2, gradientBytesPerParameter = 2,
          optimizerBytesPerParameter = 12;
  int64_t globalBatch =
      0; ///< sequences per step of the reference setup; 0: none
  /// Parts with layers of other sizes, such as encoders of images: a sequence
  /// of each for every sequence of the model. They have no vocabulary.
  std::vector<Architecture> modules;
};

/// Consecutive layers of the same kind.
struct LayerRun {
  int64_t count = 0;
  bool hasExperts = false, hasWindow = false;
  bool isLinear = false; ///< a recurrence in place of attention
  bool hasMixer = true, hasFeedforward = true;
  bool isRecomputed = false; ///< the backward recomputes all but the input

  bool hasMlp() const { return hasFeedforward && !hasExperts; }
  bool hasAttention() const { return hasMixer && !isLinear; }
  bool isLike(const LayerRun &other) const {
    return hasExperts == other.hasExperts && hasWindow == other.hasWindow &&
           isLinear == other.isLinear && hasMixer == other.hasMixer &&
           hasFeedforward == other.hasFeedforward &&
           isRecomputed == other.isRecomputed;
  }
};

/// The layers of an architecture in their order, with equal neighbours in one
/// run. A window that covers the sequence does not count. Unfused attention
/// computes all scores, so windows make no difference there.
///
/// Precondition: sizes are not negative, and a model with several kinds of
/// layers has at most kMaxMixedLayers layers.
std::vector<LayerRun> layerRuns(const Architecture &architecture);
constexpr int64_t kMaxMixedLayers = 4096;

/// Whether there are layers of several kinds, whose pattern must be walked.
bool hasMixedLayers(const Architecture &architecture);

/// Size of a head of queries and keys; 0 if the heads have no common size.
int64_t headSizeOf(const Architecture &architecture);

/// Sets the bytes per parameter of weights, gradients and optimizer state,
/// which differ between frameworks for the same model. An empty list keeps the
/// bytes of the description. Errors: not three numbers; negative numbers.
llvm::Error setParameterBytes(Architecture &architecture,
                              llvm::ArrayRef<int64_t> bytes);

/// Checks sizes and their combinations. Errors name the field: sizes that are
/// too small, do not divide, or exclude each other.
llvm::Error checkArchitecture(const Architecture &architecture);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_KERNELS_ARCHITECTURE_H
