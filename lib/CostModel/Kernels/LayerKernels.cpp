//===- AttentionKernels.cpp - Attention, plain and latent -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From the normalized input of a layer to the output projection, with the
// tensors that are kept. docs/CostModel.md has the tables.
//
//===----------------------------------------------------------------------===//

#include "BlockExpander.h"

using namespace pipesched;
using llvm::StringRef;

/// Bytes of a softmax statistic; there is one per row and head (arXiv
/// 2307.08691).
static constexpr int64_t kStatisticBytes = 4;

void BlockExpander::attention() {
  arch.latent ? latentProjections(*arch.latent) : projections();
  if (arch.queryKeyNorm != QueryKeyNorm::None)
    queryKeyNorms();
  if (arch.repeatedKeyValues && arch.keyValueHeads < arch.attentionHeads)
    repeatKeyValues();
  block.sees(z.seen);
  CheckedInt keysValues = z.e * z.T * (z.coreK + z.coreV);
  block.kernel("context_exchange", Engine::Context, {0, keysValues},
               {0, 2 * keysValues}, {}, Part::Core);
  isFused ? fusedCore() : unfusedCore();
  block.sees(0);
  coreTensors();
  if (arch.attentionGate)
    gateOutput();
  linear("proj", z.T, z.o, z.h, byRows());
  if (arch.recomputed.operations)
    productAgain("proj", z.T, z.o, z.h);
  block.saves("proj input", keptBytes(z.T * z.o, saved.attentionOutput),
              LastUse::WeightGrad);
  weights("proj", z.o, z.h, arch.biases.output);
  if (arch.attentionSinks)
    block.parameters("sinks", z.heads, z.heads);
}

//===----------------------------------------------------------------------===//
// Projections
//===----------------------------------------------------------------------===//

/// Adds one GEMM for queries, keys and values, or three if unfused.
void BlockExpander::projections() {
  bool hasBias = arch.biases.queryKeyValue;
  CheckedInt queries = arch.attentionGate ? z.q + z.o : z.q;
  if (isFused) {
    linear("qkv", z.T, z.h, queries + z.k + z.v, byColumns());
    // The keys are the second of three linear layers.
    if (arch.recomputed.operations)
      productAgain("k", z.T, z.h, z.k);
  } else {
    fork("qkv_fork", z.x, 3);
    linear("q", z.T, z.h, queries, byColumns());
    linear("k", z.T, z.h, z.k, byColumns());
    linear("v", z.T, z.h, z.v, byColumns());
  }
  weights("q", z.h, queries, hasBias);
  weights("k", z.h, z.k, hasBias);
  weights("v", z.h, z.v, hasBias);
}

/// DeepSeek-V2 (arXiv 2405.04434), equations 9 to 19: both narrow vectors are
/// normalized. The positional part of the keys bypasses norm and up-projection.
void BlockExpander::latentProjections(const LatentAttention &latent) {
  bool hasBias = arch.biases.queryKeyValue;
  CheckedInt keyRank = latent.keyValueRank;
  CheckedInt down = keyRank + latent.ropeHeadSize;
  CheckedInt up =
      z.heads * (CheckedInt(latent.headSize) + latent.valueHeadSize);
  auto normed = [&](StringRef name, CheckedInt rank) {
    norm(name, arch.norm, z.T * rank, stream);
    savesStream(name, z.e * z.T * rank, LastUse::WeightGrad);
    normBefore(name, z.T * rank);
    CheckedInt count = parametersPerElement(arch.norm) * rank;
    block.parameters(name, count, count);
  };

  auto expanded = [&](StringRef name, CheckedInt rank, CheckedInt width) {
    linear(name, z.T, rank, width, byColumns());
    weights(name, rank, width, /*hasBias=*/false);
    if (arch.recomputed.upProjections)
      productAgain(name, z.T, rank, width);
  };

  fork("qkv_fork", z.x, 2, stream);
  if (latent.queryRank) {
    linear("q_down", z.T, z.h, latent.queryRank, onStream(linears));
    weights("q_down", z.h, latent.queryRank, hasBias);
    normed("q_norm", latent.queryRank);
    expanded("q_up", latent.queryRank, z.q);
  } else {
    linear("q", z.T, z.h, z.q, byColumns());
    weights("q", z.h, z.q, /*hasBias=*/false);
  }
  linear("kv_down", z.T, z.h, down, onStream(linears));
  weights("kv_down", z.h, down, hasBias);
  normed("kv_norm", keyRank);
  expanded("kv_up", keyRank, up);
  if (latent.ropeHeadSize)
    joinHeads(latent);
}

