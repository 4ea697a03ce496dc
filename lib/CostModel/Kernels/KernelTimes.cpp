//===- KernelTimes.cpp - Times of kernels and of blocks -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Roofline compute and the collectives within a layer, in picoseconds
// (docs/CostModel.md).
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Kernels/KernelTimes.h"
#include "../Comm/StorePs.h"
#include "PipeSched/CostModel/Comm/ExpertTraffic.h"
#include "PipeSched/CostModel/Comm/Rings.h"
#include <cmath>

using namespace pipesched;

/// The time of a transfer with its latency; an empty transfer takes no time.
static double sendPs(double bytes, const LinkFacts &link) {
  return bytes == 0 ? 0 : transferPs(bytes, link) + double(link.latencyPs);
}

/// The time of a ring gather of one part from each member: first across pods,
/// then across the nodes of each pod, then within each node. A reduce-scatter
/// takes as long.
static double gatherPs(double part, RingGroup group,
                       const SystemFacts &system) {
  double ps = 0;
  auto sizes = group.sizes();
  for (auto [level, size] :
       llvm::reverse(llvm::zip_equal(kNetworkLevels, sizes))) {
    if (size > 1)
      ps += double(size - 1) * sendPs(part, linkOfAccelerator(level, system));
    part *= double(size);
  }
  return ps;
}

//===----------------------------------------------------------------------===//
// Tensor parallelism
//===----------------------------------------------------------------------===//

/// The time of a ring all-reduce of `bytes` among n `ranks`; each rank sends 2
/// (n - 1) / n times `bytes`.
static double allReducePs(double bytes, int64_t ranks, const LinkFacts &link) {
  if (ranks == 1 || bytes == 0)
    return 0;
  double share = 2.0 * double(ranks - 1) / double(ranks);
  return share * transferPs(bytes, link) + double(link.latencyPs);
}

/// The time of an all-reduce in a tensor-parallel group: first within each
/// node, then of the parts across nodes, then across pods.
static double tensorReducePs(double bytes, const SystemFacts &system) {
  double ps = 0, parts = 1;
  for (auto [level, size] :
       llvm::zip_equal(kNetworkLevels, tensorGroup(system).sizes())) {
    ps += allReducePs(bytes / parts, size, linkOfAccelerator(level, system));
    parts *= double(size);
  }
  return ps;
}

//===----------------------------------------------------------------------===//
// Expert parallelism
//===----------------------------------------------------------------------===//

static double balanceOf(const SystemFacts &system) {
  return double(system.expertBalancePpm) / double(kEvenBalance);
}

/// The mean number of nodes (or ranks), of `numNodes`, that hold the experts of
/// a token. The groups of the token reach `open` nodes, and its k experts are
/// any on these. A node has s experts. The probability that none of them is
/// chosen is
///
///   C(open s - s, k) / C(open s, k).
static double nodesOfToken(const ExpertFacts &experts, int64_t numNodes) {
  double open = double(numNodes);
  if (experts.groupsPerToken < experts.groups) {
    double nodesPerGroup =
        std::max(double(numNodes) / double(experts.groups), 1.0);
    open = std::min(open,
                    std::ceil(nodesPerGroup * double(experts.groupsPerToken)));
  }
  double onNode = double(experts.count) / double(numNodes);
  double none = 1;
  for (int64_t i = 0; i < experts.perToken && none > 0; ++i)
    none *= std::max(open * onNode - onNode - double(i), 0.0) /
            (open * onNode - double(i));
  return open * (1 - none);
}

/// The number of rows per token that arrive at a rank, divided by the experts
/// there.
static double rowsPerExpert(const ExpertFacts &experts,
                            const SystemFacts &system) {
  return system.expertDispatch == ExpertDispatch::PerRank
             ? nodesOfToken(experts, system.expertParallel) /
                   double(experts.perToken)
             : 1;
}

ExpertTraffic pipesched::expertTraffic(const ExpertFacts &experts,
                                       const SystemFacts &system) {
  RingGroup group = expertGroup(system);
  int64_t numNodes = group.numNodes * group.numPods;
  auto perNode = double(group.perNode), nodes = double(numNodes);
  auto pods = double(group.numPods);
  bool isPerNode = system.expertDispatch == ExpertDispatch::PerNode;
  if (system.expertDispatch == ExpertDispatch::AllToAll ||
      (isPerNode && numNodes == 1))
    return {(perNode - 1) / (perNode * nodes), (nodes - 1) / nodes,
            (pods - 1) / pods};
  double copies = nodesOfToken(experts, numNodes) / double(experts.perToken);
  double onNode = rowsPerExpert(experts, system);
  return {onNode * (perNode - 1) / perNode, copies * (nodes - 1) / nodes,
          copies * (pods - 1) / pods};
}

