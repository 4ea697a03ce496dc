//===- AttentionKernels.cpp - Attention, plain and latent -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From the normalized input of a layer to the output projection, with the
// tensors that are kept. docs/CostModel.md has the tables.
//
//===----------------------------------------------------------------------===//

#include "BlockExpander.h"

using namespace pipesched;
using llvm::StringRef;

/// Bytes of a softmax statistic, one per row and head (arXiv 2307.08691).
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

/// One GEMM for queries, keys and values, or one for each if unfused.
void BlockExpander::projections() {
  bool hasBias = arch.biases.queryKeyValue;
  CheckedInt queries = arch.attentionGate ? z.q + z.o : z.q;
  if (isFused) {
    linear("qkv", z.T, z.h, queries + z.k + z.v, byColumns());
    // Of queries, keys and values those in the middle are every second.
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
/// normalized; the positional part of the keys bypasses norm and up-projection.
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

/// Rotates the positional parts, of queries in place, and copies both parts of
/// the keys of each head side by side (equations 13 to 17).
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
/// backward computes the scores again: three of its five GEMMs go over queries
/// and keys, two over values.
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
  // The i-th of s tokens sees min(i, w) ones, w (2 s - w + 1) / 2 in all.
  CheckedInt pairsTwice = z.b * z.seen * (2 * z.s - z.seen + 1);
  CheckedInt seenQuery = pairsTwice * z.q, seenValue = pairsTwice * z.o;
  CheckedInt masked = query + value - seenQuery - seenValue;
  block.attention(
      "attention", {*kernel, headSizeOf(arch), arch.sequence, masked.get()},
      {seenQuery + seenValue, read}, {3 * seenQuery + 2 * seenValue, moreRead});
}

/// The output times the sigmoid of its gate (Qwen3-Next; arXiv 2505.06708,
/// position G1): the sigmoid costs four FLOPs, its gradient two more. The core
/// and the gate read the output in their backward.
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
