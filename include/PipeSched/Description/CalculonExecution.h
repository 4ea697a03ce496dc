//===- CalculonExecution.h - How other tools divide a run -------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Degrees of parallelism and batch sizes, as options of PipeSched passes.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DESCRIPTION_CALCULONEXECUTION_H
#define PIPESCHED_DESCRIPTION_CALCULONEXECUTION_H

#include "PipeSched/Facts/Facts.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// A worker stands for the accelerators of one pipeline stage of one replica.
struct CalculonExecution {
  int64_t workers = 1;        ///< of one pipeline
  int64_t accelerators = 1;   ///< of a worker: tensor parallelism
  int64_t replicas = 1;       ///< data parallelism
  int64_t chunks = 1;         ///< stages per worker
  int64_t globalBatch = 1;    ///< of all replicas
  int64_t microbatchSize = 1; ///< in sequences
  int64_t microbatches = 1;   ///< of one replica
  Recompute recompute = Recompute::None;
  bool sequenceParallel = true; ///< the residual stream is divided (rs_ag)
  bool shardsOptimizer = false; ///< replicas divide the optimizer's state
  /// Features that the file turns on and PipeSched does not model.
  std::vector<std::string> notes;

  /// The passes that create and schedule such a pipeline.
  std::string schedulePipeline() const;
  /// Options of pipe-attach-model and pipe-attach-system.
  std::string modelOptions() const;
  std::string systemOptions() const;
};

/// Reads Calculon's execution file. Errors name file and field: text that is no
/// JSON; a field that is unknown, missing, of a wrong type or out of range;
/// degrees whose product is not the number of processors; a batch that they do
/// not divide; inference.
llvm::Expected<CalculonExecution> executionFromJson(llvm::StringRef text,
                                                    llvm::StringRef file);

} // namespace pipesched

#endif // PIPESCHED_DESCRIPTION_CALCULONEXECUTION_H
