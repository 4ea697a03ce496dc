//===- Summaries.h - Summaries as columns -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluations in single numbers, with the names that they have in the report.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_SUMMARIES_H
#define PIPESCHED_PYTHON_SRC_SUMMARIES_H

#include "PipeSched/Evaluation/Sweep.h"
#include <nanobind/nanobind.h>

namespace pipesched::python {

constexpr double kUnknownRatio = std::numeric_limits<double>::quiet_NaN();

/// A ratio that is not known is NaN, an integer -1. Memory is the bottleneck
/// worker's.
struct Summary {
  int64_t workers = -1, stages = -1, microbatches = -1, microbatchSize = -1,
          slices = -1;
  double formulaBubbleRatio = kUnknownRatio,
         formulaBubbleRatioGeneral = kUnknownRatio,
         tableBubbleRatio = kUnknownRatio;
  int64_t slots = -1, peakActivations = -1; ///< the maximum over workers
  int64_t makespanPs = -1, spanPs = -1, exposedCommunicationPs = -1;
  double idleRatio = kUnknownRatio, spanBubbleRatio = kUnknownRatio;
  /// Parts of workers times makespan, in the order of kIdleCauses.
  std::optional<std::array<double, kNumIdleCauses>> idleByCause;
  double mfu = kUnknownRatio;
  int64_t messages = -1, bottleneckWorker = -1;
  int64_t persistentBytes = -1, peakActivationBytes = -1, peakBytes = -1,
          capacityBytes = -1;
};

Summary summaryOf(const NamedEvaluation &result);

/// The results of a sweep.
struct Swept {
  std::vector<Summary> summaries;  ///< all fields of a failed one are unknown
  std::vector<std::string> errors; ///< empty texts where there are numbers
};

/// Evaluates configurations on threads, without the GIL. Raises the exceptions
/// of `progress` and of Python's signal handlers, which end the sweep.
Swept sweepNumbers(
    size_t count, unsigned threads,
    llvm::function_ref<llvm::Expected<Configuration>(size_t)> configurationOf,
    nanobind::object progress = nanobind::none());

/// One array per field.
nanobind::dict toColumns(const std::vector<Summary> &summaries);

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_SUMMARIES_H
