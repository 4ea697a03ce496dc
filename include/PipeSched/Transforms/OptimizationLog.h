//===- OptimizationLog.h - Results of searches ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes the results of pipe-optimize to the caller of a pipeline. The remarks
// report the same results to users.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_OPTIMIZATIONLOG_H
#define PIPESCHED_TRANSFORMS_OPTIMIZATIONLOG_H

#include "PipeSched/Optimize/Schedule/Candidates.h"

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace pipesched::pipe {

/// While an object of this class exists, it receives the results of the passes
/// of a context. If a context has several, the last one receives them. Passes
/// may run on any threads.
class OptimizationLog {
public:
  explicit OptimizationLog(mlir::MLIRContext *context);
  ~OptimizationLog();
  OptimizationLog(const OptimizationLog &) = delete;
  OptimizationLog &operator=(const OptimizationLog &) = delete;

  /// The results so far, in the order in which they were found.
  std::vector<OptimizationSummary> take();

  /// Adds a result to the log of the context, if it has one.
  static void note(mlir::MLIRContext *context, OptimizationSummary &&found);

private:
  mlir::MLIRContext *context;
  OptimizationLog *outer; ///< the previous log of the context
  std::vector<OptimizationSummary> results;
};

} // namespace pipesched::pipe

#endif // PIPESCHED_TRANSFORMS_OPTIMIZATIONLOG_H