/// The number of messages in which an accelerator sends its rows to other
/// nodes, or to other pods: one for each rank there, or for each node that
/// forwards rows.
static double messagesOf(NetworkLevel level, const SystemFacts &system) {
  RingGroup group = expertGroup(system);
  int64_t inPod = level == NetworkLevel::Spine ? group.numNodes : 1;
  int64_t numNodes = group.numNodes * group.numPods - inPod;
  bool isForEachRank = system.expertDispatch == ExpertDispatch::AllToAll;
  return double(isForEachRank ? numNodes * group.perNode : numNodes);
}

/// The time in which rows travel to their experts or back. Rows over the link
/// and rows over the network travel at the same time, and some of the latter
/// continue over the spine. A network adapter sends one message after the
/// other, as in a ring, while a link reaches all ranks of a node at once. The
/// rank with the most rows ends last. Ranks that shard the widths of an expert
/// then gather all rows that arrived at any of them, or sum their results
/// before these return.
static double allToAllPs(double bytes, const BlockFacts &block,
                         const SystemFacts &system) {
  if (system.expertParallel == 1)
    return 0;
  double rows = bytes / double(system.accelerators) * balanceOf(system);
  ExpertTraffic traffic = expertTraffic(*block.experts, system);
  auto send = [&](double part, NetworkLevel level) {
    LinkFacts link = linkOfAccelerator(level, system);
    double ps = sendPs(rows * part, link);
    bool isOne = ps == 0 || level == NetworkLevel::Link;
    double others = isOne ? 0 : messagesOf(level, system) - 1;
    return ps + others * double(link.latencyPs);
  };
  return std::max({send(traffic.link, NetworkLevel::Link),
                   send(traffic.network, NetworkLevel::Network),
                   send(traffic.spine, NetworkLevel::Spine)}) +
         gatherPs(rows * rowsPerExpert(*block.experts, system),
                  expertWidthGroup(system), system);
}

//===----------------------------------------------------------------------===//
// Context parallelism
//===----------------------------------------------------------------------===//

namespace {
/// Passes parts of keys and values between c ranks; each rank starts with one
/// part. Times are waits of the attention.
class ContextTimes {
public:
  explicit ContextTimes(const SystemFacts &system)
      : system(system), group(contextGroup(system)),
        network(linkOfAccelerator(NetworkLevel::Network, system)),
        spine(linkOfAccelerator(NetworkLevel::Spine, system)) {}

  /// In c steps, each rank processes one part after the other, `step` ps each,
  /// and passes the part on at the same time:
  ///
  ///   step       0       1      ...   c - 1
  ///   sends     part    part    ...     -
  double ringForward(double part, double step) const {
    double steps = double(group.size()) - 1;
    return steps * std::max(hop(part) - step, 0.0);
  }

  /// The gradients of a part follow the part one step later, and after the last
  /// step return to the rank where the part started:
  ///
  ///   step       0          1        ...   c - 2       c - 1        after
  ///   sends     part   part + grad   ...  part + grad   grad        grad
  double ringBackward(double part, double step) const {
    double middle = double(group.size()) - 2;
    return std::max(hop(part) - step, 0.0) +
           middle * std::max(hop(2 * part) - step, 0.0) +
           std::max(hop(part) - step, 0.0) + hop(part);
  }

  double gather(double part) const { return gatherPs(part, group, system); }

  /// Each rank sends every other rank an equal part of its data, over all
  /// levels at once, and keeps one part.
  double allToAll(double bytes) const {
    auto share = [&](int64_t others, int64_t all) {
      return bytes * double(others - 1) / double(all);
    };
    double onLink = share(group.perNode, group.size());
    double ps = group.perNode > 1 ? sendPs(onLink, system.link) : 0;
    int64_t nodes = group.numNodes * group.numPods;
    if (nodes > 1)
      ps = std::max(ps, sendPs(share(nodes, nodes), network));
    return group.numPods > 1
               ? std::max(ps,
                          sendPs(share(group.numPods, group.numPods), spine))
               : ps;
  }

private:
  /// All ranks pass on a part at the same time, some of them to another node or
  /// pod.
  double hop(double bytes) const {
    double ps = group.perNode > 1 ? sendPs(bytes, system.link) : 0;
    if (group.numNodes > 1)
      ps = std::max(ps, sendPs(bytes, network));
    return group.numPods > 1 ? std::max(ps, sendPs(bytes, spine)) : ps;
  }

