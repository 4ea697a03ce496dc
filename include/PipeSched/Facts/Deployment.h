//===- Deployment.h - Distribution of a training ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a training is distributed over a system, and the table of the options for
// it (Deployment.def).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_DEPLOYMENT_H
#define PIPESCHED_FACTS_DEPLOYMENT_H

#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace pipesched {

//===----------------------------------------------------------------------===//
// Choices
//===----------------------------------------------------------------------===//

/// The state that is sharded over data-parallel pipelines (docs/CostModel.md,
/// "A training step").
enum class Sharding : uint8_t {
  None,
  Optimizer, ///< the optimizer's state (ZeRO-1)
  Gradients, ///< gradients too (ZeRO-2)
  FullKept,  ///< weights too, gathered once per step and kept (FSDP)
  Full       ///< weights too, gathered for each use (FSDP)
};

template <>
struct EnumNames<Sharding> {
  static constexpr EnumName<Sharding> values[] = {
      {Sharding::None, "none", "Nothing"},
      {Sharding::Optimizer, "optimizer", "The optimizer's state (ZeRO-1)"},
      {Sharding::Gradients, "gradients",
       "Gradients and the optimizer's state (ZeRO-2)"},
      {Sharding::FullKept, "full-kept",
       "Weights too, gathered once per step (FSDP)"},
      {Sharding::Full, "full", "Weights too, gathered for each use (FSDP)"}};
};

/// The dimension that ranks count right after the accelerators of a worker.
enum class RankOrder : uint8_t {
  Data,    ///< the worker's peers in other pipelines, then workers
  Pipeline ///< the workers of a pipeline, then pipelines
};

template <>
struct EnumNames<RankOrder> {
  static constexpr EnumName<RankOrder> values[] = {
      {RankOrder::Data, "data", "The peers of a worker in other pipelines"},
      {RankOrder::Pipeline, "pipeline", "The workers of a pipeline"}};
};

/// How the ranks of a sequence get each other's keys and values
/// (docs/CostModel.md, "Context parallelism").
enum class ContextExchange : uint8_t {
  Ring,  ///< passed from rank to rank during the attention
  Gather ///< all gathered before the attention starts
};

template <>
struct EnumNames<ContextExchange> {
  static constexpr EnumName<ContextExchange> values[] = {
      {ContextExchange::Ring, "ring",
       "Keys and values go around while the attention computes"},
      {ContextExchange::Gather, "gather",
       "Keys and values are gathered before the attention"}};
};

/// How tokens are sent to experts on other nodes (docs/CostModel.md, "Expert
/// parallelism").
enum class ExpertDispatch : uint8_t {
  AllToAll, ///< one copy for each expert
  PerNode,  ///< one copy for each node, which forwards it over its link
  PerRank   ///< the same, but within a node one copy for each rank
};

template <>
struct EnumNames<ExpertDispatch> {
  static constexpr EnumName<ExpertDispatch> values[] = {
      {ExpertDispatch::AllToAll, "all-to-all", "A copy for each expert"},
      {ExpertDispatch::PerNode, "per-node",
       "A copy for each node with experts of the token"},
      {ExpertDispatch::PerRank, "per-rank",
       "A copy for each node, and there one for each rank with experts of the "
       "token"}};
};

/// How the host launches kernels (docs/CostModel.md, "The host").
enum class KernelLaunch : uint8_t {
  Single, ///< one by one
  Graphs  ///< one graph per block, without the kernels on rows of experts
};

template <>
struct EnumNames<KernelLaunch> {
  static constexpr EnumName<KernelLaunch> values[] = {
      {KernelLaunch::Single, "single", "One by one"},
      {KernelLaunch::Graphs, "graphs",
       "Recorded, all but those on the rows of experts"}};
};

/// The collectives of tensor parallelism that run alongside linear layers
/// (docs/CostModel.md, "Tensor parallelism").
enum class TensorOverlap : uint8_t {
  None,
  Backward ///< in a backward, for the input of the next linear layer
};

