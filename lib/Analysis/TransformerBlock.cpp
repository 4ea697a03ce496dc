//===- TransformerBlock.cpp - Op-level facts of transformer models --------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Megatron block of arXiv 2605.24006, unfused and fused, tensor by tensor
// and kernel by kernel. docs/CostModel.md has the tables that the code follows.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Analysis/TransformerBlock.h"
#include "BlockBuilder.h"
#include "llvm/ADT/Twine.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;

namespace {
/// Sizes of a microbatch in elements.
struct Sizes {
  Sizes(const Architecture &arch, int64_t microbatchSize)
      : e(arch.bytesPerElement), h(arch.hidden), f(arch.feedforward),
        s(arch.sequence), q(arch.attentionWidth),
        kv(arch.attentionWidth / (arch.attentionHeads / arch.keyValueHeads)),
        v(arch.vocabulary), T(CheckedInt(microbatchSize) * arch.sequence),
        x(T * h), y(T * f), heads(arch.attentionHeads), n(heads * T * s) {}

  CheckedInt e;     ///< bytes of an element
  CheckedInt h, f;  ///< hidden, feedforward
  CheckedInt s;     ///< sequence
  CheckedInt q, kv; ///< width of all queries, of all keys (or values)
  CheckedInt v;     ///< vocabulary
  // NOLINTNEXTLINE(readability-identifier-naming): T = b s in every source
  CheckedInt T;    ///< tokens
  CheckedInt x, y; ///< elements of the residual stream, of the MLP
  CheckedInt heads;
  CheckedInt n; ///< attention scores
};

/// FLOPs per element of vector kernels (docs/CostModel.md counts them).
struct PerElement {
  int64_t forward, inputGrad, weightGrad;
};
constexpr PerElement kLayerNorm = {9, 14, 7}, kRmsNorm = {4, 7, 3},
                     kGelu = {8, 13, 0}, kSilu = {5, 9, 0},
                     kSwiGlu = {6, 12, 0};

/// Writes the kernels of one block. Every method adds a kernel (or a group of
/// kernels) in the order in which forward runs them.
class BlockExpander {
public:
  BlockExpander(const Architecture &arch, const Sizes &z, BlockBuilder &block)
      : arch(arch), z(z), block(block) {}

  void layer() {
    bool isFused = arch.attention == Attention::Fused;
    fork("attn_fork", z.x, 2);
    norm("ln1");
    isFused ? fusedAttention() : unfusedAttention();
    linear("proj", z.q, z.h);
    reduce("attention_reduce", /*forward=*/true, /*inputGrad=*/true);
    isFused ? fusedResidual("drop1") : unfusedResidual("drop1", "res1");
    fork("mlp_fork", z.x, 2);
    norm("ln2");
    isFused ? fusedMlp() : unfusedMlp();
    linear("mlp2", z.f, z.h);
    reduce("mlp_reduce", /*forward=*/true, /*inputGrad=*/true);
    isFused ? fusedResidual("drop2") : unfusedResidual("drop2", "res2");
    layerTensors();
    layerParameters();
  }

  void embedding();
  void head();

private:
  void linear(StringRef name, CheckedInt in, CheckedInt out) {
    CheckedWork work{2 * z.T * in * out,
                     z.e * (z.T * in + z.T * out + in * out)};
    block.kernel(name, Engine::Matrix, work, work, work);
    block.leavesGradient(name, z.e * z.T * out);
  }
  /// A GEMM of the attention core: it has no weights.
  void scores(StringRef name, bool isForward) {
    CheckedWork work{2 * z.T * z.s * z.q, z.e * (z.T * z.q + z.T * z.kv + z.n)};
    isForward ? block.kernel(name, Engine::Matrix, work, {}, {}, Part::Core)
              : block.kernel(name, Engine::Matrix, {}, work);
  }
  void vector(StringRef name, CheckedWork forward, CheckedWork inputGrad,
              Part part = Part::Rest) {
    block.kernel(name, Engine::Vector, forward, inputGrad, {}, part);
  }
  /// One pass over the scores that reads and writes `passes` values of each.
  CheckedWork scorePass(int64_t passes) { return {z.n, passes * z.e * z.n}; }
  void norm(StringRef name) {
    PerElement flops = arch.norm == Norm::LayerNorm ? kLayerNorm : kRmsNorm;
    CheckedInt bytes = 2 * z.e * z.x;
    block.kernel(name, Engine::Vector, {flops.forward * z.x, bytes},
                 {flops.inputGrad * z.x, bytes},
                 {flops.weightGrad * z.x, bytes});
    block.leavesGradient(name, z.e * z.x);
  }
  /// Where a value has several users, their gradients are summed.
  void fork(StringRef name, CheckedInt elements, int64_t users) {
    vector(name, {}, {users * elements, (users + 1) * z.e * elements});
  }
  void dropout(StringRef name, CheckedInt elements, Part part = Part::Rest) {
    CheckedWork work{elements, 2 * z.e * elements + elements};
    vector(name, work, work, part);
  }
  /// An all-reduce of the residual stream among the accelerators of a worker.
  void reduce(StringRef name, bool forward, bool inputGrad) {
    CheckedWork payload{0, z.e * z.x};
    block.kernel(name, Engine::Link, forward ? payload : CheckedWork(),
                 inputGrad ? payload : CheckedWork());
  }

