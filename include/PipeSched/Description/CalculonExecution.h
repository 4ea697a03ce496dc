//===- CalculonExecution.h - How a run is divided, from other tools -----*- C++
//-*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Degrees of parallelism and batch sizes, as options of our passes.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_CALCULONEXECUTION_H
#define PIPESCHED_DESCRIPTION_CALCULONEXECUTION_H

#include "PipeSched/Facts/Facts.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// A worker of ours is the accelerators of one pipeline stage of one replica.
struct CalculonExecution {
  int64_t workers = 1;        ///< of one pipeline
  int64_t accelerators = 1;   ///< of a worker: tensor parallelism
  int64_t replicas = 1;       ///< data parallelism
  int64_t chunks = 1;         ///< stages per worker
  int64_t globalBatch = 1;    ///< sequences of all replicas
  int64_t microbatchSize = 1; ///< sequences
  int64_t microbatches = 1;   ///< of one replica
  Recompute recompute = Recompute::None;
  bool sequenceParallel = true; ///< residual streams are divided (rs_ag)
  bool shardsOptimizer = false; ///< replicas divide its state
  /// What the file asks for and nothing here does.
  std::vector<std::string> notes;

  /// Passes that make and schedule such a pipeline.
  std::string schedulePipeline() const;
  /// Options of pipe-attach-model and pipe-attach-system.
  std::string modelOptions() const;
  std::string systemOptions() const;
};

/// Calculon's execution file. Errors name file and field: text that is no JSON;
/// a field that is unknown, missing, of a wrong type or out of range; degrees
/// that do not multiply to the processors; a batch that they do not divide;
/// inference.
llvm::Expected<CalculonExecution> executionFromJson(llvm::StringRef text,
                                                    llvm::StringRef file);

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_CALCULONEXECUTION_H
