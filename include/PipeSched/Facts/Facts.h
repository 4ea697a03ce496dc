//===- Facts.h - Facts of model, system and profile -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Facts without costs: the plain structs of pipe.model, the system attributes
// and the profile attribute. A cost model turns them into times (CostModel.h).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_FACTS_H
#define PIPESCHED_FACTS_FACTS_H

#include "PipeSched/Schedule/Kinds/Phase.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace pipesched {

//===----------------------------------------------------------------------===//
// Model
//===----------------------------------------------------------------------===//

/// The unit of a worker that executes a kernel. Link: a collective among the
/// accelerators of one worker (tensor parallelism), `bytes` its payload.
/// MatrixFp8, MatrixFp4: the matrix engine at its rate for 8-bit and for 4-bit
/// floats. AllToAll: transfers of rows to experts of other ranks or back,
/// `bytes` of all rows. Context: transfers of keys and values (in I followed by
/// as many bytes of their gradients) between the ranks of a sequence, `bytes`
/// of all tokens. Both take no time if nothing is sharded. Attention: a fused
/// attention kernel on the matrix engine, at a separate rate (AttentionShape).
enum class Engine : uint8_t {
  Matrix,
  Vector,
  Link,
  MatrixFp8,
  AllToAll,
  Context,
  Attention,
  MatrixFp4
};

/// Whether an engine is the matrix engine with operands of fewer than 16 bits.
constexpr bool isNarrow(Engine engine) {
  return engine == Engine::MatrixFp8 || engine == Engine::MatrixFp4;
}
/// Whether an engine multiplies matrices, in any precision.
constexpr bool isMatrix(Engine engine) {
  return engine == Engine::Matrix || isNarrow(engine);
}

/// Fused attention kernels whose rates a system may have.
enum class FlashKernel : uint8_t { Flash2, Flash3, Cudnn };

template <>
struct EnumNames<FlashKernel> {
  static constexpr EnumName<FlashKernel> values[] = {
      {FlashKernel::Flash2, "flash-2",
       "FlashAttention-2, at its rate on the system"},
      {FlashKernel::Flash3, "flash-3",
       "FlashAttention-3, at its rate on the system"},
      {FlashKernel::Cudnn, "cudnn",
       "The fused attention of cuDNN 9, at its rate on the system"}};
};

/// The shape on which the rate of an attention kernel depends.
struct AttentionShape {
  FlashKernel kernel = FlashKernel::Flash2;
  int64_t headSize = 0; ///< elements of a head of queries and keys
  int64_t sequence = 0; ///< tokens of one sequence
  /// FLOPs of the forward for scores that the causal mask hides. The kernel
  /// skips them, but the FLOPs of a model contain them.
  int64_t maskedFlops = 0;

  friend bool operator==(const AttentionShape &a, const AttentionShape &b) {
    return a.kernel == b.kernel && a.headSize == b.headSize &&
           a.sequence == b.sequence && a.maskedFlops == b.maskedFlops;
  }
};

/// The work of one kernel in one phase, for one microbatch, summed over the
/// accelerators of the worker. For Link it is the payload, counted once.
struct Work {
  int64_t flops = 0, bytes = 0;

  bool isZero() const { return flops == 0 && bytes == 0; }
  friend bool operator==(const Work &a, const Work &b) {
    return a.flops == b.flops && a.bytes == b.bytes;
  }
  friend bool operator!=(const Work &a, const Work &b) { return !(a == b); }
};

/// The work of a kernel in one run, and its engine.
struct EngineWork {
  Engine engine = Engine::Matrix;
  Work work;

  friend bool operator==(const EngineWork &a, const EngineWork &b) {
    return a.engine == b.engine && a.work == b.work;
  }
};

