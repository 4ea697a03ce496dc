//===- ModelSummary.h - A model in a few numbers ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters, FLOPs per token and bytes of a model and of its blocks.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_LAYERS_MODELSUMMARY_H
#define PIPESCHED_COSTMODEL_LAYERS_MODELSUMMARY_H

#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Schedule/Table/Placement.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// `count` equal blocks; all other numbers are for one block.
struct BlockSummary {
  std::string name;
  BlockPosition position = BlockPosition::Layer;
  int64_t count = 0;
  int64_t parameters = 0, activeParameters = 0, tiedParameters = 0;
  int64_t expertParameters = 0; ///< of experts from which a router chooses
  std::optional<int64_t> flopsPerToken; ///< as in ModelSummary
  int64_t activationBytes = 0, weightGradBytes = 0, recomputedBytes = 0;
};

/// FLOPs of the model, independent of the schedule: three times the GEMMs of
/// the forward, because input and weight gradient take as many each.
/// Recomputation, kernels that compute scores twice, and vector kernels do not
/// count (as in Megatron, arXiv 2104.04473, section 5, and PaLM, 2204.02311,
/// appendix B). A causal mask does not reduce them.
struct ModelSummary {
  std::string name, source;
  int64_t microbatchSize = 0, sequence = 0, layers = 0;
  int64_t vocabulary = 0;       ///< 0: unknown
  int64_t parameters = 0;       ///< tied copies count once
  int64_t activeParameters = 0; ///< parameters that one token uses
  /// The parameters of all experts from which routers choose, without shared
  /// experts. Absent if there are no experts; so is expertFlopsPerToken.
  std::optional<int64_t> expertParameters, expertWeightBytes;
  /// The FLOPs of F, I and W. Absent if the number of tokens is unknown.
  std::optional<int64_t> flopsPerToken;
  /// The part of flopsPerToken in GEMMs without weights: attention scores and
  /// their products with values.
  std::optional<int64_t> attentionFlopsPerToken;
  /// The part of flopsPerToken in the experts that the router chooses for a
  /// token.
  std::optional<int64_t> expertFlopsPerToken;
  int64_t activationBytesPerBlock = 0; ///< the largest layer
  int64_t activationBytes = 0;         ///< all blocks, one microbatch
  int64_t boundaryBytes = 0;
  int64_t weightBytes = 0, gradientBytes = 0, optimizerBytes = 0;
  /// The blocks. Equal blocks are listed once, in the order in which they first
  /// occur.
  std::vector<BlockSummary> blocks;
};

/// The FLOPs of the forward of a microbatch by this definition: of the whole
/// model; in the next function, by global stage. Errors: as for splitLayers.
double forwardFlops(const ModelFacts &model);
llvm::Expected<std::vector<double>>
forwardFlopsOfStages(const Placement &placement, const ModelFacts &model);

/// The FLOPs of a cell of a phase, as a multiple of the forward's.
int64_t forwardsOf(Phase phase);

/// Summarizes a model. Numbers per token are rounded down. Errors: sums over
/// 2^63 - 1.
llvm::Expected<ModelSummary> summarize(const ModelFacts &model);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_LAYERS_MODELSUMMARY_H
