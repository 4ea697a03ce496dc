//===- FeedforwardKernels.cpp - MLP and mixture of experts ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The second half of a layer, gated or not, over all tokens or over those that
// a router sends. docs/CostModel.md has the tables.
//
//===----------------------------------------------------------------------===//

#include "BlockExpander.h"

using namespace pipesched;
using llvm::StringRef;

/// Bytes of the index of an expert or of a row.
static constexpr int64_t kIndexBytes = 4;
/// Kernels that choose the experts of tokens, once fused: Megatron-LM,
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
  isFused ? fusedActivation(mlp) : unfusedActivation(mlp);
  linear(mlp.prefix + "mlp2", mlp.rows, mlp.width, z.h, byRows(), mlp.copies);
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

/// The backward computes the input of the second matrix again.
void BlockExpander::runsAgain(const Mlp &mlp, CheckedWork forward) {
  if (arch.recomputed.ofActivations())
    vector(mlp.prefix + "activation_again", {}, forward);
}

/// One GEMM computes gate and value. Their product costs one FLOP per element;
/// its gradients cost two, and recomputing the function's result one more.
/// Scaling by the row's weight costs one FLOP as well, and three in the
/// backward.
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
  // The fourth linear layer is that behind the attention, so that the first
  // matrix here is kept, and the second of a gate is not.
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
    // The result of the seventh linear layer is kept though nothing needs it.
    if (isGated(arch.activation))
      block.saves("mlp output", z.e * mlp.rows * z.h, LastUse::InputGrad);
    return;
  }
  block.saves("activation input", input, LastUse::InputGrad);
  if (!isGated(arch.activation))
    return;
  block.saves("gated value", input, LastUse::InputGrad);
  if (!isFused && !isGone)
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
              LastUse::WeightGrad);
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

/// Computes the scores of all experts, chooses a few, and copies each token for
/// each of them.
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

/// Rows that came from several ranks are put in the order of their experts, and
/// back before they return.
void BlockExpander::sortRows(StringRef name, CheckedInt rows) {
  CheckedWork moved = {0, 2 * z.e * rows * z.h};
  vector(name, moved, moved);
  block.ofLast([](Kernel &kernel) { kernel.exchanged = true; });
}

/// Megatron-Core adds the bias of each expert's second matrix, times the weight
/// of the row, in FP32 (`_apply_bias` of its grouped MLP): the product of bias
/// and weight, the sum, the concatenation of all experts and a cast. The
/// backward casts back, casts the gradient of the rows, and sums those of the
/// weights and of the biases from a product each.
void BlockExpander::expertBias(const Experts &experts, CheckedInt rows,
                               CheckedInt touched) {
  if (!experts.biases || !isFused)
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

/// Sums the results of each token. Unfused, it also weighs them, and keeps them
/// for the gradient of the weights.
void BlockExpander::combine(const Experts &experts, CheckedInt rows) {
  CheckedInt copies = rows * z.h;
  if (isFused) {
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