/// One kernel of a block: a roofline point per phase in which it runs.
struct Kernel {
  std::string name;
  Engine engine = Engine::Matrix;
  Work forward, inputGrad, weightGrad;
  /// The backward recomputes it in R under full recompute.
  bool recomputed = true;
  bool core = false; ///< a part of the attention core, which R also runs under
                     ///< selective recompute
  bool whole =
      false; ///< not sharded: every accelerator of a worker does all of it
  /// Works on parameters: every rank of a sequence processes all parameters of
  /// its widths of layers, and with expert parallelism all of its experts.
  bool onParameters = false;
  int64_t count = 1; ///< number of runs in each phase, one after the other
  /// The work in B, in R, and in O once per step (pipe.kernel). If all kernels
  /// of a block omit it, B runs I and W, R runs F, and O moves the state of the
  /// parameters.
  std::optional<Work> backward = std::nullopt, recompute = std::nullopt,
                      optimizer = std::nullopt;
  /// The work in S and T, if the stage has a shard of a vocabulary.
  Work logits = {}, logitsGrad = {};
  /// Whether it works on the rows of experts. With expert parallelism it runs
  /// on the rank that holds the expert, and a Link kernel is then not needed.
  bool routed = false;
  /// The part of the bytes of each phase that are weights of experts with rows.
  int64_t weightBytes = 0;
  /// Present exactly for a kernel on Engine::Attention.
  std::optional<AttentionShape> attention = std::nullopt;
  /// The number of kernels that the host launches for one run; for a kernel
  /// with `weightBytes`, the number per expert of a rank.
  int64_t launches = 1;
  /// Whether the host waits after its F until the device is done, because the
  /// next launch depends on the result.
  bool synchronizes = false;
  /// Whether it sorts rows that arrived at the rank of their expert. This is
  /// needed only if experts are sharded over ranks and each expert gets a
  /// separate copy.
  bool exchanged = false;
  /// For the attention core, whose work grows with pairs of tokens: the number
  /// of tokens of a sequence that a token attends to at most, all or a window.
  /// 0: the work grows with tokens.
  int64_t seen = 0;

  friend bool operator==(const Kernel &a, const Kernel &b) {
    return a.name == b.name && a.engine == b.engine && a.forward == b.forward &&
           a.inputGrad == b.inputGrad && a.weightGrad == b.weightGrad &&
           a.recomputed == b.recomputed && a.core == b.core &&
           a.whole == b.whole && a.onParameters == b.onParameters &&
           a.count == b.count && a.routed == b.routed &&
           a.weightBytes == b.weightBytes && a.backward == b.backward &&
           a.recompute == b.recompute && a.optimizer == b.optimizer &&
           a.logits == b.logits && a.logitsGrad == b.logitsGrad &&
           a.attention == b.attention && a.launches == b.launches &&
           a.synchronizes == b.synchronizes && a.exchanged == b.exchanged &&
           a.seen == b.seen;
  }
};

/// The part of a block's bytes that every accelerator of a worker holds in
/// full; the rest is sharded over them.
struct WholeBytes {
  int64_t activation = 0, weightGrad = 0, recomputed = 0;

  friend bool operator==(const WholeBytes &a, const WholeBytes &b) {
    return a.activation == b.activation && a.weightGrad == b.weightGrad &&
           a.recomputed == b.recomputed;
  }
};

/// The bytes of the parameters of a block.
struct StateBytes {
  int64_t weight = 0, gradient = 0, optimizer = 0;

  friend bool operator==(const StateBytes &a, const StateBytes &b) {
    return a.weight == b.weight && a.gradient == b.gradient &&
           a.optimizer == b.optimizer;
  }
};

/// The bytes that a stage sends for one microbatch.
struct MessageBytes {
  int64_t activation = 0; ///< after F, to the next stage
  int64_t gradient = 0;   ///< after B or I, to the previous stage

  friend bool operator==(const MessageBytes &a, const MessageBytes &b) {
    return a.activation == b.activation && a.gradient == b.gradient;
  }
};

/// The bytes of experts' rows that each rank holds in full width.
struct WideBytes {
  int64_t activation = 0, weightGrad = 0;