/// Rotates the positional parts (for queries in place), and concatenates both
/// parts of the keys of each head (equations 13 to 17).
void BlockExpander::joinHeads(const LatentAttention &latent) {
  CheckedInt positional = z.T * latent.ropeHeadSize;
  CheckedInt parts = z.T * z.heads * latent.headSize + positional;
  CheckedWork work{3 * (z.heads + 1) * positional,
                   z.e * (2 * z.heads * positional + parts + z.T * z.k)};
  vector("rope", work, work);
  if (arch.recomputed.upProjections)
    vector("rope_again", {}, work);
}

void BlockExpander::queryKeyNorms() {
  bool isShared = arch.queryKeyNorm == QueryKeyNorm::Head;
  int64_t headSize = arch.attentionWidth / arch.attentionHeads;
  int64_t perElement = parametersPerElement(arch.queryKeyNormForm);
  auto add = [&](StringRef name, CheckedInt width) {
    norm(name, arch.queryKeyNormForm, z.T * width);
    if (arch.recomputed.operations) {
      int64_t flops = arch.queryKeyNormForm == Norm::RMSNorm ? 4 : 9;
      vector((name + "_again").str(), {},
             {flops * z.T * width, 2 * z.e * z.T * width});
      block.leavesGradient(name, z.e * z.T * width);
    } else {
      block.saves(name, z.e * z.T * width, LastUse::WeightGrad);
    }
    CheckedInt count = perElement * (isShared ? CheckedInt(headSize) : width);
    block.parameters(name, count, count);
  };
  add("query_norm", z.q);
  add("key_norm", z.k);
}

//===----------------------------------------------------------------------===//
// Core
//===----------------------------------------------------------------------===//

void BlockExpander::unfusedCore() {
  scores("qk", z.q, z.coreK, /*isForward=*/true);
  scores("qk_dq", z.q, z.coreK, /*isForward=*/false);
  scores("qk_dk", z.q, z.coreK, /*isForward=*/false);
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
  scores("av", z.o, z.coreV, /*isForward=*/true);
  scores("av_dp", z.o, z.coreV, /*isForward=*/false);
  scores("av_dv", z.o, z.coreV, /*isForward=*/false);
}

/// Copies keys and values to the query heads that share them; the backward sums
/// the gradients of the copies.
void BlockExpander::repeatKeyValues() {
  CheckedInt copies = z.coreK + z.coreV;
  CheckedInt bytes = z.e * z.T * (z.k + z.v + copies);
  vector("repeat_kv", {0, bytes}, {z.T * copies, bytes});
  if (arch.recomputed.operations)
    vector("repeat_kv_again", {}, {0, bytes});
}

/// One kernel reads q, k, v and writes o and a statistic per row and head. The
/// backward recomputes the scores: three of its five GEMMs are between queries
/// and keys, two involve values.
void BlockExpander::fusedCore() {
  CheckedInt query = 2 * z.T * z.seen * z.q, value = 2 * z.T * z.seen * z.o;
  CheckedInt moved = z.T * (z.q + z.coreK + z.coreV + z.o);
  CheckedInt statistics = kStatisticBytes * z.heads * z.T;
  CheckedInt read = z.e * moved + statistics;
  CheckedInt moreRead = 2 * z.e * moved + statistics;
  std::optional<FlashKernel> kernel = flashKernelOf(arch.attention);
  if (!kernel) {
    block.kernel("attention", Engine::Matrix, {query + value, read},
                 {3 * query + 2 * value, moreRead}, {}, Part::Core);
    return;
  }
  // The i-th of s tokens attends to min(i, w) tokens, w (2 s - w + 1) / 2 in
  // all.
  CheckedInt pairsTwice = z.b * z.seen * (2 * z.s - z.seen + 1);
  CheckedInt seenQuery = pairsTwice * z.q, seenValue = pairsTwice * z.o;
  CheckedInt masked = query + value - seenQuery - seenValue;
  block.attention(
      "attention", {*kernel, headSizeOf(arch), arch.sequence, masked.get()},
      {seenQuery + seenValue, read}, {3 * seenQuery + 2 * seenValue, moreRead});
}

