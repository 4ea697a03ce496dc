//===- LinearKernels.cpp - Recurrences in place of attention --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the training kernels of layers that keep a state, chunk by chunk, from
// the normalized input of a layer to its output projection. docs/CostModel.md
// has the tables and their sources.
//
//===----------------------------------------------------------------------===//

#include "BlockExpander.h"

using namespace pipesched;
using llvm::StringRef;

namespace {
/// The chunks into which kernels cut the sequences of a microbatch.
struct Chunks {
  Chunks(const LinearAttention &linear, const Architecture &arch,
         CheckedInt sequences)
      : size(std::min(linear.chunk, arch.sequence)),
        count(sequences * ((arch.sequence - 1) / linear.chunk + 1)) {}

  CheckedInt size;  ///< tokens of one chunk
  CheckedInt count; ///< number of chunks in all sequences
};
} // namespace

//===----------------------------------------------------------------------===//
// Parts that several recurrences share
//===----------------------------------------------------------------------===//

void BlockExpander::recurrence(const LinearAttention &linear) {
  switch (linear.recurrence) {
  case Recurrence::GatedDelta:
    return gatedDelta(linear);
  case Recurrence::Mamba2:
    return mamba2(linear);
  case Recurrence::Mamba:
    return mamba(linear);
  case Recurrence::Convolution:
    return shortConvolution(linear);
  }
  llvm_unreachable("all recurrences are handled");
}

void BlockExpander::product(StringRef name, CheckedWork forward, bool isAgain) {
  int64_t times = isAgain ? 3 : 2;
  block.kernel(name, Engine::Matrix, forward,
               {times * forward.flops, times * forward.bytes});
}

/// A convolution over the last tokens of each channel, followed by SiLU unless
/// the convolution is the only operation. The caller keeps its input.
void BlockExpander::convolve(const LinearAttention &linear, CheckedInt width) {
  bool hasSilu = linear.recurrence != Recurrence::Convolution;
  CheckedInt taps = linear.convolution, elements = z.T * width;
  CheckedInt bytes = z.e * elements;
  CheckedInt forward = 2 * taps + (hasSilu ? 5 : 0);
  CheckedInt inputGrad = 2 * taps + (hasSilu ? 9 : 0);
  block.kernel("convolution", Engine::Vector, {forward * elements, 2 * bytes},
               {inputGrad * elements, 3 * bytes},
               {2 * taps * elements, 2 * bytes});
  block.leavesGradient("convolution", bytes);
  CheckedInt count = (taps + (linear.convolutionBias ? 1 : 0)) * width;
  block.parameters("convolution", count, count);
}

/// Ranks that share sequences shard the heads during the recurrence, which
/// processes all tokens in order: one all-to-all before it and one after it.
void BlockExpander::exchangeHeads(CheckedInt width, CheckedInt outputs) {
  for (auto [name, count] :
       {std::pair("heads_exchange", width), {"tokens_exchange", outputs}}) {
    CheckedWork moved = {0, z.e * z.T * count};
    block.kernel(name, Engine::Context, moved, moved);
  }
}

/// RMSNorm of a product with SiLU of a gate, or of one factor of the product: 4
/// + 6 FLOPs, and 7 + 12 for the gradient, which recomputes the gated value.
void BlockExpander::gatedNorm(CheckedInt width, CheckedInt gains) {
  CheckedInt elements = z.T * width, bytes = z.e * elements;
  block.kernel("gated_norm", Engine::Vector, {10 * elements, 3 * bytes},
               {19 * elements, 5 * bytes}, {3 * elements, 2 * bytes});
  block.saves("norm input", bytes, LastUse::WeightGrad);
  block.saves("norm gate", bytes, LastUse::InputGrad);
  block.leavesGradient("gated_norm", bytes);
  block.parameters("gated_norm", gains, gains);
}

void BlockExpander::outProjection(const LinearAttention &linear) {
  CheckedInt width = linear.values();
  this->linear("out_proj", z.T, width, z.h, byRows());
  block.saves("out_proj input", keptBytes(z.T * width, saved.linearInputs),
              LastUse::WeightGrad);
  weights("out_proj", width, z.h, linear.projectionBias);
}

//===----------------------------------------------------------------------===//
// Gated DeltaNet
//===----------------------------------------------------------------------===//