  friend bool operator==(const WideBytes &a, const WideBytes &b) {
    return a.activation == b.activation && a.weightGrad == b.weightGrad;
  }
};

/// The experts of a block. A router sends each token to `perToken` of `count`
/// experts.
struct ExpertFacts {
  int64_t count = 0, perToken = 0;
  int64_t rows = 0; ///< tokens of one microbatch times perToken
  /// Of all experts; included in the parameters of the block.
  int64_t parameters = 0;
  /// The parts of the block's bytes that are rows of experts.
  int64_t activationBytes = 0, weightGradBytes = 0;
  /// Experts form `groups` of equal size; the experts of a token are in at most
  /// `groupsPerToken` of them (arXiv 2412.19437, section 2.1.2).
  int64_t groups = 1, groupsPerToken = 1;
  /// The inputs and outputs of experts, which are as wide as the model.
  WideBytes wide = {};

  friend bool operator==(const ExpertFacts &a, const ExpertFacts &b) {
    return a.count == b.count && a.perToken == b.perToken && a.rows == b.rows &&
           a.parameters == b.parameters &&
           a.activationBytes == b.activationBytes &&
           a.weightGradBytes == b.weightGradBytes && a.groups == b.groups &&
           a.groupsPerToken == b.groupsPerToken && a.wide == b.wide;
  }
};

/// The shard of a vocabulary on a stage (arXiv 2411.05288), bytes per
/// microbatch. All zero if there is none.
struct ShardBytes {
  int64_t kept = 0;      ///< from S to T
  int64_t broadcast = 0; ///< X: the last output, to all workers
  int64_t combined = 0;  ///< Y: values of all shards, combined on all workers
  int64_t reduced = 0;   ///< Z: the gradient of the last output, for its stage

  friend bool operator==(const ShardBytes &a, const ShardBytes &b) {
    return a.kept == b.kept && a.broadcast == b.broadcast &&
           a.combined == b.combined && a.reduced == b.reduced;
  }
  friend bool operator!=(const ShardBytes &a, const ShardBytes &b) {
    return !(a == b);
  }
};

/// The position of a block: repeated layers are distributed over stages; the
/// others are pinned to the first or the last stage of a path.
enum class BlockPosition : uint8_t { First, Layer, Last };

/// `count` equal blocks. Bytes are per block and microbatch.
struct BlockFacts {
  std::string name;
  BlockPosition position = BlockPosition::Layer;
  int64_t count = 1;
  int64_t parameters = 0;
  /// The parameters that one token uses, without experts that the router does
  /// not choose. Absent: all parameters.
  std::optional<int64_t> activeParameters;
  /// The part of `parameters` that another block owns, such as a table that
  /// embedding and head share. It takes memory, but is not counted again as
  /// parameters of the model.
  int64_t tiedParameters = 0;
  int64_t activationBytes = 0; ///< kept from F to the last use
  /// Kept between a split I and its W: the inputs of weights, and the gradients
  /// of their outputs (M_W in arXiv 2401.10241).
  int64_t weightGradBytes = 0;
  int64_t recomputedBytes = 0; ///< kept from F under full recompute
  /// The part of `activationBytes` in the attention core, which F does not keep
  /// under selective recompute.
  int64_t coreBytes = 0;
  WholeBytes whole;
  /// Absent: the model's bytes per parameter apply.
  std::optional<StateBytes> state;
  /// The messages of a stage if this is its last block (activation) or its
  /// first block (gradient). Absent: the model's `boundaryBytes`.
  std::optional<MessageBytes> messages;
  std::optional<ExpertFacts> experts; ///< absent if there are none
  ShardBytes shard; ///< a block with a shard has kernels in S and T
  std::vector<Kernel> kernels;

