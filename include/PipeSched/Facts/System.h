//===- System.h - Hardware with a training on it ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The facts of a system that a cost model reads: the hardware, and how a
// training is distributed over it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_FACTS_SYSTEM_H
#define PIPESCHED_FACTS_SYSTEM_H

#include "PipeSched/Facts/Deployment.h"
#include "PipeSched/Facts/Facts.h"

namespace pipesched {

static_assert(kWholeNode == kMaxAcceleratorsPerNode);

/// Hardware, and how a training is distributed over it.
struct SystemFacts : HardwareFacts, Deployment {
  SystemFacts() = default;
  SystemFacts(HardwareFacts hardware, Deployment deployment = {})
      : HardwareFacts(std::move(hardware)), Deployment(deployment) {}

  const HardwareFacts &hardware() const { return *this; }
  const Deployment &deployment() const { return *this; }
  int64_t tensorParallel() const { return accelerators / contextParallel; }
  /// The number of ranks over which the widths of an expert are sharded.
  int64_t expertWidths() const { return expertParallel > 1 ? expertTensor : 1; }
  /// The number of consecutive ranks of a stage that together hold each expert
  /// once.
  int64_t expertRanks() const { return expertParallel * expertWidths(); }
  /// The number of groups of pipelines that hold the same state, each sharded
  /// within the group.
  int64_t shardCopies() const {
    return sharding == Sharding::None ? 1 : shardGroups;
  }
  /// The number of pipelines over which state is sharded.
  int64_t shards() const { return dataParallel / shardCopies(); }

  friend bool operator==(const SystemFacts &a, const SystemFacts &b) {
    return a.hardware() == b.hardware() && a.deployment() == b.deployment();
  }
};

/// Returns the group of the nodes that hold a worker. If there are several,
/// returns the slowest, because the others wait for it. Errors: fewer
/// accelerators than the pipelines need.
llvm::Expected<size_t> groupOfWorker(const SystemFacts &system, int64_t worker);

/// Returns the same training on a system whose nodes all belong to one group.
SystemFacts systemOfGroup(const SystemFacts &system, size_t group);

/// Distributes a training over hardware whose number of accelerators per worker
/// is already set. Errors: as for checkSplit.
llvm::Expected<SystemFacts> deploy(HardwareFacts hardware,
                                   const Deployment &deployment);

/// Checks the degrees. Errors: an option out of range; a context-parallel
/// degree that does not divide the accelerators of a worker; an expert-parallel
/// degree that does not divide the accelerators of a stage in all pipelines;
/// groups that do not divide the pipelines or the copies of an expert. They
/// name the nearest degrees that divide.
llvm::Error checkSplit(const SystemFacts &system);

llvm::Error errorOfSystem(llvm::StringRef name, llvm::Error error);

} // namespace pipesched

#endif // PIPESCHED_FACTS_SYSTEM_H
