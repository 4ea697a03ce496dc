//===- BlockExpander.h - Kernels of transformer blocks ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes a block kernel by kernel and tensor by tensor, as the tables of
// docs/CostModel.md list them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKEXPANDER_H
#define PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKEXPANDER_H

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "PipeSched/Facts/Facts.h"
#include "PipeSched/Support/CheckedInt.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// Work that may have overflowed.
struct CheckedWork {
  CheckedInt flops = 0, bytes = 0;
};

/// The last phase of a split backward that reads a saved tensor.
enum class LastUse { InputGrad, WeightGrad };

/// Whether a kernel or tensor belongs to the attention core, which selective
/// recompute recomputes.
enum class Part { Core, Rest };

/// How the accelerators of a worker share a kernel or tensor: it is sharded
/// evenly; or whole on each; or a kernel is sharded like parameters. Rows: a
/// tensor of experts' rows, which is whole on each of the ranks that shard the
/// widths of an expert.
enum class Share { Divided, Whole, AsParameters, Rows };

class BlockBuilder {
public:
  BlockBuilder(llvm::StringRef name, BlockPosition position, int64_t count) {
    block.name = name.str();
    block.position = position;
    block.count = count;
  }

  /// Sets rare properties of the last kernel, and of its twin if the backward
  /// recomputes it.
  void ofLast(llvm::function_ref<void(Kernel &)> say) {
    for (Kernel &kernel :
         llvm::MutableArrayRef(block.kernels).take_back(hasTwin ? 2 : 1))
      say(kernel);
  }

  /// Adds a kernel; its work is zero in phases in which it does not run.
  /// `weightBytes` of its bytes are for weights.
  void kernel(llvm::StringRef name, Engine engine, CheckedWork forward,
              CheckedWork inputGrad, CheckedWork weightGrad = {},
              Part part = Part::Rest, Share share = Share::Divided,
              CheckedInt weightBytes = 0);

  /// Adds a kernel of the attention core that has its own rates.
  void attention(llvm::StringRef name, const AttentionShape &shape,
                 CheckedWork forward, CheckedWork inputGrad);

  /// Adds a tensor that F keeps.
  void saves(llvm::StringRef name, CheckedInt bytes, LastUse lastUse,
             Part part = Part::Rest, Share share = Share::Divided);
  /// Adds the block's input, which full recompute keeps and which W also reads.
  void savesInput(llvm::StringRef name, CheckedInt bytes, Share share);
  /// Adds the gradient of an output, which I computes and keeps for W.
  void leavesGradient(llvm::StringRef name, CheckedInt bytes,
                      Share share = Share::Divided);
  /// Adds `count` parameters; one token uses `active` of them.
  void parameters(llvm::StringRef name, CheckedInt count, CheckedInt active);
  /// Starts or ends the work on rows of experts. Kernels, tensors, gradients
  /// and parameters in between belong to experts.
  void route(bool begins) { isRouting = begins; }
  /// Starts the attention core, in which a token attends to at most this many
  /// tokens, or ends it with 0.
  void sees(CheckedInt tokens) { seen = tokens.get(); }
  /// Starts or ends a part that the backward recomputes: each kernel has a twin
  /// `..._again` with the work of its forward in I, and no tensors are kept. I
  /// keeps the tensors that W needs.
  void again(bool begins) { isAgain = begins; }
  /// Starts or ends a layer of that kind that the backward recomputes as a
  /// whole.
  void layerAgain(bool begins) { isLayerAgain = begins; }
  /// Sets the facts of the experts that process the block's rows.
  void experts(const ExpertFacts &facts) { block.experts = facts; }

  /// Adds parameters that another block owns.
  void tiedParameters(llvm::StringRef name, CheckedInt count);

  /// Declares that full recompute keeps all tensors of this block.
  void keepAll();

  /// Returns the block. Errors: the first overflow.
  llvm::Expected<BlockFacts> finish();

private:
  void repeat(Kernel twin);
  void check(llvm::StringRef what, llvm::StringRef name, CheckedInt value);

  BlockFacts block;
  CheckedInt parameterCount, activeCount, tiedCount;
  CheckedInt activations, core, input, weightGrad;
  CheckedInt wholeActivations, wholeInput, wholeWeightGrad;
  /// Totals over experts.
  CheckedInt routedParameters, routedActivations, routedWeightGrad;
  CheckedInt wideActivations, wideWeightGrad;
  bool isRouting = false, isAgain = false, isLayerAgain = false;
  bool hasTwin = false; ///< the last kernel is the twin of the previous one
  int64_t seen = 0;
  std::vector<bool> isCore; ///< by kernel
  bool keepsAll = false;
  std::string overflow; ///< message of the first overflow; empty: none
};

/// Bytes of an element in FP32.
inline constexpr int64_t kFloatBytes = 4;