  friend bool operator==(const BlockFacts &a, const BlockFacts &b) {
    return a.name == b.name && a.position == b.position && a.count == b.count &&
           a.parameters == b.parameters &&
           a.activeParameters == b.activeParameters &&
           a.tiedParameters == b.tiedParameters &&
           a.activationBytes == b.activationBytes &&
           a.weightGradBytes == b.weightGradBytes &&
           a.recomputedBytes == b.recomputedBytes &&
           a.coreBytes == b.coreBytes && a.whole == b.whole &&
           a.state == b.state && a.messages == b.messages &&
           a.experts == b.experts && a.shard == b.shard &&
           a.kernels == b.kernels;
  }
};

/// The format of linear layers; attention, head and router stay in 16 bits.
enum class Precision : uint8_t { BF16, FP8, NVFP4 };

template <>
struct EnumNames<Precision> {
  static constexpr EnumName<Precision> values[] = {
      {Precision::BF16, "bf16", "16 bits"},
      {Precision::FP8, "fp8", "8 bits"},
      {Precision::NVFP4, "nvfp4", "4 bits, with a scale for each 16 elements"}};
};

/// The engine of linear layers.
constexpr Engine engineOf(Precision precision) {
  return precision == Precision::FP8     ? Engine::MatrixFp8
         : precision == Precision::NVFP4 ? Engine::MatrixFp4
                                         : Engine::Matrix;
}

/// The part that R recomputes: nothing, the attention core, or all.
enum class Recompute : uint8_t { None, Selective, Full };

template <>
struct EnumNames<Recompute> {
  static constexpr EnumName<Recompute> values[] = {
      {Recompute::None, "none", "Nothing"},
      {Recompute::Selective, "selective", "The core of the attention"},
      {Recompute::Full, "full", "Every layer"}};
};

struct ModelFacts {
  std::string name, source;
  int64_t microbatchSize = 1; ///< sequences per microbatch
  int64_t sequence = 0;       ///< tokens per sequence; 0: unknown
  int64_t vocabulary = 0;     ///< entries of the vocabulary; 0: unknown
  int64_t boundaryBytes = 0;  ///< activation between stages, one microbatch
  int64_t weightBytesPerParameter = 2, gradientBytesPerParameter = 2,
          optimizerBytesPerParameter = 12;
  /// The part that every backward recomputes first if the table has no R cells.
  Recompute recompute = Recompute::None;
  std::vector<BlockFacts> blocks;

  int64_t getNumLayers() const; ///< blocks in position Layer

  friend bool operator==(const ModelFacts &a, const ModelFacts &b) {
    return a.name == b.name && a.source == b.source &&
           a.microbatchSize == b.microbatchSize && a.sequence == b.sequence &&
           a.vocabulary == b.vocabulary && a.boundaryBytes == b.boundaryBytes &&
           a.weightBytesPerParameter == b.weightBytesPerParameter &&
           a.gradientBytesPerParameter == b.gradientBytesPerParameter &&
           a.optimizerBytesPerParameter == b.optimizerBytesPerParameter &&
           a.recompute == b.recompute && a.blocks == b.blocks;
  }
};

//===----------------------------------------------------------------------===//
// Hardware
//===----------------------------------------------------------------------===//

/// Efficiency by size in parts per million, piecewise linear between points and
/// constant outside of them. With one point the curve is constant; without
/// points the efficiency is 1.
struct EfficiencyCurve {
  struct Point {
    int64_t size = 0; ///< FLOPs or bytes of one kernel or message
    int64_t partsPerMillion = 1000000;
  };
  std::vector<Point> points; ///< sizes strictly ascending

  double at(double size) const;

  friend bool operator==(const EfficiencyCurve &a, const EfficiencyCurve &b) {
    return llvm::equal(a.points, b.points, [](Point left, Point right) {
      return left.size == right.size &&
             left.partsPerMillion == right.partsPerMillion;
    });
  }
};