  void unfusedAttention();
  void fusedAttention();
  void unfusedMlp();
  void fusedMlp();
  void unfusedResidual(StringRef dropoutName, StringRef name);
  void fusedResidual(StringRef name);
  void layerTensors();
  void mlpTensors();
  void layerParameters();

  const Architecture &arch;
  const Sizes &z;
  BlockBuilder &block;
};
} // namespace

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

void BlockExpander::unfusedAttention() {
  fork("qkv_fork", z.x, 3);
  linear("q", z.h, z.q);
  linear("k", z.h, z.kv);
  linear("v", z.h, z.kv);
  scores("qk", /*isForward=*/true);
  scores("qk_dq", /*isForward=*/false);
  scores("qk_dk", /*isForward=*/false);
  vector("scale", scorePass(2), scorePass(2), Part::Core);
  vector("mask", scorePass(2), {}, Part::Core);
  vector("sm_max", scorePass(1), {}, Part::Core);
  vector("sm_sub", scorePass(2), {}, Part::Core);
  vector("sm_exp", scorePass(2), {}, Part::Core);
  vector("sm_sum", scorePass(1), {}, Part::Core);
  vector("sm_div", scorePass(2), {}, Part::Core);
  vector("smb_mul", {}, scorePass(3));
  vector("smb_sum", {}, scorePass(1));
  vector("smb_sub", {}, scorePass(2));
  vector("smb_mul2", {}, scorePass(3));
  if (arch.dropout)
    dropout("attn_drop", z.n, Part::Core);
  scores("av", /*isForward=*/true);
  scores("av_dp", /*isForward=*/false);
  scores("av_dv", /*isForward=*/false);
}

/// One kernel reads q, k, v and writes o and a statistic per row and head. The
/// backward makes the scores again: five GEMMs where forward has two.
void BlockExpander::fusedAttention() {
  linear("qkv", z.h, z.q + 2 * z.kv);
  CheckedInt gemm = 2 * z.T * z.s * z.q;
  CheckedInt inputs = z.T * z.q + 2 * z.T * z.kv, output = z.T * z.q;
  CheckedInt statistics = 4 * z.heads * z.T;
  block.kernel("attention", Engine::Matrix,
               {2 * gemm, z.e * (inputs + output) + statistics},
               {5 * gemm, 2 * z.e * (inputs + output) + statistics}, {},
               Part::Core);
}

//===----------------------------------------------------------------------===//
// MLP and residual
//===----------------------------------------------------------------------===//

void BlockExpander::unfusedMlp() {
  if (arch.activation == Activation::Gelu) {
    linear("mlp1", z.h, z.f);
    vector("gelu", {kGelu.forward * z.y, 2 * z.e * z.y},
           {kGelu.inputGrad * z.y, 2 * z.e * z.y});
    return;
  }
  fork("gate_fork", z.x, 2);
  linear("mlp_gate", z.h, z.f);
  linear("mlp1", z.h, z.f);
  vector("silu", {kSilu.forward * z.y, 2 * z.e * z.y},
         {kSilu.inputGrad * z.y, 3 * z.e * z.y});
  vector("gate_mul", {z.y, 3 * z.e * z.y}, {2 * z.y, 5 * z.e * z.y});
}

void BlockExpander::fusedMlp() {
  if (arch.activation == Activation::Gelu) {
    linear("mlp1", z.h, z.f);
    vector("gelu", {kGelu.forward * z.y, 2 * z.e * z.y},
           {kGelu.inputGrad * z.y, 3 * z.e * z.y});
    return;
  }
  linear("mlp1", z.h, 2 * z.f);
  vector("swiglu", {kSwiGlu.forward * z.y, 3 * z.e * z.y},
         {kSwiGlu.inputGrad * z.y, 5 * z.e * z.y});
}

void BlockExpander::unfusedResidual(StringRef dropoutName, StringRef name) {
  if (arch.dropout)
    dropout(dropoutName, z.x);
  vector(name, {z.x, 3 * z.e * z.x}, {2 * z.x, 3 * z.e * z.x});
}