/// Multiplies the output by the sigmoid of its gate (Qwen3-Next; arXiv
/// 2505.06708, position G1). The sigmoid takes four FLOPs, its gradient two
/// more. The core and the gate read the output in their backward.
void BlockExpander::gateOutput() {
  CheckedInt elements = z.T * z.o, bytes = z.e * elements;
  vector("attention_gate", {5 * elements, 3 * bytes},
         {9 * elements, 5 * bytes});
  block.saves("attention gate", bytes, LastUse::InputGrad);
  block.saves("attention output", bytes, LastUse::InputGrad);
}

void BlockExpander::coreTensors() {
  bool isExpandedAgain = arch.recomputed.upProjections;
  if (arch.recomputed.operations) {
    block.saves("q, v", z.e * z.T * (z.q + z.v), LastUse::InputGrad);
  } else {
    if (!isExpandedAgain || !arch.latent->queryRank)
      block.saves("q", z.e * z.T * z.q, LastUse::InputGrad);
    if (!isExpandedAgain)
      block.saves("k, v", z.e * z.T * (z.coreK + z.coreV), LastUse::InputGrad);
  }
  auto savesCore = [&](StringRef name, CheckedInt bytes) {
    block.saves(name, bytes, LastUse::InputGrad, Part::Core);
  };
  if (isFused) {
    savesCore("softmax statistics", kStatisticBytes * z.heads * z.T);
    return;
  }
  savesCore("softmax", z.e * z.n);
  if (!arch.dropout)
    return;
  savesCore("attention dropout mask", z.n);
  savesCore("attention dropout", z.e * z.n);
}

/// Bytes of the index of an expert or of a row.
static constexpr int64_t kIndexBytes = 4;
/// Kernels of the router that remain after fusion: Megatron-LM,
/// docs/discussions/deepseek-v3-gb200-optimization, section 2.1.4.
static constexpr int64_t kRouterLaunches = 31;
/// Kernels that add the bias of an expert.
static constexpr int64_t kBiasLaunches = 3;

namespace {
/// An activation as kernels: the names of its function and of the kernel that
/// fuses the function with its gate.
struct ActivationKernel {
  StringRef function, gated;
  PerElement flops; ///< of the function
};
} // namespace

static ActivationKernel kernelOf(Activation activation) {
  switch (activation) {
  case Activation::Gelu:
  case Activation::GeGLU:
    return {"gelu", "geglu", {8, 13, 0}};
  case Activation::Relu:
  case Activation::ReGLU:
    return {"relu", "reglu", {1, 1, 0}};
  case Activation::SquaredRelu:
    return {"relu2", "", {2, 3, 0}};
  case Activation::Silu:
  case Activation::SwiGLU:
    return {"silu", "swiglu", {5, 9, 0}};
  }
  llvm_unreachable("all activations are handled");
}

//===----------------------------------------------------------------------===//
// MLP
//===----------------------------------------------------------------------===//

void BlockExpander::denseMlp() {
  block.again(arch.recomputed.mlps);
  mlp({"", z.T, z.f, 1, /*isWeighted=*/false});
  block.again(false);
  mlpWeights("mlp", z.f, arch.biases.mlp);
}

void BlockExpander::mlp(const Mlp &mlp) {
  fusesActivations ? fusedActivation(mlp) : unfusedActivation(mlp);
  linear(mlp.prefix + "mlp2", mlp.rows, mlp.width, z.h,
         mlp.isWeighted ? byRowsOfExperts() : byRows(), mlp.copies);
  mlpTensors(mlp);
}

void BlockExpander::unfusedActivation(const Mlp &mlp) {
  ActivationKernel kernel = kernelOf(arch.activation);
  CheckedInt y = mlp.rows * mlp.width, bytes = z.e * y;
  CheckedWork forward = {kernel.flops.forward * y, 2 * bytes};
  CheckedInt gradFlops = kernel.flops.inputGrad * y;
  runsAgain(mlp, forward);
  if (!isGated(arch.activation)) {
    linear(mlp.prefix + "mlp1", mlp.rows, z.h, mlp.width, byColumns(),
           mlp.copies);
    vector(mlp.prefix + kernel.function.str(), forward, {gradFlops, 2 * bytes});
    return;
  }
  fork(mlp.prefix + "gate_fork", mlp.rows * z.h, 2);
  linear(mlp.prefix + "mlp_gate", mlp.rows, z.h, mlp.width, byColumns(),
         mlp.copies);
  linear(mlp.prefix + "mlp1", mlp.rows, z.h, mlp.width, byColumns(),
         mlp.copies);
  vector(mlp.prefix + kernel.function.str(), forward, {gradFlops, 3 * bytes});
  vector(mlp.prefix + "gate_mul", {y, 3 * bytes}, {2 * y, 5 * bytes});
  runsAgain(mlp, {y, 3 * bytes});
}