/// Sizes of a microbatch in elements, for layers of one kind.
struct Sizes {
  Sizes(const Architecture &arch, int64_t microbatchSize, bool hasWindow);

  CheckedInt b;          ///< sequences
  CheckedInt e;          ///< bytes of an element
  CheckedInt h, f;       ///< hidden, feedforward
  CheckedInt s;          ///< sequence
  CheckedInt seen;       ///< tokens that one token attends to: s or the window
  CheckedInt heads;      ///< query heads
  CheckedInt q, k, v, o; ///< width of all queries, keys, values, outputs
  /// Width of keys and values that the attention reads.
  CheckedInt coreK, coreV;
  CheckedInt vocabulary;
  // NOLINTNEXTLINE(readability-identifier-naming): T = b s in every source
  CheckedInt T;    ///< tokens
  CheckedInt x, y; ///< elements of the residual stream and of the MLP
  CheckedInt n;    ///< number of attention scores
};

/// The bits in which a precision keeps tensors if the model states none.
SavedBits savedBitsOf(const Architecture &arch, Precision precision);

/// FLOPs per element of a vector kernel.
struct PerElement {
  int64_t forward, inputGrad, weightGrad;
};

/// Writes the kernels of one block, in the order in which the forward runs
/// them, with the tensors that they keep and their parameters.
class BlockExpander {
public:
  BlockExpander(const Architecture &arch, const Sizes &z,
                const ExpansionOptions &options, BlockBuilder &block)
      : arch(arch), z(z), block(block),
        isFused(arch.attention != Attention::Unfused),
        fusesActivations(isFused && !arch.separateActivations),
        linears(engineOf(options.precision)),
        saved(savedBitsOf(arch, options.precision)),
        stream(options.sequenceParallel ? Share::Divided : Share::Whole) {}

  void embedding();
  void layer(const LayerRun &kind);
  void head();
  /// A layer that predicts one more token, with its own norms and linear layer.
  void predictionLayer(const LayerRun &kind);

private:
  /// The engine of a linear layer and the dimension that is sharded over its
  /// accelerators.
  struct LinearKind {
    Engine engine = Engine::Matrix;
    Share work = Share::Divided;   ///< of the whole kernel
    Share output = Share::Divided; ///< of the gradient of its output
  };
  /// A product of `rows` with a weight matrix. The kernel reads `copies` such
  /// matrices, because the rows of a mixture of experts use different ones.
  void linear(llvm::StringRef name, CheckedInt rows, CheckedInt in,
              CheckedInt out, LinearKind kind, CheckedInt copies = 1);
  /// The two splits of tensor parallelism: a split by columns shards the
  /// outputs; a split by rows has outputs in the residual stream.
  LinearKind byColumns() const { return {linears}; }
  LinearKind byRows() const { return {linears, Share::Divided, stream}; }
  /// The same for experts, whose outputs are rows.
  LinearKind byRowsOfExperts() const {
    Share rows = stream == Share::Divided ? Share::Rows : stream;
    return {linears, Share::Divided, rows};
  }
  /// Outside tensor parallelism: sharded or whole like the residual stream.
  LinearKind onStream(Engine engine) const { return {engine, stream, stream}; }
  /// A GEMM of the attention core between `width` elements of each token and
  /// the `kept` keys or values; it has no weights.
  void scores(llvm::StringRef name, CheckedInt width, CheckedInt kept,
              bool isForward);
  void vector(llvm::StringRef name, CheckedWork forward, CheckedWork inputGrad,
              Part part = Part::Rest, Share share = Share::Divided);
  /// A sweep over the scores that reads and writes `passes` values per score.
  CheckedWork scorePass(int64_t passes);
  void norm(llvm::StringRef name, Norm form, CheckedInt elements,
            Share share = Share::Divided);
  /// A norm of the residual stream, with its parameters.
  void streamNorm(llvm::StringRef name);
  /// Replaces the last kernel, such a norm, by one kernel for each of its
  /// operations.
  void separateNorm();
  /// A norm before a linear layer that reads its output.
  void normBefore(llvm::StringRef name, CheckedInt elements);
  /// Returns the bytes of elements that are kept in this number of bits
  /// (SavedBits).
  CheckedInt keptBytes(CheckedInt elements, int64_t bits) const;
  /// Adds the casts of both operands of a linear layer to 8 bits.
  void casts(llvm::StringRef name, CheckedInt rows, CheckedInt in,
             CheckedInt out, Share share);
  /// Adds the gradients of `count` parameters to the gradients of other
  /// microbatches.
  void accumulates(llvm::StringRef name, CheckedInt count);
  /// Sets the number of launches of the last kernel, which is a linear layer.
  void launchesLinear();
  /// Adds a linear layer that the backward recomputes, with the work of its
  /// forward.
  void productAgain(llvm::StringRef name, CheckedInt rows, CheckedInt in,
                    CheckedInt out);
  /// Sums the gradients of the users of a value.
  void fork(llvm::StringRef name, CheckedInt elements, int64_t users,
            Share share = Share::Divided);
  void dropout(llvm::StringRef name, CheckedInt elements,
               Part part = Part::Rest, Share share = Share::Divided);
  /// A tensor of the residual stream; `lastUse` states whether W reads it.
  void savesStream(llvm::StringRef name, CheckedInt bytes, LastUse lastUse) {
    block.saves(name, bytes, lastUse, Part::Rest, stream);
  }
  /// Sends rows to the ranks of their experts, or back, and their gradients in
  /// the other direction, in these numbers of bits.
  void exchangeRows(llvm::StringRef name, CheckedInt rows, int64_t bits,
                    int64_t gradientBits);
  /// Whether a linear layer's gathered input is whole on every accelerator.
  Share inputs() const { return arch.gatheredInputs ? Share::Whole : stream; }
  /// Adds the logits of the stream and their loss.
  void logits(CheckedInt width);
  /// An all-reduce of the residual stream among the accelerators of a worker.
  void reduce(llvm::StringRef name, bool forward, bool inputGrad);
  /// Dropout and addition to the residual stream.
  void residual(llvm::StringRef dropoutName, llvm::StringRef name);
  /// Adds the parameters of `count` equal linear layers; a token uses `active`
  /// of them.
  void weights(llvm::StringRef name, CheckedInt in, CheckedInt out,
               bool hasBias, CheckedInt count = 1, CheckedInt active = 1);

