//===- Comparison.h - Schedules side by side, as text -----------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tables for people: which schedule is fastest, where idle time goes, what fits
// in memory; then findings from the numbers, such as rankings that differ
// between levels.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_COMPARISON_H
#define PIPESCHED_TARGET_COMPARISON_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// What a comparison keeps of one result. Ratios are shares of workers times
/// makespan.
struct ComparisonEntry {
  std::string name, family;
  int64_t workers = 0, microbatches = 0;
  int64_t microbatchSize = 0; ///< 0: not known
  int64_t stepPs = 0;
  double idle = 0;
  std::array<double, kNumIdleCauses> idleByCause = {}; ///< as kIdleCauses
  double exposed = 0; ///< part of the step that free messages would save
  std::optional<double> tableBubble, formulaBubble;
  /// Of the bottleneck worker; absent without a model.
  std::optional<WorkerMemory> memory;
  int64_t bottleneckWorker = 0;
  int64_t capacityBytes = 0; ///< 0: not known
};

ComparisonEntry summarizeForComparison(const NamedEvaluation &result);

/// Writes aligned tables and findings; writes nothing if there are no entries.
void writeComparison(llvm::raw_ostream &os,
                     llvm::ArrayRef<ComparisonEntry> entries);

} // namespace pipesched

#endif // PIPESCHED_TARGET_COMPARISON_H