/// The backward recomputes the input of the second matrix.
void BlockExpander::runsAgain(const Mlp &mlp, CheckedWork forward) {
  if (arch.recomputed.ofActivations())
    vector(mlp.prefix + "activation_again", {}, forward);
}

/// One GEMM computes gate and value. Their product takes one FLOP per element,
/// its gradients take two, and recomputing the function's result takes one
/// more. Scaling by the row's weight takes one FLOP in the forward and three in
/// the backward.
void BlockExpander::fusedActivation(const Mlp &mlp) {
  ActivationKernel kernel = kernelOf(arch.activation);
  CheckedInt y = mlp.rows * mlp.width, bytes = z.e * y;
  bool hasGate = isGated(arch.activation);
  int64_t forward = kernel.flops.forward + (hasGate ? 1 : 0);
  int64_t inputGrad = kernel.flops.inputGrad + (hasGate ? 3 : 0);
  CheckedInt weights = 0;
  if (mlp.isWeighted) {
    forward += 1;
    inputGrad += 3;
    weights = z.e * mlp.rows;
  }
  linear(mlp.prefix + "mlp1", mlp.rows, z.h, (hasGate ? 2 : 1) * mlp.width,
         byColumns(), mlp.copies);
  // Every second linear layer is recomputed. The fourth one comes right after
  // the attention, so the first matrix here is kept, and the second one of a
  // gate is not.
  if (arch.recomputed.operations && hasGate)
    productAgain(mlp.prefix + "mlp1", mlp.rows, z.h, mlp.width);
  StringRef name = hasGate ? kernel.gated : kernel.function;
  CheckedWork work{forward * y, (hasGate ? 3 : 2) * bytes + weights};
  vector(mlp.prefix + name.str(), work,
         {inputGrad * y, (hasGate ? 5 : 3) * bytes + 2 * weights});
  runsAgain(mlp, work);
}

void BlockExpander::mlpTensors(const Mlp &mlp) {
  CheckedInt y = mlp.rows * mlp.width;
  CheckedInt result = keptBytes(y, saved.linearInputs);
  CheckedInt input = keptBytes(y, saved.activationInputs);
  bool isGone = arch.recomputed.ofActivations();
  isGone ? block.leavesGradient("mlp2 input", result)
         : block.saves("mlp2 input", result, LastUse::WeightGrad);
  if (arch.recomputed.operations) {
    block.saves("activation input", input, LastUse::InputGrad);
    // The result of the seventh linear layer is kept although nothing needs it.
    if (isGated(arch.activation))
      block.saves("mlp output", z.e * mlp.rows * z.h, LastUse::InputGrad,
                  Part::Rest, mlp.isWeighted ? Share::Rows : Share::Divided);
    return;
  }
  block.saves("activation input", input, LastUse::InputGrad);
  if (!isGated(arch.activation))
    return;
  block.saves("gated value", input, LastUse::InputGrad);
  if (!fusesActivations && !isGone)
    block.saves("activation", z.e * y, LastUse::InputGrad);
}

void BlockExpander::mlpWeights(StringRef name, CheckedInt width, bool hasBias,
                               CheckedInt count, CheckedInt active) {
  CheckedInt up = isGated(arch.activation) ? 2 * width : width;
  weights(name, z.h, up, hasBias, count, active);
  weights(name, width, z.h, hasBias, count, active);
}

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

/// Grouped GEMMs, as in MegaBlocks (arXiv 2211.15841): they read every row
/// once, and the weights of each expert that has a row.
void BlockExpander::experts(const Experts &experts) {
  bool hasShared = experts.sharedFeedforward > 0;
  CheckedInt rows = z.T * experts.perToken;
  CheckedInt touched = std::min<int64_t>(experts.count, rows.get());
  fork("expert_fork", z.x,
       2 + (hasShared ? 1 : 0) + (experts.sharedGate ? 1 : 0), stream);
  ExpertFacts facts;
  facts.count = experts.count;
  facts.perToken = experts.perToken;
  facts.rows = rows.get();
  facts.groups = experts.groups;
  facts.groupsPerToken = experts.groupsPerToken;
  block.experts(facts);
  block.again(arch.recomputed.experts);
  routing(experts, rows);
  exchangeRows("dispatch_exchange", rows, experts.dispatchBits, 0);
  block.route(true);
  sortRows("sort_rows", rows);
  block.saves("expert input", keptBytes(rows * z.h, saved.linearInputs),
              LastUse::WeightGrad, Part::Rest, Share::Rows);
  mlp({"expert_", rows, experts.feedforward, touched, /*isWeighted=*/true});
  expertBias(experts, rows, touched);
  mlpWeights("experts", experts.feedforward, experts.biases, experts.count,
             experts.perToken);
  sortRows("unsort_rows", rows);
  block.route(false);
  exchangeRows("combine_exchange", rows, 0, experts.dispatchBits);
  combine(experts, rows);
  if (hasShared)
    sharedExperts(experts);
  block.again(false);
}