/// Dropout and addition in one pass; the gradient of the addition is its input.
void BlockExpander::fusedResidual(StringRef name) {
  if (arch.dropout)
    vector(name, {2 * z.x, 3 * z.e * z.x + z.x}, {z.x, 2 * z.e * z.x + z.x});
  else
    vector(name, {z.x, 3 * z.e * z.x}, {});
}

//===----------------------------------------------------------------------===//
// Saved tensors and parameters of a layer
//===----------------------------------------------------------------------===//

/// Korthikanti et al. (2205.05198), section 4, tensor by tensor: unfused, with
/// dropout and GELU on q = kv = h, f = 4h, e = 2 they are s b h (34 + 5 a s /
/// h).
void BlockExpander::layerTensors() {
  bool isFused = arch.attention == Attention::Fused;
  block.savesInput("ln1 input", z.e * z.x);
  block.saves("qkv input", z.e * z.x, LastUse::WeightGrad);
  block.saves("q", z.e * z.T * z.q, LastUse::InputGrad);
  block.saves("k, v", 2 * z.e * z.T * z.kv, LastUse::InputGrad);
  if (isFused) {
    block.saves("softmax statistics", 4 * z.heads * z.T, LastUse::InputGrad,
                Part::Core);
  } else {
    block.saves("softmax", z.e * z.n, LastUse::InputGrad, Part::Core);
    if (arch.dropout) {
      block.saves("attention dropout mask", z.n, LastUse::InputGrad,
                  Part::Core);
      block.saves("attention dropout", z.e * z.n, LastUse::InputGrad,
                  Part::Core);
    }
  }
  block.saves("proj input", z.e * z.T * z.q, LastUse::WeightGrad);
  block.saves("ln2 input", z.e * z.x, LastUse::WeightGrad);
  if (arch.dropout)
    block.saves("dropout masks", 2 * z.x, LastUse::InputGrad);
  mlpTensors();
}

void BlockExpander::mlpTensors() {
  block.saves("mlp1 input", z.e * z.x, LastUse::WeightGrad);
  block.saves("mlp2 input", z.e * z.y, LastUse::WeightGrad);
  block.saves("activation input", z.e * z.y, LastUse::InputGrad);
  if (arch.activation == Activation::Gelu)
    return;
  block.saves("gated value", z.e * z.y, LastUse::InputGrad);
  if (arch.attention == Attention::Unfused)
    block.saves("silu", z.e * z.y, LastUse::InputGrad);
}

void BlockExpander::layerParameters() {
  bool isGated = arch.activation == Activation::SwiGLU;
  int64_t normVectors = arch.norm == Norm::LayerNorm ? 2 : 1;
  block.parameters("attention", 2 * z.h * (z.q + z.kv));
  block.parameters("mlp", (isGated ? 3 : 2) * z.h * z.f);
  block.parameters("norms", 2 * normVectors * z.h);
  if (arch.biases)
    block.parameters("biases",
                     z.q + 2 * z.kv + (isGated ? 2 : 1) * z.f + 2 * z.h);
}

//===----------------------------------------------------------------------===//
// Embedding and head
//===----------------------------------------------------------------------===//

/// Rows of the table by token ids (8 bytes each); W adds the gradient to them.
void BlockExpander::embedding() {
  CheckedInt ids = 8 * z.T;
  block.kernel("embedding", Engine::Vector, {0, 2 * z.e * z.x + ids}, {},
               {z.x, 3 * z.e * z.x + ids});
  reduce("embedding_reduce", /*forward=*/true, /*inputGrad=*/false);
  block.saves("token ids", ids, LastUse::WeightGrad);
  block.leavesGradient("embedding", z.e * z.x);
  block.parameters("embedding", z.v * z.h);
  if (arch.learnedPositions) {
    CheckedInt table = z.e * z.s * z.h;
    block.kernel("positions", Engine::Vector, {z.x, 2 * z.e * z.x + table}, {},
                 {z.x, z.e * z.x + table});
    block.parameters("positions", z.s * z.h);
  }
  if (arch.dropout) {
    dropout("embedding_drop", z.x);
    block.saves("embedding dropout mask", z.x, LastUse::InputGrad);
  }
  block.keepAll();
}