template <>
struct EnumNames<TensorOverlap> {
  static constexpr EnumName<TensorOverlap> values[] = {
      {TensorOverlap::None, "none", "No collectives"},
      {TensorOverlap::Backward, "backward",
       "In a backward, for the input of a linear layer (Megatron-LM)"}};
};

/// Where the sequences of microbatches with slices are cut (docs/CostModel.md,
/// "Slices").
enum class SliceCut : uint8_t {
  Tokens, ///< equal numbers of tokens
  Work    ///< equal FLOPs of the forward
};

template <>
struct EnumNames<SliceCut> {
  static constexpr EnumName<SliceCut> values[] = {
      {SliceCut::Tokens, "tokens", "Equal numbers of tokens"},
      {SliceCut::Work, "work",
       "Equal FLOPs, so that later slices are shorter"}};
};

/// The data that workers exchange to balance slices whose prefixes have
/// different lengths (docs/CostModel.md, "Slices").
enum class SliceExchange : uint8_t {
  None,
  /// Of two workers, the worker with the shorter prefix takes over a part.
  Pairs
};

template <>
struct EnumNames<SliceExchange> {
  static constexpr EnumName<SliceExchange> values[] = {
      {SliceExchange::None, "none", "Each computes the attention of its own"},
      {SliceExchange::Pairs, "pairs",
       "The shorter of two takes half of the difference (SlimPipe)"}};
};

/// The order in which a worker issues the parts of layers of an overlapped
/// forward and backward (docs/CostModel.md, "Parts of layers").
enum class PairOrder : uint8_t { InTurn, DeepSeek, Megatron, Best, Fluid };

template <>
struct EnumNames<PairOrder> {
  static constexpr EnumName<PairOrder> values[] = {
      {PairOrder::InTurn, "in-turn",
       "The backward, then the forward: W alone hides an exchange"},
      {PairOrder::DeepSeek, "deepseek",
       "As the published profile of DeepSeek-V3"},
      {PairOrder::Megatron, "megatron", "As Megatron-Core's combined 1F1B"},
      {PairOrder::Best, "best",
       "The order in which the pair ends first, the same for all layers"},
      {PairOrder::Fluid, "fluid",
       "None: parts are divided as finely as needed"}};
};

/// The pieces in which the gradients and weights of a stage are exchanged among
/// its holders (docs/CostModel.md, "Under the backward and the forward").
enum class GradientBuckets : uint8_t {
  Auto,  ///< layers if all-reduces overlap with compute, else whole
  Whole, ///< when the last backward of the stage has ended
  Layers ///< by layer, while the last backward and the first forward run
};

template <>
struct EnumNames<GradientBuckets> {
  static constexpr EnumName<GradientBuckets> values[] = {
      {GradientBuckets::Auto, "auto",
       "By layers if the step overlaps its all-reduces, else whole"},
      {GradientBuckets::Whole, "whole",
       "Behind the last backward of the stage, in one piece"},
      {GradientBuckets::Layers, "layers",
       "Layer by layer under the last backward and the first forward"}};
};

//===----------------------------------------------------------------------===//
// Deployments
//===----------------------------------------------------------------------===//

/// The ratio 1 in parts per million, in which ratios are stored.
inline constexpr int64_t kOnePpm = 1000000;
inline constexpr int64_t kEvenBalance = kOnePpm;
inline constexpr int64_t kMaxDataParallel = 2147483647;
/// All accelerators of a node; no system has larger nodes
/// (kMaxAcceleratorsPerNode).
inline constexpr int64_t kWholeNode = 65536;
inline constexpr int64_t kAllPercent = 100;