  const SystemFacts &system;
  RingGroup group;
  LinkFacts network, spine;
};
} // namespace

/// The time that attention of `attentionPs` waits for keys and values. In the
/// backward, keys and values are half of `bytes`, and the gradients that it
/// passes on are the other half. For an all-to-all, its whole time, because
/// nothing hides it.
static double contextPs(double bytes, const Kernel &kernel, double attentionPs,
                        bool isBackward, const SystemFacts &system) {
  if (system.contextParallel == 1 || bytes == 0)
    return 0;
  ContextTimes times(system);
  double part = bytes / double(system.accelerators);
  if (!passesKeys(kernel))
    return times.allToAll(part);
  if (isBackward)
    part /= 2;
  if (system.contextExchange == ContextExchange::Gather)
    return isBackward ? 2 * times.gather(part) : times.gather(part);
  double step = attentionPs / double(system.contextParallel);
  return isBackward ? times.ringBackward(part, step)
                    : times.ringForward(part, step);
}

/// The part of `bytes` that all accelerators of a worker send. Each of c ranks
/// passes its parts on c - 1 times; in a ring, gradients need one more step to
/// return. In an all-to-all each rank keeps its own part.
static double contextBytes(double bytes, const Kernel &kernel, bool isBackward,
                           const SystemFacts &system) {
  if (!passesKeys(kernel))
    return bytes * (1 - 1 / double(system.contextParallel));
  double steps = double(system.contextParallel) - 1;
  bool isRing = system.contextExchange == ContextExchange::Ring;
  return (steps + (isBackward && isRing ? 0.5 : 0)) * bytes;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// FLOP/s of an attention kernel on one accelerator, for its part of each
/// sequence. checkRates has checked that there is a rate.
static double attentionRate(const AttentionShape &shape, bool isBackward,
                            const SystemFacts &system) {
  const AttentionRates *rates =
      findAttentionRates(system, shape.kernel, shape.headSize);
  assert(rates && "checked before");
  double tokens = double(shape.sequence) / double(system.contextParallel);
  return double(rates->flopsPerSecond) *
         (isBackward ? rates->backward : rates->forward).at(tokens);
}

/// FLOP/s of a kernel with `flops` on one accelerator.
static double rateOf(Engine engine, double flops, const SystemFacts &system) {
  const EngineFacts &matrix = system.matrix;
  if (isNarrow(engine))
    return double(matrix.peakOf(engine)) *
           (matrix.fp8Efficiency ? *matrix.fp8Efficiency : matrix.efficiency)
               .at(flops);
  const EngineFacts &unit =
      engine == Engine::Vector ? system.vector : system.matrix;
  return double(unit.flopsPerSecond) * unit.efficiency.at(flops);
}

namespace {
/// The work of one accelerator in a kernel, as a number of products of equal
/// size.
struct DeviceShare {
  double flops, bytes, products = 1;
};

/// The times of a block's kernels on the accelerators of one worker.
class KernelTimes {
public:
  KernelTimes(const BlockFacts &block, const SystemFacts &system)
      : block(block), system(system) {
    if (system.contextParallel == 1)
      return;
    for (const Kernel &kernel : block.kernels)
      if (kernel.core && kernel.engine != Engine::Context) {
        auto count = double(kernel.count);
        attentionForwardPs += count * kernelPs(kernel.forward, kernel);
        attentionBackwardPs +=
            count * kernelPs(kernel.inputGrad, kernel, /*isBackward=*/true);
      }
  }

  /// The time of one run of a kernel with this work.
  double kernelPs(const Work &work, const Kernel &kernel,
                  bool isBackward = false) const;
  /// The host's time for one run of a kernel with this work.
  double hostPs(const Work &work, const Kernel &kernel) const;

private:
  bool isNeeded(const Kernel &kernel) const;
  double expertsOfRank(const Kernel &kernel) const;
  double linearPs(const Kernel &kernel, int64_t step, Work Kernel::*part) const;
  double exposedShare(double whole, const Kernel &kernel,
                      Work Kernel::*part) const;
  double exposedInBackward(double whole, const Kernel &kernel) const;
  double reducePs(const Work &work, const Kernel &kernel,
                  bool isBackward) const;
  double computePs(const Work &work, const Kernel &kernel,
                   bool isBackward) const;
  DeviceShare shareOf(const Work &work, const Kernel &kernel) const;

  const BlockFacts &block;
  const SystemFacts &system;
  double attentionForwardPs = 0, attentionBackwardPs = 0;
};
} // namespace

/// Whether the kernel has work. Transfers and sorting have work only if
/// something is sharded.
bool KernelTimes::isNeeded(const Kernel &kernel) const {
  bool dividesExperts = system.expertParallel > 1;
  switch (kernel.engine) {
  case Engine::Link:
    // Ranks over which the experts are sharded do not sum their results.
    return system.tensorParallel() > 1 && !(kernel.routed && dividesExperts);
  case Engine::AllToAll:
    return dividesExperts;
  case Engine::Context:
    return system.contextParallel > 1;
  case Engine::Matrix:
  case Engine::MatrixFp8:
  case Engine::MatrixFp4:
  case Engine::Vector:
  case Engine::Attention:
    // Copies for a rank or node are sorted on arrival, which needs no kernel.
    return !kernel.exchanged ||
           (dividesExperts &&
            system.expertDispatch == ExpertDispatch::AllToAll);
  }
  llvm_unreachable("all engines are handled");
}

/// The number of experts of an accelerator that have a row, for a kernel that
/// reads their weights.
double KernelTimes::expertsOfRank(const Kernel &kernel) const {
  if (!kernel.routed || kernel.weightBytes == 0)
    return 1;
  const ExpertFacts &experts = *block.experts;
  double share = balanceOf(system) / double(system.accelerators) *
                 double(system.expertWidths());
  double rows = double(experts.rows) * (system.expertParallel > 1 ? share : 1);
  double held = double(experts.count) / double(system.expertParallel);
  return std::max(std::min(held, rows), 1.0);
}

double KernelTimes::hostPs(const Work &work, const Kernel &kernel) const {
  if (work.isZero() || !isNeeded(kernel))
    return 0;
  // The number of rows is unknown when a graph is recorded.
  bool isDynamic = kernel.routed || kernel.engine == Engine::AllToAll;
  if (system.kernelLaunch == KernelLaunch::Graphs && !isDynamic)
    return 0;
  double further = double(kernel.launches) * expertsOfRank(kernel) - 1;
  return double(system.operationPs) + further * double(system.launchPs);
}

/// Accelerators share work evenly, and work on parameters as these are sharded.
/// The rank with the most rows of experts has more than the mean, and reads the
/// weights of all of its experts that have a row. Ranks that shard the widths
/// of an expert sort the rows of all of them.
DeviceShare KernelTimes::shareOf(const Work &work, const Kernel &kernel) const {
  if (kernel.onParameters) {
    bool isExpert = kernel.routed && system.expertParallel > 1;
    double parts =
        double(isExpert ? system.expertRanks() : system.tensorParallel());
    return {double(work.flops) / parts, double(work.bytes) / parts};
  }
  double sharers =
      double(kernel.whole ? system.contextParallel : system.accelerators);
  double products = expertsOfRank(kernel);
  if (!kernel.routed || system.expertParallel == 1)
    return {double(work.flops) / sharers, double(work.bytes) / sharers,
            products};
  const ExpertFacts &experts = *block.experts;
  auto count = double(experts.count), rows = double(experts.rows);
  auto widths = double(system.expertWidths());
  double share = balanceOf(system) / sharers;
  double read =
      std::min(count / double(system.expertParallel), widths * share * rows) /
      std::min(count, rows) / widths;
  double weights = work.isZero() ? 0 : double(kernel.weightBytes);
  double moved = (kernel.exchanged ? widths : 1) * share;
  return {double(work.flops) * share,
          (double(work.bytes) - weights) * moved + weights * read, products};
}

/// max(F/(n peak e(F/n)) + L_c, V/(n BW e(V/n)) + L_m), or the sum if the
/// system does not overlap memory and compute. Zero work takes no time. A
/// grouped GEMM has the rate of one expert's product.
double KernelTimes::computePs(const Work &work, const Kernel &kernel,
                              bool isBackward) const {
  const EngineFacts &unit =
      kernel.engine == Engine::Vector ? system.vector : system.matrix;
  auto [flops, bytes, products] = shareOf(work, kernel);
  double compute = 0, memory = 0;
  double rate = kernel.attention
                    ? attentionRate(*kernel.attention, isBackward, system)
                    : rateOf(kernel.engine, flops / products, system);
  if (flops > 0)
    compute = flops / rate * kPsPerSecond + double(unit.latencyPs);
  if (bytes > 0)
    memory = transferPs(bytes, system.memory) + double(system.memory.latencyPs);
  return system.overlapsMemory ? std::max(compute, memory) : compute + memory;
}

/// The work of the nearest linear layer before (`step` is -1) or after (1) a
/// collective. The next layer after the last one of a block is the first one of
/// the next block.
double KernelTimes::linearPs(const Kernel &kernel, int64_t step,
                             Work Kernel::*part) const {
  auto count = int64_t(block.kernels.size());
  int64_t place = &kernel - block.kernels.data();
  for (int64_t i = 1; i < count; ++i) {
    const Kernel &other = block.kernels[(place + step * i + count) % count];
    bool isLinear = isMatrix(other.engine) && !other.core;
    if (isLinear && !(other.*part).isZero())
      return computePs(other.*part, other, /*isBackward=*/false);
  }
  return 0;
}

/// An all-reduce is a reduce-scatter, which the linear layer before it can
/// hide, and a gather, which the next one can. A part of each is always
/// exposed.
double KernelTimes::exposedShare(double whole, const Kernel &kernel,
                                 Work Kernel::*part) const {
  double exposed = whole * double(system.tensorExposed) / double(kAllPercent);
  double half = (whole - exposed) / 2;
  for (int64_t step : {-1, 1})
    exposed += std::max(half - linearPs(kernel, step, part), 0.0);
  return exposed;
}

/// The gradient of the output of the layer before is gathered while nothing
/// else runs. The gradient of the input of the next layer is scattered while
/// the gradient of its weights is computed. Its input is gathered again while
/// the gradient of the input is computed. The rule is in Megatron-Core's
/// LinearWithGradAccumulationAndAsyncCommunication (tensor_parallel/layers.py).
double KernelTimes::exposedInBackward(double whole,
                                      const Kernel &kernel) const {
  double half = whole / 2, exposed = half;
  for (auto part : {&Kernel::weightGrad, &Kernel::inputGrad})
    exposed += std::max(half - linearPs(kernel, 1, part), 0.0);
  return exposed;
}

double KernelTimes::reducePs(const Work &work, const Kernel &kernel,
                             bool isBackward) const {
  double whole = tensorReducePs(
      double(work.bytes) / double(system.contextParallel), system);
  if (system.tensorExposed != kAllPercent)
    return exposedShare(whole, kernel,
                        isBackward ? &Kernel::inputGrad : &Kernel::forward);
  if (isBackward && system.tensorOverlap == TensorOverlap::Backward)
    return exposedInBackward(whole, kernel);
  return whole;
}

double KernelTimes::kernelPs(const Work &work, const Kernel &kernel,
                             bool isBackward) const {
  auto bytes = double(work.bytes);
  if (!isNeeded(kernel))
    return 0;
  switch (kernel.engine) {
  case Engine::Link:
    return reducePs(work, kernel, isBackward);
  case Engine::AllToAll:
    return allToAllPs(bytes, block, system);
  case Engine::Context:
    return contextPs(bytes, kernel,
                     isBackward ? attentionBackwardPs : attentionForwardPs,
                     isBackward, system);
  case Engine::Matrix:
  case Engine::MatrixFp8:
  case Engine::MatrixFp4:
  case Engine::Vector:
  case Engine::Attention:
    return computePs(work, kernel, isBackward);
  }
  llvm_unreachable("all engines are handled");
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

using PhaseWork = std::optional<Work> Kernel::*;

bool pipesched::anyStates(const BlockFacts &block, PhaseWork phase) {
  return llvm::any_of(block.kernels, [&](const Kernel &kernel) {
    return (kernel.*phase).has_value();
  });
}

/// The cost or the count of one run of a kernel with this work.
using RunCost =
    llvm::function_ref<double(const Work &, const Kernel &, bool isBackward)>;

/// The cost of one run of a kernel in a phase whose work the block does not
/// state.
static double sumImplied(const Kernel &kernel, Phase phase, Recompute recompute,
                         RunCost costOf) {
  bool runsAgain =
      recompute == Recompute::Selective ? kernel.core : kernel.recomputed;
  bool isBackward = phase == Phase::Backward;
  double sum = 0;
  if (phase == Phase::Forward || (phase == Phase::Recompute && runsAgain))
    sum += costOf(kernel.forward, kernel, false);
  if (isBackward || phase == Phase::InputGrad)
    sum += costOf(kernel.inputGrad, kernel, true);
  if (isBackward || phase == Phase::WeightGrad)
    sum += costOf(kernel.weightGrad, kernel, false);
  if (phase == Phase::Logits)
    sum += costOf(kernel.logits, kernel, false);
  if (phase == Phase::LogitsGrad)
    sum += costOf(kernel.logitsGrad, kernel, false);
  return sum;
}

static double sumPhase(const BlockFacts &block, Phase phase,
                       Recompute recompute, RunCost costOf) {
  PhaseWork stated = phase == Phase::Backward    ? &Kernel::backward
                     : phase == Phase::Recompute ? &Kernel::recompute
                     : phase == Phase::Optimizer ? &Kernel::optimizer
                                                 : nullptr;
  bool isStated = stated && anyStates(block, stated);
  double sum = 0;
  for (const Kernel &kernel : block.kernels)
    sum += double(kernel.count) *
           (isStated ? costOf((kernel.*stated).value_or(Work()), kernel,
                              phase == Phase::Backward)
                     : sumImplied(kernel, phase, recompute, costOf));
  return sum;
}

double pipesched::rooflinePs(const BlockFacts &block, Phase phase,
                             const SystemFacts &system, Recompute recompute) {
  KernelTimes times(block, system);
  return sumPhase(block, phase, recompute,
                  [&](const Work &work, const Kernel &kernel, bool isBackward) {
                    return times.kernelPs(work, kernel, isBackward);
                  });
}

HostTime pipesched::hostTime(const BlockFacts &block, Phase phase,
                             const SystemFacts &system, Recompute recompute) {
  HostTime time;
  if (system.launchPs == 0)
    return time;
  KernelTimes times(block, system);
  auto sum = [&](auto count) {
    return sumPhase(block, phase, recompute, count);
  };
  time.launchPs = sum([&](const Work &work, const Kernel &kernel, bool) {
    return times.hostPs(work, kernel);
  });
  if (system.kernelLaunch == KernelLaunch::Graphs)
    time.launchPs += double(system.operationPs);
  double waits =
      sum([&](const Work &work, const Kernel &kernel, bool isBackward) {
        return kernel.synchronizes && !isBackward && !work.isZero() ? 1.0 : 0.0;
      });
  time.synchronizePs = waits * double(system.synchronizePs);
  time.waits = waits > 0;
  return time;
}

double pipesched::blockPs(const BlockFacts &block, Phase phase,
                          const SystemFacts &system, Recompute recompute) {
  HostTime host = hostTime(block, phase, system, recompute);
  return std::max(rooflinePs(block, phase, system, recompute), host.launchPs) +
         host.synchronizePs;
}

double pipesched::enginePs(const BlockFacts &block, Phase phase, Engine engine,
                           const SystemFacts &system, Recompute recompute) {
  KernelTimes times(block, system);
  return sumPhase(block, phase, recompute,
                  [&](const Work &work, const Kernel &kernel, bool isBackward) {
                    return kernel.engine == engine
                               ? times.kernelPs(work, kernel, isBackward)
                               : 0;
                  });
}

ContextSums pipesched::contextSums(const BlockFacts &block, Phase phase,
                                   const SystemFacts &system,
                                   Recompute recompute) {
  auto sum = [&](auto count) {
    return sumPhase(
        block, phase, recompute,
        [&](const Work &work, const Kernel &kernel, bool isBackward) {
          return kernel.engine == Engine::Context
                     ? count(double(work.bytes), kernel, isBackward, system)
                     : 0;
        });
  };
  // Without attention to overlap with, the whole exchange is exposed.
  auto unhiddenPs = [](double bytes, const Kernel &kernel, bool isBackward,
                       const SystemFacts &facts) {
    return contextPs(bytes, kernel, /*attentionPs=*/0, isBackward, facts);
  };
  return {sum(unhiddenPs),
          enginePs(block, phase, Engine::Context, system, recompute),
          sum(contextBytes)};
}
