//===- OptimizationLog.cpp - Results of searches --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A table of the process maps each context to its log.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Transforms/OptimizationLog.h"
#include "llvm/ADT/DenseMap.h"
#include <mutex>

using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct Logs {
  std::mutex mutex;
  llvm::DenseMap<mlir::MLIRContext *, OptimizationLog *> byContext;
};
} // namespace

static Logs &logs() {
  static Logs all;
  return all;
}

OptimizationLog::OptimizationLog(mlir::MLIRContext *context)
    : context(context) {
  std::lock_guard<std::mutex> guard(logs().mutex);
  outer = std::exchange(logs().byContext[context], this);
}

OptimizationLog::~OptimizationLog() {
  std::lock_guard<std::mutex> guard(logs().mutex);
  if (outer)
    logs().byContext[context] = outer;
  else
    logs().byContext.erase(context);
}

std::vector<OptimizationSummary> OptimizationLog::take() {
  std::lock_guard<std::mutex> guard(logs().mutex);
  return std::exchange(results, {});
}

void OptimizationLog::note(mlir::MLIRContext *context,
                           OptimizationSummary &&found) {
  std::lock_guard<std::mutex> guard(logs().mutex);
  if (OptimizationLog *log = logs().byContext.lookup(context))
    log->results.push_back(std::move(found));
}
