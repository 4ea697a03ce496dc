//===- ProgressLine.h - Progress of a search --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One line that is overwritten with each report and erased at the end.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_OPTIMIZE_PROGRESSLINE_H
#define PIPESCHED_TOOLS_PIPESCHED_OPTIMIZE_PROGRESSLINE_H

#include "PipeSched/Optimize/Search/Solver.h"

namespace pipesched::optimize {

/// Writes to standard error if that is a terminal:
///
///   V02_d4n8_u_m2 [=====     ] 15 s of 30 s, best 2950, bound 2900, gap 1.7 %
class ProgressLine {
public:
  /// The bar is full when the time or the evaluations of `limits` are used.
  ProgressLine(llvm::StringRef name, const SolverOptions &limits);
  ~ProgressLine() { clear(); }

  void show(const Progress &progress);

private:
  void clear();
  double shareOf(const Progress &progress) const;

  std::string name;
  double timeLimitSeconds;
  uint64_t maxEvaluations;
  bool isTerminal;
  size_t width = 0; ///< of the line on the terminal
};

} // namespace pipesched::optimize

#endif // PIPESCHED_TOOLS_PIPESCHED_OPTIMIZE_PROGRESSLINE_H
