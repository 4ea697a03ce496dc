//===- TransformerBlock.h - Op-level facts of transformer models -*- C++
//-*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Expands an architecture to kernels with FLOPs and bytes: the Megatron block
// of arXiv 2605.24006 (unfused) and a FlashAttention-style fused variant
// (2205.14135).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_TRANSFORMERBLOCK_H
#define PIPESCHED_ANALYSIS_TRANSFORMERBLOCK_H

#include "PipeSched/Analysis/Facts.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace pipesched {

enum class Attention : uint8_t { Unfused, Fused };
enum class Activation : uint8_t { Gelu, SwiGLU };
enum class Norm : uint8_t { LayerNorm, RMSNorm };

/// The facts of a model file (models/*.json). Sizes in elements.
struct Architecture {
  std::string name, source;
  int64_t hidden = 0, feedforward = 0, sequence = 0;
  int64_t layers = 0;
  int64_t attentionHeads = 0;
  int64_t keyValueHeads = 0; ///< attentionHeads unless grouped-query attention
  /// Of all query heads together; need not be hidden, nor a multiple of the
  /// heads (the paper's 80 heads share 4096).
  int64_t attentionWidth = 0;
  Activation activation =
      Activation::Gelu; ///< SwiGLU: gated MLP, three matrices
  Norm norm = Norm::LayerNorm;
  Attention attention = Attention::Fused;
  bool dropout = false;
  bool biases = false;
  int64_t vocabulary = 0; ///< 0: neither embedding nor head is modelled
  bool learnedPositions =
      false; ///< a table of sequence x hidden; needs vocabulary
  int64_t bytesPerElement = 2;
  int64_t weightBytesPerParameter = 2, gradientBytesPerParameter = 2,
          optimizerBytesPerParameter = 12;
  int64_t globalBatch =
      0; ///< sequences per step of the reference setup; 0: none
};

struct ExpansionOptions {
  int64_t microbatchSize = 1;
  Recompute recompute = Recompute::None;
  /// Bytes of a message between stages where they are not the activation's.
  std::optional<int64_t> boundaryBytes;
};

/// One layer block, and embedding and head where there is a vocabulary. Every
/// block names the all-reduces of tensor parallelism (Engine::Link); how many
/// accelerators take part, if any, is the system's matter.
///
/// Errors: sizes that are zero, negative, do not divide, or whose products
/// overflow int64, each naming the field or the kernel.
llvm::Expected<ModelFacts> expandArchitecture(const Architecture &architecture,
                                              const ExpansionOptions &options);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_TRANSFORMERBLOCK_H