  // AttentionKernels.cpp
  void attention();
  void projections();
  void latentProjections(const LatentAttention &latent);
  void joinHeads(const LatentAttention &latent);
  void queryKeyNorms();
  void unfusedCore();
  void repeatKeyValues();
  void fusedCore();
  void coreTensors();
  void gateOutput();

  // LinearKernels.cpp
  /// A product of a recurrence, without weights: FLOPs and bytes of the
  /// forward. The backward runs two such products, and the forward once more if
  /// `isAgain`.
  void product(llvm::StringRef name, CheckedWork forward, bool isAgain);
  void convolve(const LinearAttention &linear, CheckedInt width);
  void exchangeHeads(CheckedInt width, CheckedInt outputs);
  void gatedNorm(CheckedInt width, CheckedInt gains);
  void recurrence(const LinearAttention &linear);
  void gatedDelta(const LinearAttention &linear);
  void gatedDeltaCore(const LinearAttention &linear);
  void mamba2(const LinearAttention &linear);
  void mamba2Core(const LinearAttention &linear);
  void mamba(const LinearAttention &linear);
  void selectiveScan(const LinearAttention &linear);
  void shortConvolution(const LinearAttention &linear);
  void outProjection(const LinearAttention &linear);

  // FeedforwardKernels.cpp
  /// An MLP over `rows`; each row goes through one of `copies` equal MLPs.
  struct Mlp {
    std::string prefix;
    CheckedInt rows, width, copies;
    bool isWeighted; ///< the activation kernel also scales results
  };
  void denseMlp();
  void experts(const Experts &experts);
  void routing(const Experts &experts, CheckedInt rows);
  void expertBias(const Experts &experts, CheckedInt rows, CheckedInt touched);
  void sortRows(llvm::StringRef name, CheckedInt rows);
  void combine(const Experts &experts, CheckedInt rows);
  void sharedExperts(const Experts &experts);
  void mlp(const Mlp &mlp);
  void unfusedActivation(const Mlp &mlp);
  void fusedActivation(const Mlp &mlp);
  void runsAgain(const Mlp &mlp, CheckedWork forward);
  void mlpTensors(const Mlp &mlp);
  void mlpWeights(llvm::StringRef name, CheckedInt width, bool hasBias,
                  CheckedInt count = 1, CheckedInt active = 1);

  // TransformerBlock.cpp
  void sequentialLayer(const LayerRun &kind);
  void mixerBranch(const LayerRun &kind);
  void feedforwardBranch(const LayerRun &kind);
  void parallelLayer(const LayerRun &kind);
  void mixer(const LayerRun &kind);
  void feedforward(bool hasExperts);

  const Architecture &arch;
  const Sizes &z;
  BlockBuilder &block;
  bool isFused;
  bool fusesActivations; ///< one kernel for an activation and its gate
  Engine linears;        ///< of linear layers, except 16-bit ones
  SavedBits saved;
  /// Whether the residual stream, its norms and its dropouts are sharded along
  /// the sequence or whole on every accelerator.
  Share stream;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_COSTMODEL_KERNELS_BLOCKEXPANDER_H