/// The engine of one accelerator: peak rate, latency, efficiency by FLOPs.
struct EngineFacts {
  int64_t flopsPerSecond = 0;
  int64_t latencyPs = 0;
  EfficiencyCurve efficiency;
  int64_t fp8FlopsPerSecond = 0; ///< in 8-bit floats; 0: unknown
  /// For narrow floats; if absent, `efficiency` applies to them too.
  std::optional<EfficiencyCurve> fp8Efficiency;
  int64_t fp4FlopsPerSecond = 0; ///< in 4-bit floats; 0: unknown

  /// The peak of a matrix engine in a precision.
  int64_t peakOf(Engine engine) const {
    return engine == Engine::MatrixFp8   ? fp8FlopsPerSecond
           : engine == Engine::MatrixFp4 ? fp4FlopsPerSecond
                                         : flopsPerSecond;
  }

  friend bool operator==(const EngineFacts &a, const EngineFacts &b) {
    return a.flopsPerSecond == b.flopsPerSecond && a.latencyPs == b.latencyPs &&
           a.efficiency == b.efficiency &&
           a.fp8FlopsPerSecond == b.fp8FlopsPerSecond &&
           a.fp8Efficiency == b.fp8Efficiency &&
           a.fp4FlopsPerSecond == b.fp4FlopsPerSecond;
  }
};

/// The rates of one attention kernel at one head size, as fractions of a peak
/// by the tokens of a sequence. They count the FLOPs of scores that no mask
/// hides.
struct AttentionRates {
  FlashKernel kernel = FlashKernel::Flash2;
  int64_t headSize = 0;
  int64_t flopsPerSecond = 0;        ///< the peak
  EfficiencyCurve forward, backward; ///< sizes are tokens

  friend bool operator==(const AttentionRates &a, const AttentionRates &b) {
    return a.kernel == b.kernel && a.headSize == b.headSize &&
           a.flopsPerSecond == b.flopsPerSecond && a.forward == b.forward &&
           a.backward == b.backward;
  }
};

/// A memory or a link: t = bytes / (bandwidth * efficiency(bytes)) + latency.
struct LinkFacts {
  int64_t bytesPerSecond = 0; ///< 0: the link does not exist
  int64_t latencyPs = 0;
  EfficiencyCurve efficiency;

  friend bool operator==(const LinkFacts &a, const LinkFacts &b) {
    return a.bytesPerSecond == b.bytesPerSecond && a.latencyPs == b.latencyPs &&
           a.efficiency == b.efficiency;
  }
};

inline constexpr int64_t kMaxAcceleratorsPerNode = 65536;
inline constexpr int64_t kMaxAcceleratorsPerPod = 65536;

/// The hardware. A worker is `accelerators` equal devices that share work
/// evenly.
struct HardwareFacts {
  std::string name, source;
  /// Assumptions and omissions of a reader, for users; ignored by equality.
  std::vector<std::string> notes;
  int64_t accelerators = 1;
  EngineFacts matrix, vector;
  std::vector<AttentionRates> attention; ///< of one accelerator
  LinkFacts memory;                      ///< of one accelerator
  int64_t memoryBytes = 0;               ///< capacity of one accelerator
  LinkFacts link;    ///< of one accelerator, to others of its node
  LinkFacts network; ///< between workers, of the whole worker
  LinkFacts spine;   ///< between pods, of the whole worker
  LinkFacts host;    ///< of one accelerator, to host memory
  /// The rates of `matrix` as a fraction of the peaks of the data sheet, in
  /// parts per million. Power limits and multiprocessors that communicate take
  /// the rest.
  int64_t peakSharePpm = 1000000;
  /// Times of the host: for an operation with its first kernel, for each
  /// additional kernel, and from the end of a kernel for which it waits to the
  /// next launch. 0: unknown; then devices never wait for the host.
  int64_t operationPs = 0, launchPs = 0, synchronizePs = 0;
  /// Whether a kernel computes while it moves data, so that its time is the
  /// longer of the two. Otherwise its time is their sum.
  bool overlapsMemory = true;
  /// Accelerators that `link` connects; 0: only the accelerators of one worker.
  int64_t acceleratorsPerNode = 0;
  /// Accelerators that `network` connects, in whole nodes; `spine` connects
  /// these groups. 0: `network` connects all.
  int64_t acceleratorsPerPod = 0;
  /// Groups of nodes with different hardware, the fastest first. The fields
  /// above then describe the first group, but with the smallest memory of all
  /// groups. Empty: all nodes are equal. Each group is a pod.
  std::vector<HardwareFacts> groups;
  /// The number of accelerators up to the end of each group, for a system with
  /// groups and for each of them.
  std::vector<int64_t> groupEnds;

