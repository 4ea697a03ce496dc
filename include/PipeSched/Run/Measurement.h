//===- Measurement.h - Measured and predicted times -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From logs of workers to a profile, and to an execution that is alongside the
// predicted one.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_MEASUREMENT_H
#define PIPESCHED_RUN_MEASUREMENT_H

#include "PipeSched/Evaluation/MeasuredProfile.h"
#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Run/Program.h"

namespace pipesched::run {

/// The steps of a run that count: all but the first, in which memory is touched
/// for the first time, unless there is only one.
class Measurement {
public:
  /// Errors: as for listWorkerPrograms.
  static llvm::Expected<Measurement> make(const PreparedProgram &program,
                                          const RunResult &result);

  /// See makeProfile. A message arrives when the cell that waits for it starts;
  /// the time is exact if that cell already waited when it was sent. Likewise,
  /// copies and sums end when an instruction that waits for them continues; if
  /// their own worker has none, one on another worker of the group.
  llvm::Expected<Profile> profile() const;
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
  /// The input of Measurement.from_file of the Python package
  /// (docs/Measuring.md, "The file").
  std::string toJson() const;

private:
  /// WorkerStamps, owned.
  struct Stamps {
    std::vector<int64_t> ready, start, end, done, arrived;
  };
  class Collector;

  Measurement(const PreparedProgram &program, const RunResult &result)
      : program(&program), result(&result) {}
  void chooseSteps();
  void findWaits();
  void findAwaited();
  void readLogs();
  void startTogether(Times &times) const;

  const PreparedProgram *program;
  const RunResult *result;
  WorkerPrograms rows;
  std::vector<int64_t> steps; ///< that count
  int64_t median = 0;
  std::vector<Stamps> stamps; ///< by worker: stamps of `steps`
  /// By instruction: its number in the log, or -1 (waits).
  std::vector<int64_t> logNumber;
  std::vector<int64_t> sendNumber; ///< the same by message
  /// By instruction: the first of its row that waits for it, or -1.
  std::vector<int64_t> waiter;
  /// By group of a collective: a member for which an instruction waits, by
  /// worker and instruction; worker -1: none.
  std::vector<std::pair<int64_t, uint32_t>> awaited;
};

/// Predicts the program with these costs. Errors are emitted.
mlir::FailureOr<NamedEvaluation> predict(const PreparedProgram &program,
                                         const CostInputs &costs);

/// By worker: the predicted ns of each instruction in the log, or of the work
/// that it starts. Sends have the time of their messages, receives none.
std::vector<std::vector<int64_t>> pacesOf(const PreparedProgram &program,
                                          const NamedEvaluation &predicted);

/// The prediction with the times of a measured step.
llvm::Expected<NamedEvaluation> measured(const NamedEvaluation &predicted,
                                         const Measurement &measurement,
                                         int64_t step);

/// Writes a line for each phase and one for the step: the number of cells,
/// their mean times, and the difference of the measured one.
void writeTable(llvm::raw_ostream &os, const NamedEvaluation &predicted,
                const Measurement &measurement,
                llvm::ArrayRef<NamedEvaluation> measured);

/// `{"F": ["1.5ms", ..], ..}`, which profileFromJson reads.
std::string profileToJson(const Profile &profile);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_MEASUREMENT_H
