//===- TransformerBlock.cpp - Op-level facts of transformer models --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers, embedding and head: the Megatron block of arXiv 2605.24006 and its
// variants. docs/CostModel.md has the tables that the code follows.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/TransformerBlock.h"
#include "BlockExpander.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;

/// Bytes of a token id, and of an element of the loss.
static constexpr int64_t kIdBytes = 8, kFloatBytes = 4;
/// The number of elements in fewer than 16 bits that share a float as their
/// scale, by the recipe of arXiv 2412.19437, section 3.3.2.
static constexpr int64_t kElementsPerScale = 128;
static constexpr int64_t kBitsPerByte = 8, kNarrowBits = 16;
/// The number of NVFP4 elements that share a byte as their scale (arXiv
/// 2509.25149, section 2).
static constexpr int64_t kFp4Bits = 4, kElementsPerByte = 16;
/// Launches of a norm that consists of separate kernels: a copy in FP32, the
/// square, its mean, a sum, a root, the product, a cast, and the product with
/// the gain.
static constexpr int64_t kNormLaunches = 8;
/// Launches of a linear layer in 8 bits per phase: a cast, a kernel that
/// prepares its scales, and the product.
static constexpr int64_t kNarrowLaunches = 3;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Sizes::Sizes(const Architecture &arch, int64_t microbatchSize, bool hasWindow)
    : b(microbatchSize), e(arch.bytesPerElement), h(arch.hidden),
      f(arch.feedforward), s(arch.sequence),
      seen(hasWindow ? arch.window.size : arch.sequence),
      heads(arch.attentionHeads), vocabulary(arch.vocabulary),
      T(CheckedInt(microbatchSize) * arch.sequence), x(T * h), y(T * f),
      n(heads * T * s) {
  if (const std::optional<LatentAttention> &latent = arch.latent) {
    q = k = heads * (CheckedInt(latent->headSize) + latent->ropeHeadSize);
    coreV = v = o = heads * latent->valueHeadSize;
    coreK = k;
    return;
  }
  q = o = arch.attentionWidth;
  k = v = arch.attentionWidth / (arch.attentionHeads / arch.keyValueHeads);
  coreK = arch.repeatedKeyValues ? q : k;
  coreV = arch.repeatedKeyValues ? o : v;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

void BlockExpander::linear(StringRef name, CheckedInt rows, CheckedInt in,
                           CheckedInt out, LinearKind kind, CheckedInt copies) {
  CheckedWork work{2 * rows * in * out,
                   z.e * (rows * in + rows * out + copies * in * out)};
  bool isCast = isNarrow(kind.engine);
  if (isCast && arch.separateCasts)
    casts(name, rows, in, out, kind.work);
  block.kernel(name, kind.engine, work, work, work, Part::Rest, kind.work,
               z.e * copies * in * out);
  launchesLinear();
  if (arch.separateAccumulation)
    accumulates(name, copies * in * out);
  // W reads both operands in the same format.
  block.leavesGradient(name,
                       keptBytes(rows * out, isCast ? saved.linearInputs : 0),
                       kind.output);
}

void BlockExpander::launchesLinear() {
  block.ofLast([&](Kernel &kernel) {
    if (isNarrow(kernel.engine))
      kernel.launches =
          arch.separateCasts ? kNarrowLaunches - 1 : kNarrowLaunches;
  });
}

/// W adds its gradients to the sum of earlier microbatches.
void BlockExpander::accumulates(StringRef name, CheckedInt count) {
  CheckedInt bytes = z.e + 2 * CheckedInt(arch.gradientBytesPerParameter);
  block.kernel((name + "_accumulate").str(), Engine::Vector, {}, {},
               {count, bytes * count}, Part::Rest, Share::AsParameters);
}

/// I casts the gradient of the output. W needs input and gradient in tiles of
/// the other direction: it gets the input from its 8-bit form, and the gradient
/// as a second result of the cast.
void BlockExpander::casts(StringRef name, CheckedInt rows, CheckedInt in,
                          CheckedInt out, Share share) {
  block.kernel((name + "_cast").str(), Engine::Vector,
               {rows * in, (z.e + 1) * rows * in},
               {rows * out, (z.e + 1) * rows * out},
               {rows * in, 2 * rows * in + rows * out}, Part::Rest, share);
}

SavedBits pipesched::savedBitsOf(const Architecture &arch,
                                 Precision precision) {
  SavedBits saved = arch.savedBits;
  if (precision == Precision::BF16)
    return saved;
  int64_t bits = precision == Precision::NVFP4 ? kFp4Bits : kBitsPerByte;
  if (saved.linearInputs == 0)
    saved.linearInputs = bits;
  if (saved.attentionOutput == 0)
    saved.attentionOutput = kNarrowBits + bits;
  return saved;
}

void BlockExpander::productAgain(StringRef name, CheckedInt rows, CheckedInt in,
                                 CheckedInt out) {
  block.kernel((name + "_again").str(), linears, {},
               {2 * rows * in * out, z.e * (rows * (in + out) + in * out)});
  launchesLinear();
}

CheckedInt BlockExpander::keptBytes(CheckedInt elements, int64_t bits) const {
  if (bits == 0)
    return z.e * elements;
  auto parts = [](CheckedInt whole, int64_t size) {
    return whole.isValid() ? CheckedInt(int64_t(llvm::divideCeil(
                                 uint64_t(whole.get()), uint64_t(size))))
                           : whole;
  };
  CheckedInt bytes = parts(elements * bits, kBitsPerByte);
  if (bits == kFp4Bits)
    bytes += parts(elements, kElementsPerByte);
  else if (bits < kNarrowBits)
    bytes += kFloatBytes * parts(elements, kElementsPerScale);
  return bytes;
}

void BlockExpander::scores(StringRef name, CheckedInt width, CheckedInt kept,
                           bool isForward) {
  CheckedWork work{2 * z.T * z.s * width, z.e * (z.T * (width + kept) + z.n)};
  isForward ? block.kernel(name, Engine::Matrix, work, {}, {}, Part::Core)
            : block.kernel(name, Engine::Matrix, {}, work);
}

void BlockExpander::vector(StringRef name, CheckedWork forward,
                           CheckedWork inputGrad, Part part, Share share) {
  block.kernel(name, Engine::Vector, forward, inputGrad, {}, part, share);
}

CheckedWork BlockExpander::scorePass(int64_t passes) {
  return {z.n, passes * z.e * z.n};
}

void BlockExpander::norm(StringRef name, Norm form, CheckedInt elements,
                         Share share) {
  PerElement flops =
      form == Norm::RMSNorm ? PerElement{4, 7, 3} : PerElement{9, 14, 7};
  CheckedInt bytes = 2 * z.e * elements;
  CheckedWork weightGrad = {flops.weightGrad * elements, bytes};
  if (form == Norm::PlainNorm)
    weightGrad = {};
  else
    block.leavesGradient(name, z.e * elements, share);
  block.kernel(name, Engine::Vector, {flops.forward * elements, bytes},
               {flops.inputGrad * elements, bytes}, weightGrad, Part::Rest,
               share);
}

void BlockExpander::streamNorm(StringRef name) {
  norm(name, arch.norm, z.x, stream);
  if (arch.separateNorms)
    separateNorm();
  CheckedInt count = parametersPerElement(arch.norm) * z.h;
  block.parameters(name, count, count);
}

/// PyTorch's kernels sweep over the stream in FP32. F does so seven times, and
/// four times in 16 bits. I multiplies by the gain, by the root and by the
/// input, sums, takes the gradient of the square and adds: 15 and four times. W
/// multiplies and sums. The copy in FP32 is kept in place of the input, and so
/// is the product before the gain.
void BlockExpander::separateNorm() {
  block.ofLast([&](Kernel &kernel) {
    kernel.launches = kNormLaunches;
    auto passes = [&](Work &work, int64_t inFloats) {
      CheckedInt bytes = (4 * z.e + inFloats * kFloatBytes) * z.x;
      work.bytes = bytes.get();
    };
    passes(kernel.forward, 7);
    passes(kernel.inputGrad, 15);
    if (!kernel.weightGrad.isZero())
      passes(kernel.weightGrad, 0);
  });
  if (!arch.recomputed.ofNorms())
    savesStream("norm in FP32", kFloatBytes * z.x, LastUse::InputGrad);
}

/// The caller keeps the norm's input. The norm's output is kept too, or I
/// recomputes it and keeps it for W.
void BlockExpander::normBefore(StringRef name, CheckedInt elements) {
  CheckedInt bytes = keptBytes(elements, saved.linearInputs);
  if (!arch.recomputed.ofNorms()) {
    block.saves("normed input", bytes, LastUse::WeightGrad, Part::Rest,
                inputs());
    return;
  }
  CheckedInt flops = (arch.norm == Norm::RMSNorm ? 4 : 9) * elements;
  vector((name + "_again").str(), {}, {flops, 2 * z.e * elements}, Part::Rest,
         stream);
  block.leavesGradient(name, bytes, inputs());
}

void BlockExpander::fork(StringRef name, CheckedInt elements, int64_t users,
                         Share share) {
  vector(name, {}, {users * elements, (users + 1) * z.e * elements}, Part::Rest,
         share);
}

void BlockExpander::dropout(StringRef name, CheckedInt elements, Part part,
                            Share share) {
  CheckedWork work{elements, 2 * z.e * elements + elements};
  vector(name, work, work, part, share);
}

void BlockExpander::reduce(StringRef name, bool forward, bool inputGrad) {
  CheckedWork payload{0, z.e * z.x};
  block.kernel(name, Engine::Link, forward ? payload : CheckedWork(),
               inputGrad ? payload : CheckedWork());
}

void BlockExpander::exchangeRows(StringRef name, CheckedInt rows, int64_t bits,
                                 int64_t gradientBits) {
  block.kernel(name, Engine::AllToAll, {0, keptBytes(rows * z.h, bits)},
               {0, keptBytes(rows * z.h, gradientBits)});
}

/// If fused, this is one kernel; the gradient of the addition is its input.
void BlockExpander::residual(StringRef dropoutName, StringRef name) {
  CheckedInt bytes = 3 * z.e * z.x;
  auto onStream = [&](StringRef name, CheckedWork forward,
                      CheckedWork inputGrad) {
    vector(name, forward, inputGrad, Part::Rest, stream);
  };
  if (arch.dropout)
    savesStream("dropout mask", z.x, LastUse::InputGrad);
  if (!isFused) {
    if (arch.dropout)
      dropout(dropoutName, z.x, Part::Rest, stream);
    onStream(name, {z.x, bytes}, {2 * z.x, bytes});
    return;
  }
  if (arch.dropout)
    onStream(dropoutName, {2 * z.x, bytes + z.x}, {z.x, 2 * z.e * z.x + z.x});
  else
    onStream(dropoutName, {z.x, bytes}, {});
}

void BlockExpander::weights(StringRef name, CheckedInt in, CheckedInt out,
                            bool hasBias, CheckedInt count, CheckedInt active) {
  CheckedInt one = in * out + (hasBias ? out : CheckedInt(0));
  block.parameters(name, count * one, active * one);
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

void BlockExpander::layer(const LayerRun &kind) {
  // The backward of a norm reads its input again; without a norm before it, a
  // projection reads the layer's input in W.
  block.savesInput("layer input", z.e * z.x, stream);
  block.layerAgain(kind.isRecomputed);
  arch.branches == Branches::Sequential ? sequentialLayer(kind)
                                        : parallelLayer(kind);
  block.layerAgain(false);
}

void BlockExpander::mixer(const LayerRun &kind) {
  kind.isLinear ? recurrence(*arch.linear) : attention();
}

void BlockExpander::feedforward(bool hasExperts) {
  hasExperts ? experts(*arch.experts) : denseMlp();
}

void BlockExpander::sequentialLayer(const LayerRun &kind) {
  if (kind.hasMixer)
    mixerBranch(kind);
  if (kind.hasMixer && kind.hasFeedforward) {
    CheckedInt bytes = z.e * z.x;
    if (arch.recomputed.operations) {
      vector("res1_again", {}, {z.x, 3 * bytes}, Part::Rest, stream);
      block.leavesGradient("mlp branch input", bytes, stream);
    } else {
      savesStream("mlp branch input", bytes, LastUse::WeightGrad);
    }
  }
  if (kind.hasFeedforward)
    feedforwardBranch(kind);
}

void BlockExpander::mixerBranch(const LayerRun &kind) {
  fork("attn_fork", z.x, 2, stream);
  if (arch.norms != NormPlacement::After) {
    streamNorm("ln1");
    normBefore("ln1", z.x);
  }
  mixer(kind);
  reduce("attention_reduce", /*forward=*/true, /*inputGrad=*/true);
  if (arch.norms != NormPlacement::Before) {
    streamNorm("ln1_after");
    savesStream("branch output", z.e * z.x, LastUse::WeightGrad);
  }
  residual("drop1", "res1");
}

void BlockExpander::feedforwardBranch(const LayerRun &kind) {
  fork("mlp_fork", z.x, 2, stream);
  if (arch.norms != NormPlacement::After) {
    streamNorm("ln2");
    normBefore("ln2", z.x);
  }
  feedforward(kind.hasExperts);
  // If experts are sharded and the stream too, ranks get the results of their
  // tokens back, so only shared experts leave partial sums.
  block.route(kind.hasExperts && arch.experts->sharedFeedforward == 0 &&
              stream == Share::Divided);
  reduce("mlp_reduce", /*forward=*/true, /*inputGrad=*/true);
  block.route(false);
  if (arch.norms != NormPlacement::Before) {
    streamNorm("ln2_after");
    savesStream("branch output", z.e * z.x, LastUse::WeightGrad);
  }
  residual("drop2", "res2");
}

/// The form of GPT-J: x + attention(norm(x)) + mlp(norm(x)). The two branches
/// are summed before the all-reduce.
void BlockExpander::parallelLayer(const LayerRun &kind) {
  bool sharesNorm = arch.branches == Branches::ParallelSharedNorm;
  CheckedInt bytes = z.e * z.x;
  fork("layer_fork", z.x, sharesNorm ? 2 : 3, stream);
  streamNorm("ln1");
  normBefore("ln1", z.x);
  if (sharesNorm) {
    fork("norm_fork", z.x, 2);
  } else {
    streamNorm("ln2");
    normBefore("ln2", z.x);
  }
  mixer(kind);
  feedforward(kind.hasExperts);
  vector("branch_add", {z.x, 3 * bytes}, {});
  reduce("layer_reduce", /*forward=*/true, /*inputGrad=*/true);
  residual("drop", "res");
}

//===----------------------------------------------------------------------===//
// Embedding and head
//===----------------------------------------------------------------------===//

/// Looks up rows of the table by token ids; W adds the gradient to these rows.
void BlockExpander::embedding() {
  CheckedInt width = arch.embeddingWidth ? arch.embeddingWidth : arch.hidden;
  CheckedInt ids = kIdBytes * z.T, rows = z.T * width;
  block.kernel("embedding", Engine::Vector, {0, 2 * z.e * rows + ids}, {},
               {rows, 3 * z.e * rows + ids});
  block.saves("token ids", ids, LastUse::WeightGrad);
  block.leavesGradient("embedding", z.e * rows);
  weights("embedding", z.vocabulary, width, /*hasBias=*/false);
  if (arch.embeddingWidth) {
    linear("embedding_up", z.T, width, z.h, {});
    block.saves("embedding_up input", z.e * rows, LastUse::WeightGrad);
    weights("embedding_up", width, z.h, /*hasBias=*/false);
  }
  reduce("embedding_reduce", /*forward=*/true, /*inputGrad=*/false);
  if (arch.learnedPositions) {
    CheckedInt table = z.e * z.s * z.h;
    block.kernel("positions", Engine::Vector, {z.x, 2 * z.e * z.x + table}, {},
                 {z.x, z.e * z.x + table}, Part::Rest, stream);
    weights("positions", arch.learnedPositions, z.h, /*hasBias=*/false);
  }
  if (arch.embeddingNorm) {
    streamNorm("embedding_norm");
    savesStream("embedding_norm input", z.e * z.x, LastUse::WeightGrad);
  }
  if (arch.dropout) {
    dropout("embedding_drop", z.x, Part::Rest, stream);
    savesStream("embedding dropout mask", z.x, LastUse::InputGrad);
  }
  block.keepAll();
}

/// Adds logits and cross entropy. The loss reads the logits and keeps them in
/// 4-byte floats for its gradient (arXiv 2205.05198, section 4.3).
void BlockExpander::logits(CheckedInt width) {
  CheckedInt logits = z.T * z.vocabulary;
  linear("head", z.T, width, z.vocabulary, {});
  reduce("head_reduce", /*forward=*/false, /*inputGrad=*/true);
  CheckedInt bytes = (z.e + kFloatBytes) * logits;
  block.saves("head input", z.e * z.T * width, LastUse::WeightGrad, Part::Rest,
              inputs());
  if (!arch.separateLoss) {
    vector("loss", {4 * logits, bytes}, {logits, bytes});
    block.saves("logits", kFloatBytes * logits, LastUse::InputGrad);
    return;
  }
  // Each rank gathers the parts of all ranks, which is half an all-reduce. It
  // keeps the result, which is the output of the model, until the backward
  // starts from it.
  Share share = arch.gatheredLoss ? Share::Whole : Share::Divided;
  if (arch.gatheredLoss) {
    CheckedInt gathered = z.e * logits;
    block.kernel("logits_gather", Engine::Link,
                 {0, gathered.isValid() ? gathered.get() / 2 : gathered}, {});
    block.saves("gathered logits", gathered, LastUse::InputGrad, Part::Rest,
                share);
  }
  // F makes a copy in 4 bytes and the logarithm of its softmax, which is kept.
  // The backward writes the gradient of the logarithm, mostly zeros, reads both
  // to compute the gradient of the copy, and casts it; so it holds three
  // tensors.
  CheckedInt whole = kFloatBytes * logits;
  vector("logits_float", {0, bytes}, {0, bytes}, Part::Rest, share);
  if (!arch.parallelLoss) {
    vector("loss", {4 * logits, 2 * whole}, {logits, 4 * whole}, Part::Rest,
           share);
    block.saves("logits", 3 * whole, LastUse::InputGrad, Part::Rest, share);
    return;
  }
  // PyTorch has no fused kernel for parts of the logits. F takes the maximum,
  // subtracts, takes the exponential, sums and subtracts. I fills a gradient
  // with zeros, takes the exponential, adds and multiplies. I holds the
  // logarithm and three results (torch/distributed/tensor/parallel/loss.py).
  vector("loss", {4 * logits, 8 * whole}, {logits, 8 * whole});
  block.saves("logits", 4 * whole, LastUse::InputGrad);
}

/// Adds norm, logits and loss.
void BlockExpander::head() {
  CheckedInt width = arch.embeddingWidth ? arch.embeddingWidth : arch.hidden;
  if (arch.finalNorm) {
    streamNorm("final_norm");
    savesStream("final_norm input", z.e * z.x, LastUse::WeightGrad);
  }
  if (arch.embeddingWidth) {
    linear("head_down", z.T, z.h, width, {});
    savesStream("head_down input", z.e * z.x, LastUse::WeightGrad);
    weights("head_down", z.h, width, /*hasBias=*/false);
  }
  logits(width);
  if (arch.tiedEmbeddings)
    block.tiedParameters("head", z.vocabulary * width);
  else
    weights("head", width, z.vocabulary, /*hasBias=*/false);
  if (arch.biases.head)
    block.parameters("head bias", z.vocabulary, z.vocabulary);
  block.keepAll();
}

/// DeepSeek-V3 (arXiv 2412.19437), equations 21 to 23. The embedding of the
/// next token and the output of the model are normalized and go through one
/// linear layer into a layer like the last one, and from there through the
/// head. Table and head are the model's; the head is on the same stage.
void BlockExpander::predictionLayer(const LayerRun &kind) {
  CheckedInt width = arch.embeddingWidth ? arch.embeddingWidth : arch.hidden;
  CheckedInt ids = kIdBytes * z.T, rows = z.T * width;
  block.kernel("prediction_embedding", Engine::Vector,
               {0, 2 * z.e * rows + ids}, {}, {rows, 3 * z.e * rows + ids});
  block.tiedParameters("embedding", z.vocabulary * width);
  for (StringRef name : {"prediction_norm", "prediction_embedding_norm"}) {
    streamNorm(name);
    savesStream(name, z.e * z.x, LastUse::WeightGrad);
    normBefore(name, z.x);
  }
  linear("prediction_proj", z.T, 2 * z.h, z.h, onStream(linears));
  weights("prediction_proj", 2 * z.h, z.h, /*hasBias=*/false);
  layer(kind);
  streamNorm("prediction_final_norm");
  savesStream("prediction_final_norm input", z.e * z.x, LastUse::WeightGrad);
  logits(width);
}

//===----------------------------------------------------------------------===//
// The whole model
//===----------------------------------------------------------------------===//

static llvm::Error checkOptions(const ExpansionOptions &options) {
  if (options.microbatchSize < 1)
    return makeError("microbatch size: expected at least 1, found " +
                     Twine(options.microbatchSize));
  if (options.boundaryBytes.value_or(0) < 0)
    return makeError("boundary bytes: expected at least 0, found " +
                     Twine(*options.boundaryBytes));
  return llvm::Error::success();
}

namespace {
/// The kinds of layers in a model, by feedforward and by attention.
struct LayerKinds {
  explicit LayerKinds(llvm::ArrayRef<LayerRun> runs) {
    for (const LayerRun &run : runs) {
      if (run.hasFeedforward)
        (run.hasExperts ? hasExperts : hasDense) = true;
      if (run.hasAttention())
        (run.hasWindow ? hasWindow : hasFull) = true;
      hasLinear |= run.isLinear;
      hasHalves |= !run.hasMixer || !run.hasFeedforward;
      hasKept |= !run.isRecomputed;
    }
  }

  /// Returns "layer", with a prefix for each property in which layers differ. A
  /// layer with only one part has the name of that part.
  std::string nameOf(const LayerRun &run) const {
    std::string name;
    if (run.isRecomputed && hasKept)
      name += "recomputed_";
    if (run.isLinear)
      name += "linear_";
    else if (run.hasMixer && ((hasWindow && hasFull) || hasLinear))
      name += run.hasWindow ? "window_" : "full_";
    if (run.hasFeedforward && hasExperts && hasDense)
      name += run.hasExperts ? "expert_" : "dense_";
    if (hasHalves && !run.hasMixer)
      name += "mlp_";
    else if (hasHalves && run.hasFeedforward)
      name += "whole_";
    return name + "layer";
  }

  bool hasDense = false, hasExperts = false, hasFull = false, hasWindow = false;
  bool hasLinear = false, hasHalves = false;
  bool hasKept = false; ///< some layers are not recomputed
};

class ModelExpander {
public:
  ModelExpander(const Architecture &arch, const ExpansionOptions &options,
                ModelFacts &model)
      : arch(arch), options(options), model(model) {}

  llvm::Error expand() {
    LayerRun anywhere;
    if (arch.vocabulary)
      if (llvm::Error error =
              add("embedding", BlockPosition::First, 1, anywhere,
                  [](BlockExpander &expander) { expander.embedding(); }))
        return error;
    for (const Architecture &part : arch.modules)
      if (llvm::Error error = addModule(part))
        return error;
    std::vector<LayerRun> runs = layerRuns(arch);
    LayerKinds kinds(runs);
    size_t firstLayer = model.blocks.size();
    for (const LayerRun &run : runs) {
      // Layers of one kind are expanded once; their blocks differ only in the
      // count.
      const auto *begin = runs.data();
      const auto *like = std::find_if(begin, &run, [&](const LayerRun &other) {
        return run.isLike(other);
      });
      if (like != &run) {
        BlockFacts block = model.blocks[firstLayer + (like - begin)];
        block.count = run.count;
        model.blocks.push_back(std::move(block));
        continue;
      }
      if (llvm::Error error =
              add(kinds.nameOf(run), BlockPosition::Layer, run.count, run,
                  [&](BlockExpander &expander) { expander.layer(run); }))
        return error;
    }
    if (!arch.vocabulary)
      return llvm::Error::success();
    if (llvm::Error error =
            add("head", BlockPosition::Last, 1, anywhere,
                [](BlockExpander &expander) { expander.head(); }))
      return error;
    if (!arch.predictionLayers)
      return llvm::Error::success();
    const LayerRun &last = runs.back();
    return add(
        "prediction_layer", BlockPosition::Last, arch.predictionLayers, last,
        [&](BlockExpander &expander) { expander.predictionLayer(last); });
  }

private:
  /// Adds the layers of a module. Their outputs have the sizes of the module.
  llvm::Error addModule(const Architecture &part) {
    ExpansionOptions own = options;
    own.boundaryBytes = std::nullopt;
    llvm::Expected<ModelFacts> facts = expandArchitecture(part, own);
    if (!facts)
      return facts.takeError();
    for (BlockFacts &block : facts->blocks) {
      block.name = part.name + "_" + block.name;
      block.messages = {facts->boundaryBytes, facts->boundaryBytes};
      model.blocks.push_back(std::move(block));
    }
    return llvm::Error::success();
  }
  llvm::Error add(StringRef name, BlockPosition position, int64_t count,
                  const LayerRun &kind,
                  llvm::function_ref<void(BlockExpander &)> expand) {
    Sizes sizes(arch, options.microbatchSize, kind.hasWindow);
    BlockBuilder builder(name, position, count);
    BlockExpander expander(arch, sizes, options, builder);
    expand(expander);
    llvm::Expected<BlockFacts> block = builder.finish();
    if (!block)
      return block.takeError();
    model.blocks.push_back(std::move(*block));
    return llvm::Error::success();
  }

  const Architecture &arch;
  const ExpansionOptions &options;
  ModelFacts &model;
};
} // namespace

llvm::Expected<ModelFacts>
pipesched::expandArchitecture(const Architecture &architecture,
                              const ExpansionOptions &options) {
  if (llvm::Error error = checkOptions(options))
    return std::move(error);
  if (llvm::Error error = checkArchitecture(architecture))
    return std::move(error);
  if (options.recompute == Recompute::Full &&
      !architecture.recomputedLayers.isNone())
    return makeError("recomputed_layers: full recomputation is of all layers; "
                     "give one of them");

  ModelFacts model;
  model.name = architecture.name;
  model.source = architecture.source;
  model.microbatchSize = options.microbatchSize;
  model.sequence = architecture.sequence;
  model.vocabulary = architecture.vocabulary;
  model.weightBytesPerParameter = architecture.weightBytesPerParameter;
  model.gradientBytesPerParameter = architecture.gradientBytesPerParameter;
  model.optimizerBytesPerParameter = architecture.optimizerBytesPerParameter;
  model.recompute = options.recompute;

  CheckedInt boundary = CheckedInt(architecture.bytesPerElement) *
                        options.microbatchSize * architecture.sequence *
                        architecture.hidden;
  if (!boundary.isValid())
    return makeError("the activation between stages is over 2^63 - 1 bytes");
  model.boundaryBytes = options.boundaryBytes.value_or(boundary.get());
  if (llvm::Error error = ModelExpander(architecture, options, model).expand())
    return std::move(error);
  return model;
}
