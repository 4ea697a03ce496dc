//===- TransformerWorkTest.cpp - A layer against the closed formula -------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The contractions that are counted in a layer of linalg ops are those that the
// cost model expands for a layer of the same sizes.
//
//===----------------------------------------------------------------------===//

#include "CountFunctions.h"
#include "PipeSched/CostModel/Kernels/TransformerBlock.h"

using namespace mlir;
using namespace pipesched;

namespace {
struct LayerSizes {
  int64_t batch, sequence, heads, headSize, feedforward;

  int64_t hidden() const { return heads * headSize; }
  int64_t tokens() const { return batch * sequence; }
};

using TransformerWorkTest = CountFunctions;
} // namespace

/// All products of a layer; tokens [T, h], heads [b, s, a, d].
static std::string printLayer(const LayerSizes &sizes) {
  std::string text = R"(
    !x = tensor<TxHxbf16>
    !w = tensor<HxHxbf16>
    !up = tensor<HxFxbf16>
    !down = tensor<FxHxbf16>
    !wide = tensor<TxFxbf16>
    !heads = tensor<BxSxAxDxbf16>
    !scores = tensor<BxAxSxSxbf16>
    #left = affine_map<(b, a, i, j, d) -> (b, i, a, d)>
    #right = affine_map<(b, a, i, j, d) -> (b, j, a, d)>
    #pair = affine_map<(b, a, i, j, d) -> (b, a, i, j)>
    func.func @layer(%x: !x, %wq: !w, %wk: !w, %wv: !w, %wo: !w, %wu: !up,
                     %wd: !down) -> !x {
      %ex = tensor.empty() : !x
      %ew = tensor.empty() : !wide
      %eh = tensor.empty() : !heads
      %es = tensor.empty() : !scores
      %q = linalg.matmul ins(%x, %wq : !x, !w) outs(%ex : !x) -> !x
      %k = linalg.matmul ins(%x, %wk : !x, !w) outs(%ex : !x) -> !x
      %v = linalg.matmul ins(%x, %wv : !x, !w) outs(%ex : !x) -> !x
      %qh = tensor.expand_shape %q [[0, 1], [2, 3]] output_shape [B, S, A, D]
          : !x into !heads
      %kh = tensor.expand_shape %k [[0, 1], [2, 3]] output_shape [B, S, A, D]
          : !x into !heads
      %vh = tensor.expand_shape %v [[0, 1], [2, 3]] output_shape [B, S, A, D]
          : !x into !heads
      %s = linalg.generic {indexing_maps = [#left, #right, #pair],
          iterator_types = ["parallel", "parallel", "parallel", "parallel",
                            "reduction"]}
          ins(%qh, %kh : !heads, !heads) outs(%es : !scores) {
      ^bb0(%a: bf16, %b: bf16, %c: bf16):
        %0 = arith.mulf %a, %b : bf16
        %1 = arith.addf %c, %0 : bf16
        linalg.yield %1 : bf16
      } -> !scores
      %o = linalg.generic {indexing_maps = [#pair, #right, #left],
          iterator_types = ["parallel", "parallel", "parallel", "reduction",
                            "parallel"]}
          ins(%s, %vh : !scores, !heads) outs(%eh : !heads) {
      ^bb0(%a: bf16, %b: bf16, %c: bf16):
        %0 = arith.mulf %a, %b : bf16
        %1 = arith.addf %c, %0 : bf16
        linalg.yield %1 : bf16
      } -> !heads
      %oh = tensor.collapse_shape %o [[0, 1], [2, 3]] : !heads into !x
      %p = linalg.matmul ins(%oh, %wo : !x, !w) outs(%ex : !x) -> !x
      %u = linalg.matmul ins(%p, %wu : !x, !up) outs(%ew : !wide) -> !wide
      %y = linalg.matmul ins(%u, %wd : !wide, !down) outs(%ex : !x) -> !x
      return %y : !x
    })";
  const std::pair<char, int64_t> names[] = {
      {'T', sizes.tokens()}, {'H', sizes.hidden()}, {'F', sizes.feedforward},
      {'B', sizes.batch},    {'S', sizes.sequence}, {'A', sizes.heads},
      {'D', sizes.headSize}};
  for (auto [name, size] : names) // capitals are sizes only
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, 1, std::to_string(size));
  return text;
}

/// FLOPs of the forward's products in a layer of the cost model.
static int64_t expandedFlops(const LayerSizes &sizes) {
  Architecture arch;
  arch.name = "layer";
  arch.hidden = arch.attentionWidth = sizes.hidden();
  arch.feedforward = sizes.feedforward;
  arch.sequence = sizes.sequence;
  arch.layers = 1;
  arch.attentionHeads = arch.keyValueHeads = sizes.heads;
  arch.attention = Attention::Unfused;
  ExpansionOptions options;
  options.microbatchSize = sizes.batch;
  ModelFacts model = llvm::cantFail(expandArchitecture(arch, options));
  int64_t flops = 0;
  for (const BlockFacts &block : model.blocks)
    for (const Kernel &kernel : block.kernels)
      if (kernel.engine == Engine::Matrix)
        flops += kernel.forward.flops;
  return flops;
}

TEST_F(TransformerWorkTest, ContractionsAreThoseOfTheFormula) {
  for (LayerSizes sizes :
       {LayerSizes{2, 8, 4, 16, 256}, LayerSizes{1, 32, 2, 8, 24},
        LayerSizes{3, 5, 7, 2, 11}}) {
    FailureOr<FunctionWork> work = count(printLayer(sizes));
    ASSERT_TRUE(succeeded(work)) << errors;
    EXPECT_EQ(work->contractionFlops, expandedFlops(sizes));
    int64_t tokens = sizes.tokens(), hidden = sizes.hidden();
    EXPECT_EQ(work->contractionFlops,
              8 * tokens * hidden * hidden +
                  4 * tokens * sizes.sequence * hidden +
                  4 * tokens * hidden * sizes.feedforward);
    EXPECT_EQ(work->vectorFlops, 0);
  }
}
