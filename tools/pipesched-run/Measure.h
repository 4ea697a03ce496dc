//===- Measure.h - Measured beside predicted times --------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// From logs of workers to a profile, and to an execution that stands beside the
// predicted one.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TOOLS_PIPESCHED_RUN_MEASURE_H
#define PIPESCHED_TOOLS_PIPESCHED_RUN_MEASURE_H

#include "Backend.h"
#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched::run {

/// The steps of a run that count: all but the first, in which memory is touched
/// for the first time, unless there is only one.
class Measurement {
public:
  Measurement(const PreparedProgram &program, const RunResult &result);

  /// Means by phase and stage. A message takes from its send to the start of
  /// the cell that waits for it, where that cell already waited when it was
  /// sent; the median of these. Copies and sums likewise end when an
  /// instruction that waits for them goes on.
  Profile profile() const;
  /// The median step.
  int64_t getStep() const { return median; }
  double stepMs(int64_t step) const;
  /// Start and end of each instruction in ps from the start of a step, as
  /// MeasuredTimes has them.
  struct Times {
    std::vector<int64_t> startPs, endPs;
    int64_t makespanPs = 0;
  };
  Times timesOf(int64_t step) const;
  llvm::ArrayRef<int64_t> getSteps() const { return steps; }

private:
  class Collector;
  void findWaits();

  const PreparedProgram &program;
  const RunResult &result;
  std::vector<int64_t> steps; ///< that count
  int64_t median = 0;
  /// By instruction of the program: its number in the log, or -1 (waits); both
  /// halves of a pair have the same.
  std::vector<int64_t> logNumber;
  /// By instruction: the first that waits for it, or -1.
  std::vector<int64_t> waiter;
  std::vector<int32_t> workerOf; ///< by instruction
};

/// Predicts the program with these costs. Errors are emitted.
mlir::FailureOr<NamedEvaluation> predict(const PreparedProgram &program,
                                         const CostInputs &costs);

/// By worker: how many ns each instruction that the log numbers is predicted to
/// take, or what it starts. Sends have the time of their messages, receives
/// none.
std::vector<std::vector<int64_t>> pacesOf(const PreparedProgram &program,
                                          const NamedEvaluation &predicted);

/// The prediction with the times of a measured step.
llvm::Expected<NamedEvaluation> measured(const NamedEvaluation &predicted,
                                         const Measurement &measurement,
                                         int64_t step);

/// Writes a line for each phase and one for the step: how many cells there are,
/// their mean times, and by how much the measured one differs.
void writeTable(llvm::raw_ostream &os, const NamedEvaluation &predicted,
                const Measurement &measurement,
                llvm::ArrayRef<NamedEvaluation> measured);

/// `{"F": ["1.5ms", ..], ..}`, which profileFromJson reads.
std::string profileToJson(const Profile &profile);

} // namespace pipesched::run

#endif // PIPESCHED_TOOLS_PIPESCHED_RUN_MEASURE_H