/// Computes the scores of all experts, chooses a few of them, and copies each
/// token for each chosen expert.
void BlockExpander::routing(const Experts &experts, CheckedInt rows) {
  CheckedInt scores = z.T * experts.count, copies = rows * z.h;
  linear("router", z.T, z.h, experts.count, onStream(Engine::Matrix));
  weights("router", z.h, experts.count, experts.routerBias);
  vector("route", {5 * scores, 2 * z.e * scores + (z.e + kIndexBytes) * rows},
         {4 * scores, z.e * (2 * scores + rows)}, Part::Rest, stream);
  block.ofLast([](Kernel &kernel) {
    kernel.launches = kRouterLaunches;
    kernel.synchronizes = true;
  });
  vector("dispatch", {0, 2 * z.e * copies}, {copies, z.e * (copies + z.x)});
  savesStream("routing", z.e * scores + (z.e + kIndexBytes) * rows,
              LastUse::InputGrad);
}

/// Sorts rows from several ranks by their experts, and sorts them back before
/// they return.
void BlockExpander::sortRows(StringRef name, CheckedInt rows) {
  CheckedWork moved = {0, 2 * z.e * rows * z.h};
  vector(name, moved, moved);
  block.ofLast([](Kernel &kernel) { kernel.exchanged = true; });
}

/// Adds the bias of each expert's second matrix, times the weight of the row,
/// in FP32, as Megatron-Core does (`_apply_bias` of its grouped MLP): the
/// product of bias and weight, the sum, the concatenation of all experts and a
/// cast. The backward casts back, casts the gradient of the rows, and sums the
/// gradients of the weights and of the biases, each from a product.
void BlockExpander::expertBias(const Experts &experts, CheckedInt rows,
                               CheckedInt touched) {
  if (!experts.biases || !fusesActivations)
    return;
  CheckedInt y = rows * z.h, whole = kFloatBytes * y,
             bias = z.e * touched * z.h;
  CheckedInt row = z.e * y;
  block.kernel("expert_bias", Engine::Vector,
               {2 * y, 2 * row + 6 * whole + bias},
               {4 * y, 2 * row + 8 * whole + bias}, {}, Part::Rest,
               Share::Divided, bias);
  block.ofLast([](Kernel &kernel) { kernel.launches = kBiasLaunches; });
}

/// Sums the results of each token. Unfused, it also multiplies them by their
/// weights, and keeps them for the gradient of the weights.
void BlockExpander::combine(const Experts &experts, CheckedInt rows) {
  CheckedInt copies = rows * z.h;
  if (fusesActivations) {
    CheckedInt moved = z.e * (copies + z.x);
    vector("combine", {copies, moved}, {0, moved});
    return;
  }
  vector("combine", {2 * copies, z.e * (copies + z.x + rows)},
         {3 * copies, z.e * (2 * copies + z.x + 2 * rows)});
  block.saves("expert output", z.e * copies, LastUse::InputGrad);
}

void BlockExpander::sharedExperts(const Experts &experts) {
  mlp({"shared_", z.T, experts.sharedFeedforward, 1, /*isWeighted=*/false});
  mlpWeights("shared", experts.sharedFeedforward, experts.biases);
  if (experts.sharedGate) {
    linear("shared_gate", z.T, z.h, 1, onStream(Engine::Matrix));
    weights("shared_gate", z.h, 1, /*hasBias=*/false);
    vector("shared_scale", {z.x, z.e * (2 * z.x + z.T)},
           {3 * z.x, z.e * (3 * z.x + 2 * z.T)});
    block.saves("shared output", z.e * (z.x + z.T), LastUse::InputGrad);
  }
  vector("shared_add", {z.x, 3 * z.e * z.x}, {});
}