/// arXiv 2412.06464, as in Qwen3-Next: queries and keys are copied to the value
/// heads that share them, and normalized without a gain.
void BlockExpander::gatedDelta(const LinearAttention &linear) {
  CheckedInt values = linear.values(), heads = linear.valueHeads;
  CheckedInt mixed = 2 * linear.keys() + values;
  CheckedInt inputs = mixed + values + 2 * heads, gates = z.T * heads;
  this->linear("in_proj", z.T, z.h, inputs, byColumns());
  weights("in_proj", z.h, inputs, linear.projectionBias);
  exchangeHeads(inputs, values);
  block.saves("convolution input", z.e * z.T * mixed, LastUse::WeightGrad);
  convolve(linear, mixed);

  // A decay and a strength for each head and token.
  vector("gates", {10 * gates, (3 * z.e + kFloatBytes) * gates},
         {15 * gates, (5 * z.e + kFloatBytes) * gates});
  block.saves("gates", (3 * z.e + kFloatBytes) * gates, LastUse::InputGrad);
  block.parameters("gates", 2 * heads, 2 * heads);

  CheckedInt copied = 2 * gates * linear.keyHeadSize, bytes = z.e * copied;
  vector("query_key_norm", {4 * copied, 2 * bytes}, {7 * copied, 3 * bytes});
  block.saves("queries, keys", bytes, LastUse::InputGrad);
  block.saves("values", z.e * z.T * values, LastUse::InputGrad);
  gatedDeltaCore(linear);
  gatedNorm(values, linear.valueHeadSize);
  outProjection(linear);
}

/// The chunks of C tokens of section 3.3, in the kernels of
/// flash-linear-attention:
///
///   scores    A = (1 + lower(K K^T))^-1        2 C dk + C^2 / 3
///   vectors   W = A K,  U = A V                2 C (dk + dv)
///   states    V' = U - W S,  S += K^T V'       4 dk dv
///   outputs   Q S + lower(Q K^T) V'            2 dk dv + 2 C (dk + dv)
///
/// The numbers are FLOPs per token and head. Only A is kept, so the backward
/// recomputes W, U, V' and the states.
void BlockExpander::gatedDeltaCore(const LinearAttention &linear) {
  Chunks chunks(linear, arch, z.b);
  CheckedInt rows = z.T * linear.valueHeads, chunk = chunks.size;
  CheckedInt key = linear.keyHeadSize, value = linear.valueHeadSize;
  CheckedInt square = chunk * chunk;
  CheckedInt inverse = square.isValid() ? CheckedInt(square.get() / 3) : square;
  CheckedInt states = chunks.count * linear.valueHeads * key * value;
  product("delta_scores",
          {rows * (2 * chunk * key + inverse), z.e * rows * (key + chunk)},
          /*isAgain=*/false);
  product("delta_vectors",
          {2 * rows * chunk * (key + value),
           z.e * rows * (2 * (key + value) + chunk)},
          /*isAgain=*/true);
  product("delta_states",
          {4 * rows * key * value, z.e * (rows * 2 * (key + value) + states)},
          /*isAgain=*/true);
  product("delta_outputs",
          {2 * rows * (key * value + chunk * (key + value)),
           z.e * (rows * 2 * (key + value) + states)},
          /*isAgain=*/false);
  block.saves("chunk inverses", z.e * rows * chunk, LastUse::InputGrad);
}

//===----------------------------------------------------------------------===//
// Mamba-2
//===----------------------------------------------------------------------===//

/// arXiv 2405.21060, section 7 and its kernels: the output of the convolution
/// is recomputed instead of kept.
void BlockExpander::mamba2(const LinearAttention &linear) {
  CheckedInt inner = linear.values(), heads = linear.valueHeads;
  CheckedInt mixed = inner + 2 * linear.keys();
  CheckedInt inputs = inner + mixed + heads, steps = z.T * heads;
  this->linear("in_proj", z.T, z.h, inputs, byColumns());
  weights("in_proj", z.h, inputs, linear.projectionBias);
  exchangeHeads(inputs, inner);
  block.saves("convolution input", z.e * z.T * mixed, LastUse::WeightGrad);
  convolve(linear, mixed);
  CheckedInt elements = z.T * mixed;
  vector("convolution_again", {},
         {(2 * CheckedInt(linear.convolution) + 5) * elements,
          2 * z.e * elements});

  vector("step_sizes", {8 * steps, (z.e + 2 * kFloatBytes) * steps},
         {20 * steps, 2 * (z.e + 2 * kFloatBytes) * steps});
  block.saves("step sizes", z.e * steps, LastUse::InputGrad);
  // A, D and the bias of step sizes.
  block.parameters("step_sizes", 3 * heads, 3 * heads);
  mamba2Core(linear);
  gatedNorm(inner, inner);
  outProjection(linear);
}