/// One member for each row of Deployment.def.
struct Deployment {
#define DEPLOYMENT_COUNT(member, name, unsaid, ...) int64_t member = unsaid;
#define DEPLOYMENT_RATIO(member, name, unsaid, ...)                            \
  int64_t member##Ppm = unsaid * kOnePpm;
#define DEPLOYMENT_CHOICE(Enum, member, name, unsaid, ...)                     \
  Enum member = Enum::unsaid;
#define DEPLOYMENT_SIZES(Enum, member, name, unsaid, ...)                      \
  Enum member = Enum::unsaid;                                                  \
  std::vector<int64_t> member##Sizes; ///< replaces the value; empty: no sizes
#include "PipeSched/Facts/Deployment.def"
};

/// Deployments are equal if all their options are.
bool operator==(const Deployment &a, const Deployment &b);

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// How an option is stored: as a 64-bit integer, unless sizes are given.
enum class DeploymentKind : uint8_t {
  Count,  ///< an integer from 1
  Ratio,  ///< parts per million, from kOnePpm
  Choice, ///< the number of an enum value
  Sizes   ///< the same, or sizes instead
};

/// A row of Deployment.def, which explains the columns.
struct DeploymentOption {
  int64_t (*get)(const Deployment &);
  void (*put)(Deployment &, int64_t);
  DeploymentKind kind;
  llvm::StringRef name;
  int64_t unsaid, least, most; ///< as stored
  llvm::StringRef matters, summary, wanted, unit, title;
  /// Names of the values of a choice.
  llvm::ArrayRef<llvm::StringRef> values = {};
  std::string attribute = {};  ///< the name of the field in IR
  std::string unsaidText = {}; ///< the default as users write it
  /// For options that take sizes, else null. Setting the value removes the
  /// sizes, and vice versa.
  llvm::ArrayRef<int64_t> (*getSizes)(const Deployment &) = nullptr;
  void (*putSizes)(Deployment &, llvm::ArrayRef<int64_t>) = nullptr;

  /// Whether values have names.
  bool isChoice() const {
    return kind == DeploymentKind::Choice || kind == DeploymentKind::Sizes;
  }
  /// Returns the sizes; empty if none are set.
  llvm::ArrayRef<int64_t> sizesOf(const Deployment &deployment) const {
    return getSizes ? getSizes(deployment) : llvm::ArrayRef<int64_t>();
  }
  bool isGiven(const Deployment &deployment) const {
    return get(deployment) != unsaid || !sizesOf(deployment).empty();
  }
};

/// All options, in the order of the table.
llvm::ArrayRef<DeploymentOption> deploymentOptions();

/// Finds an option by name. Errors: an unknown name, with the closest one.
llvm::Expected<const DeploymentOption *>
findDeploymentOption(llvm::StringRef name);

/// Returns the names of all options as prose: "data-parallel, sharding and
/// ...".
std::string listDeploymentOptions();

/// Sets an option to a stored value. Errors: a value out of range.
llvm::Error setOption(Deployment &deployment, const DeploymentOption &option,
                      int64_t value);

/// Sets an option that is a ratio. Errors: a ratio out of range or NaN.
llvm::Error setOption(Deployment &deployment, const DeploymentOption &option,
                      double ratio);

/// Sets the sizes of an option that takes sizes. Errors: no sizes; a size below
/// 1.
llvm::Error setSizes(Deployment &deployment, const DeploymentOption &option,
                     llvm::ArrayRef<int64_t> sizes);

/// Sets an option of any kind from text. Errors: text that is not a value of
/// the option.
llvm::Error setOption(Deployment &deployment, const DeploymentOption &option,
                      llvm::StringRef value);

/// Sets an option of any kind by name and from text. Errors: an unknown name;
/// text that is not a value of the option; errors of the other functions.
llvm::Error setOption(Deployment &deployment, llvm::StringRef name,
                      llvm::StringRef value);

/// Checks all options. Errors: the first value that is out of range.
llvm::Error checkRanges(const Deployment &deployment);

} // namespace pipesched

#endif // PIPESCHED_FACTS_DEPLOYMENT_H
