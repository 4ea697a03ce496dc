//===- TransformerBlock.h - Op-level facts of transformers ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expands an architecture to kernels with FLOPs and bytes: the Megatron block
// of arXiv 2605.24006 (unfused), a FlashAttention-style fused variant
// (2205.14135), latent attention and mixtures of experts.
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_KERNELS_TRANSFORMERBLOCK_H
#define PIPESCHED_COSTMODEL_KERNELS_TRANSFORMERBLOCK_H

#include "PipeSched/CostModel/Kernels/Architecture.h"
#include "PipeSched/Facts/Facts.h"

namespace pipesched {

struct ExpansionOptions {
  int64_t microbatchSize = 1;
  Recompute recompute = Recompute::None;
  /// Bytes of a message between stages, if they differ from the size of the
  /// activation.
  std::optional<int64_t> boundaryBytes;
  Precision precision = Precision::BF16;
  /// Whether the residual stream is sharded along the sequence over the
  /// accelerators of a worker (arXiv 2205.05198). Otherwise each accelerator
  /// normalizes and keeps the whole stream.
  bool sequenceParallel = true;
};

/// Returns one block for each run of layers of one kind, in their order, and
/// blocks for embedding and head if there is a vocabulary. A block is called
/// "layer"; if there are several kinds, a prefix names the kind: "dense_layer"
/// and "expert_layer", "window_layer" and "full_layer", "window_expert_layer".
/// Every block contains the all-reduces of tensor parallelism (Engine::Link);
/// the system states the number of accelerators in them.
///
/// Errors: as for checkArchitecture; sizes whose products overflow int64,
/// with the name of the kernel.
llvm::Expected<ModelFacts> expandArchitecture(const Architecture &architecture,
                                              const ExpansionOptions &options);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_KERNELS_TRANSFORMERBLOCK_H