  friend bool operator==(const HardwareFacts &a, const HardwareFacts &b) {
    return a.name == b.name && a.source == b.source &&
           a.accelerators == b.accelerators && a.matrix == b.matrix &&
           a.vector == b.vector && a.attention == b.attention &&
           a.memory == b.memory && // and its capacity
           a.memoryBytes == b.memoryBytes && a.link == b.link &&
           a.network == b.network && a.spine == b.spine && a.host == b.host &&
           a.peakSharePpm == b.peakSharePpm && a.operationPs == b.operationPs &&
           a.launchPs == b.launchPs && a.synchronizePs == b.synchronizePs &&
           a.overlapsMemory == b.overlapsMemory &&
           a.acceleratorsPerNode == b.acceleratorsPerNode &&
           a.acceleratorsPerPod == b.acceleratorsPerPod &&
           a.groups == b.groups && a.groupEnds == b.groupEnds;
  }
};

/// Returns the rates of a kernel at a head size; null if the system has none.
const AttentionRates *findAttentionRates(const HardwareFacts &hardware,
                                         FlashKernel kernel, int64_t headSize);

/// Returns the FLOP/s of the matrix engines of a worker by the data sheet, in
/// 16, 8 or 4 bits, without the sustained share; for a system with groups,
/// their mean.
double peakFlopsPerSecond(const HardwareFacts &hardware, Engine engine);

/// Gives every worker `accelerators` devices and their share of the bandwidth
/// of network and spine. Errors: fewer than one; several without a link; bytes
/// over int64.
llvm::Error setAccelerators(HardwareFacts &hardware, int64_t accelerators);

/// Describes an error in the levels of the network, or returns nothing: nodes
/// without a link; a spine without pods, or pods without a spine; pods with
/// parts of nodes.
std::optional<std::string> mistakeInLevels(const HardwareFacts &hardware);

//===----------------------------------------------------------------------===//
// Profile
//===----------------------------------------------------------------------===//

/// Times in ps by name, each of them in some form.
template <typename Times>
struct NamedTimes {
  PhaseMap<Times> phasePs; ///< by Phase
  Times overlappedPs;      ///< FB, an overlapped pair
  Times commPs;            ///< pure latency of a message
  Times sendPs;            ///< occupancy of a message

  friend bool operator==(const NamedTimes &a, const NamedTimes &b) {
    return a.phasePs == b.phasePs && a.overlappedPs == b.overlappedPs &&
           a.commPs == b.commPs && a.sendPs == b.sendPs;
  }
};

/// A time for each microbatch: empty, one list for every stage, or one for each
/// stage of a path.
using MicrobatchTimes = std::vector<std::vector<int64_t>>;

/// Measured times. Each entry: empty (not given), one value (every stage), or
/// one value per stage of a path.
struct Profile : NamedTimes<std::vector<int64_t>> {
  /// The times that differ by microbatch. FB, O and G are not among them.
  NamedTimes<MicrobatchTimes> microbatches;

  bool variesByMicrobatch() const {
    return !(microbatches == NamedTimes<MicrobatchTimes>());
  }
  friend bool operator==(const Profile &a, const Profile &b) {
    return static_cast<const NamedTimes<std::vector<int64_t>> &>(a) == b &&
           a.microbatches == b.microbatches;
  }
};

} // namespace pipesched

#endif // PIPESCHED_FACTS_FACTS_H
