//===- KernelTimes.cpp - Times of kernels and of blocks -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Roofline compute and the collectives among the accelerators of a worker, in
// picoseconds (docs/CostModel.md).
//
//===----------------------------------------------------------------------===//

#include "KernelTimes.h"

using namespace pipesched;

static constexpr double kPsPerSecond = 1e12;

double pipesched::transferPs(double bytes, const LinkFacts &link) {
  return bytes / (double(link.bytesPerSecond) * link.efficiency.at(bytes)) *
         kPsPerSecond;
}

/// A ring all-reduce of `bytes` among n `ranks`, each of which sends 2 (n - 1)
/// / n times `bytes`.
static double allReducePs(double bytes, int64_t ranks, const LinkFacts &link) {
  if (ranks == 1 || bytes == 0)
    return 0;
  double share = 2.0 * double(ranks - 1) / double(ranks);
  return share * transferPs(bytes, link) + double(link.latencyPs);
}

/// The share that one accelerator of a worker has in the network.
static LinkFacts networkOfAccelerator(const SystemFacts &system) {
  LinkFacts network = system.network;
  network.bytesPerSecond /= system.accelerators;
  return network;
}

/// An all-reduce among the accelerators of a worker: first within each node,
/// then of the parts across nodes.
static double tensorReducePs(double bytes, const SystemFacts &system) {
  RingGroup group = tensorGroup(system);
  double inside = allReducePs(bytes, group.perNode, system.link);
  if (group.numNodes == 1)
    return inside;
  return inside + allReducePs(bytes / double(group.perNode), group.numNodes,
                              networkOfAccelerator(system));
}

/// Peak FLOP/s of one accelerator.
static double peakOf(Engine engine, const SystemFacts &system) {
  if (engine == Engine::MatrixFp8)
    return double(system.matrix.fp8FlopsPerSecond);
  return double(engine == Engine::Matrix ? system.matrix.flopsPerSecond
                                         : system.vector.flopsPerSecond);
}

/// max(F/(n peak e(F/n)) + L_c, V/(n BW e(V/n)) + L_m), or the sum if the
/// system does not overlap memory and compute. Zero work takes no time. Work
/// that every accelerator does in full has n = 1.
static double kernelPs(const Work &work, const Kernel &kernel,
                       const SystemFacts &system) {
  if (kernel.engine == Engine::Link)
    return tensorReducePs(double(work.bytes), system);
  const EngineFacts &unit =
      kernel.engine == Engine::Vector ? system.vector : system.matrix;
  double sharers = kernel.whole ? 1 : double(system.accelerators);
  double flops = double(work.flops) / sharers;
  double bytes = double(work.bytes) / sharers;
  double compute = 0, memory = 0;
  if (flops > 0)
    compute = flops /
                  (peakOf(kernel.engine, system) * unit.efficiency.at(flops)) *
                  kPsPerSecond +
              double(unit.latencyPs);
  if (bytes > 0)
    memory = transferPs(bytes, system.memory) + double(system.memory.latencyPs);
  return system.overlapsMemory ? std::max(compute, memory) : compute + memory;
}

using PhaseWork = std::optional<Work> Kernel::*;

bool pipesched::anyStates(const BlockFacts &block, PhaseWork phase) {
  return llvm::any_of(block.kernels, [&](const Kernel &kernel) {
    return (kernel.*phase).has_value();
  });
}

/// The time of one run of a kernel in a phase of which its block says nothing.
static double impliedPs(const Kernel &kernel, Phase phase,
                        const SystemFacts &system, Recompute recompute) {
  bool runsAgain =
      recompute == Recompute::Selective ? kernel.core : kernel.recomputed;
  bool isBackward = phase == Phase::Backward;
  double sum = 0;
  if (phase == Phase::Forward || (phase == Phase::Recompute && runsAgain))
    sum += kernelPs(kernel.forward, kernel, system);
  if (isBackward || phase == Phase::InputGrad)
    sum += kernelPs(kernel.inputGrad, kernel, system);
  if (isBackward || phase == Phase::WeightGrad)
    sum += kernelPs(kernel.weightGrad, kernel, system);
  return sum;
}

double pipesched::rooflinePs(const BlockFacts &block, Phase phase,
                             const SystemFacts &system, Recompute recompute) {
  PhaseWork stated = phase == Phase::Backward    ? &Kernel::backward
                     : phase == Phase::Recompute ? &Kernel::recompute
                     : phase == Phase::Optimizer ? &Kernel::optimizer
                                                 : nullptr;
  bool isStated = stated && anyStates(block, stated);
  double sum = 0;
  for (const Kernel &kernel : block.kernels)
    sum +=
        double(kernel.count) *
        (isStated ? kernelPs((kernel.*stated).value_or(Work()), kernel, system)
                  : impliedPs(kernel, phase, system, recompute));
  return sum;
}