/// Section 6, for chunks of Q tokens. A head has P elements with a state of N
/// elements each, and groups of heads share B and C. FLOPs per token:
///
///   scores    C B^T                  2 Q N of a group
///   states    B^T X                  2 N P of a head
///   pass      from chunk to chunk    2 N P / Q of a head, on vector units
///   outputs   scores X + C states    2 Q P + 2 N P of a head
///
/// Scores and states have 4 bytes per element; the backward recomputes both.
void BlockExpander::mamba2Core(const LinearAttention &linear) {
  Chunks chunks(linear, arch, z.b);
  CheckedInt chunk = chunks.size, keys = linear.keys();
  CheckedInt inner = linear.values();
  CheckedInt states = chunks.count * inner * linear.keyHeadSize;
  CheckedInt scores = kFloatBytes * z.T * chunk * linear.keyHeads;
  CheckedInt stateFlops = 2 * z.T * inner * linear.keyHeadSize;
  product("ssd_scores", {2 * z.T * chunk * keys, 2 * z.e * z.T * keys + scores},
          /*isAgain=*/true);
  product("ssd_states",
          {stateFlops, z.e * z.T * (inner + keys) + kFloatBytes * states},
          /*isAgain=*/true);
  vector("ssd_pass", {2 * states, 2 * kFloatBytes * states},
         {6 * states, 6 * kFloatBytes * states});
  product("ssd_outputs",
          {2 * z.T * chunk * inner + stateFlops,
           z.e * z.T * (2 * inner + keys) + scores + kFloatBytes * states},
          /*isAgain=*/false);
}

//===----------------------------------------------------------------------===//
// Mamba
//===----------------------------------------------------------------------===//

/// arXiv 2312.00752, section 3.4. A product computes step sizes, B and C from
/// the output of the convolution. Its rows are sharded over accelerators, so it
/// leaves partial sums.
void BlockExpander::mamba(const LinearAttention &linear) {
  CheckedInt inner = linear.values(), rank = linear.timeRank;
  CheckedInt narrow = rank + 2 * CheckedInt(linear.keyHeadSize);
  CheckedInt bytes = z.e * z.T * inner, narrowBytes = z.e * z.T * narrow;
  this->linear("in_proj", z.T, z.h, 2 * inner, byColumns());
  weights("in_proj", z.h, 2 * inner, linear.projectionBias);
  exchangeHeads(2 * inner, inner);
  block.saves("convolution input", bytes, LastUse::WeightGrad);
  convolve(linear, inner);

  this->linear("x_proj", z.T, inner, narrow,
               {linears, Share::Divided, Share::Whole});
  block.saves("x_proj input", bytes, LastUse::WeightGrad);
  weights("x_proj", inner, narrow, /*hasBias=*/false);
  block.kernel("x_reduce", Engine::Link, {0, narrowBytes}, {0, narrowBytes});
  if (linear.innerNorms) {
    norm("inner_norm", arch.norm, z.T * narrow, Share::Whole);
    block.saves("inner_norm input", narrowBytes, LastUse::WeightGrad,
                Part::Rest, Share::Whole);
    CheckedInt gains = parametersPerElement(arch.norm) * narrow;
    block.parameters("inner_norm", gains, gains);
  }
  this->linear("dt_proj", z.T, rank, inner, byColumns());
  block.saves("dt_proj input, B, C", narrowBytes, LastUse::WeightGrad,
              Part::Rest, Share::Whole);
  weights("dt_proj", rank, inner, /*hasBias=*/true);
  selectiveScan(linear);
  outProjection(linear);
}

/// One kernel on vector units, which keeps its states on chip. Each of N
/// elements of a state takes an exponential, three products and a sum for the
/// state, and two operations for the output: 9 FLOPs with the step size. SiLU
/// of the gate follows. The backward recomputes the states.
void BlockExpander::selectiveScan(const LinearAttention &linear) {
  CheckedInt inner = linear.values(), state = linear.keyHeadSize;
  CheckedInt elements = z.T * inner, bytes = z.e * elements;
  CheckedInt shared = 2 * z.e * z.T * state;
  CheckedInt flops = elements * (9 * state + 8);
  vector("selective_scan", {flops, 4 * bytes + shared},
         {3 * flops, 8 * bytes + 2 * shared});
  block.saves("step sizes", bytes, LastUse::InputGrad);
  block.saves("scan gate", bytes, LastUse::InputGrad);
  // A and D.
  CheckedInt count = inner * (state + 1);
  block.parameters("selective_scan", count, count);
}

//===----------------------------------------------------------------------===//
// Short convolutions
//===----------------------------------------------------------------------===//

/// LFM2 (arXiv 2511.23404, section 2): the convolution reads the product of two
/// of three parts, and the third part multiplies its result.
void BlockExpander::shortConvolution(const LinearAttention &linear) {
  CheckedInt width = linear.values(), elements = z.T * width;
  CheckedInt bytes = z.e * elements;
  CheckedWork forward = {elements, 3 * bytes};
  CheckedWork inputGrad = {2 * elements, 5 * bytes};
  this->linear("in_proj", z.T, z.h, 3 * width, byColumns());
  weights("in_proj", z.h, 3 * width, linear.projectionBias);
  exchangeHeads(3 * width, width);
  block.saves("gates, input", 3 * bytes, LastUse::InputGrad);
  vector("gate_in", forward, inputGrad);
  block.saves("convolution input", bytes, LastUse::WeightGrad);
  convolve(linear, width);
  block.saves("convolution output", bytes, LastUse::InputGrad);
  vector("gate_out", forward, inputGrad);
  outProjection(linear);
}