/// Norm, logits and cross entropy. The loss reads the logits and keeps them in
/// 4-byte floats for its gradient (2205.05198, section 4.3).
void BlockExpander::head() {
  CheckedInt logits = z.T * z.v;
  norm("final_norm");
  linear("head", z.h, z.v);
  reduce("head_reduce", /*forward=*/false, /*inputGrad=*/true);
  vector("loss", {4 * logits, (z.e + 4) * logits},
         {logits, (z.e + 4) * logits});
  block.saves("final_norm input", z.e * z.x, LastUse::WeightGrad);
  block.saves("head input", z.e * z.x, LastUse::WeightGrad);
  block.saves("logits", 4 * logits, LastUse::InputGrad);
  block.parameters("head", z.v * z.h);
  block.parameters("final_norm", (arch.norm == Norm::LayerNorm ? 2 : 1) * z.h);
  block.keepAll();
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static llvm::Error makeError(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static llvm::Error checkSizes(const Architecture &arch,
                              const ExpansionOptions &options) {
  struct Field {
    StringRef name;
    int64_t value, least;
  };
  const Field fields[] = {
      {"microbatch size", options.microbatchSize, 1},
      {"hidden", arch.hidden, 1},
      {"feedforward", arch.feedforward, 1},
      {"sequence", arch.sequence, 1},
      {"layers", arch.layers, 1},
      {"attention_heads", arch.attentionHeads, 1},
      {"key_value_heads", arch.keyValueHeads, 1},
      {"attention_width", arch.attentionWidth, 1},
      {"vocabulary", arch.vocabulary, 0},
      {"bytes_per_element", arch.bytesPerElement, 1},
      {"weight_bytes_per_parameter", arch.weightBytesPerParameter, 0},
      {"gradient_bytes_per_parameter", arch.gradientBytesPerParameter, 0},
      {"optimizer_bytes_per_parameter", arch.optimizerBytesPerParameter, 0},
      {"global_batch", arch.globalBatch, 0},
      {"boundary bytes", options.boundaryBytes.value_or(0), 0},
  };
  for (const Field &field : fields)
    if (field.value < field.least)
      return makeError(field.name + ": expected at least " +
                       Twine(field.least) + ", found " + Twine(field.value));
  return llvm::Error::success();
}

/// Groups of query heads share a key-value head; all groups are equal.
static llvm::Error checkHeads(const Architecture &arch) {
  if (arch.attentionHeads % arch.keyValueHeads)
    return makeError("key_value_heads: expected a divisor of the " +
                     Twine(arch.attentionHeads) + " attention_heads, found " +
                     Twine(arch.keyValueHeads));
  if (arch.attentionWidth % (arch.attentionHeads / arch.keyValueHeads))
    return makeError("attention_width: expected a multiple of the " +
                     Twine(arch.attentionHeads / arch.keyValueHeads) +
                     " query heads per key-value head, found " +
                     Twine(arch.attentionWidth));
  return llvm::Error::success();
}

static llvm::Error expandBlocks(const Architecture &arch, const Sizes &sizes,
                                Recompute recompute, ModelFacts &model) {
  auto add = [&](StringRef name, BlockPosition position, int64_t count,
                 void (BlockExpander::*expand)()) -> llvm::Error {
    BlockBuilder builder(name, position, count);
    BlockExpander expander(arch, sizes, builder);
    (expander.*expand)();
    llvm::Expected<BlockFacts> block = builder.finish(recompute);
    if (!block)
      return block.takeError();
    model.blocks.push_back(std::move(*block));
    return llvm::Error::success();
  };
  if (arch.vocabulary)
    if (auto error = add("embedding", BlockPosition::First, 1,
                         &BlockExpander::embedding))
      return error;
  if (auto error = add("layer", BlockPosition::Layer, arch.layers,
                       &BlockExpander::layer))
    return error;
  if (!arch.vocabulary)
    return llvm::Error::success();
  return add("head", BlockPosition::Last, 1, &BlockExpander::head);
}

llvm::Expected<ModelFacts>
pipesched::expandArchitecture(const Architecture &architecture,
                              const ExpansionOptions &options) {
  if (auto error = checkSizes(architecture, options))
    return std::move(error);
  if (auto error = checkHeads(architecture))
    return std::move(error);

  ModelFacts model;
  model.name = architecture.name;
  model.source = architecture.source;
  model.microbatchSize = options.microbatchSize;
  model.weightBytesPerParameter = architecture.weightBytesPerParameter;
  model.gradientBytesPerParameter = architecture.gradientBytesPerParameter;
  model.optimizerBytesPerParameter = architecture.optimizerBytesPerParameter;
  model.recompute = options.recompute;

  Sizes sizes(architecture, options.microbatchSize);
  CheckedInt boundary = sizes.e * sizes.x;
  if (!boundary.isValid())
    return makeError("the activation between stages is over 2^63 - 1 bytes");
  model.boundaryBytes = options.boundaryBytes.value_or(boundary.get());
  if (auto error = expandBlocks(architecture, sizes, options.recompute, model))
    return std::move(error);
  return model;
}
