//===- Measurement.h - Measured and predicted times -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Makes a profile, and an execution that can be compared with the prediction,
// from the logs of workers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_MEASUREMENT_H
#define PIPESCHED_RUN_MEASUREMENT_H

#include "PipeSched/Evaluation/MeasuredProfile.h"
#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Run/Program.h"

namespace pipesched::run {

/// The measured steps of a run: all but the first, in which memory is touched
/// for the first time, unless there is only one step.
class Measurement {
public:
  /// Reads the logs of a run. Errors: as for listWorkerPrograms.
  static llvm::Expected<Measurement> make(const PreparedProgram &program,
                                          const RunResult &result);

  /// Returns the profile; see makeProfile. A message arrives when the cell that
  /// waits for it starts; the time is exact if that cell was already waiting
  /// when it was sent. Likewise, copies and sums end when an instruction that
  /// waits for them continues; if their own worker has none, one on another
  /// worker of the group.
  llvm::Expected<Profile> profile() const;
  int64_t getStep() const { return median; }
  double stepMs(int64_t step) const;
  /// Start and end of each instruction in ps from the start of a step, as in
  /// MeasuredTimes.
  struct Times {
    std::vector<int64_t> startPs, endPs;
    int64_t makespanPs = 0;
  };
  Times timesOf(int64_t step) const;
  llvm::ArrayRef<int64_t> getSteps() const { return steps; }
  /// Returns the input of Measurement.from_file of the Python package
  /// (docs/Measuring.md, "The file").
  std::string toJson() const;

private:
  /// WorkerStamps with owned data.
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
  std::vector<int64_t> steps; ///< the measured ones
  int64_t median = 0;
  std::vector<Stamps> stamps; ///< by worker: stamps of `steps`
  /// By instruction: its number in the log, or -1 (for waits).
  std::vector<int64_t> logNumber;
  std::vector<int64_t> sendNumber; ///< the same by message
  /// By instruction: the first instruction of its row that waits for it, or -1.
  std::vector<int64_t> waiter;
  /// By group of a collective: a member for which an instruction waits, as
  /// worker and instruction; worker -1: none.
  std::vector<std::pair<int64_t, uint32_t>> awaited;
};

/// Predicts the program with these costs. Errors are emitted.
mlir::FailureOr<NamedEvaluation> predict(const PreparedProgram &program,
                                         const CostInputs &costs);

/// By worker: the predicted ns of each instruction in the log, or of the work
/// that it starts. Sends have the time of their messages, receives have none.
std::vector<std::vector<int64_t>> pacesOf(const PreparedProgram &program,
                                          const NamedEvaluation &predicted);

/// Returns the prediction with the times of a measured step.
llvm::Expected<NamedEvaluation> measured(const NamedEvaluation &predicted,
                                         const Measurement &measurement,
                                         int64_t step);

/// Writes a line for each phase and one for the step: the number of cells,
/// their predicted and measured mean times, and the difference.
void writeTable(llvm::raw_ostream &os, const NamedEvaluation &predicted,
                const Measurement &measurement,
                llvm::ArrayRef<NamedEvaluation> measured);

/// Returns `{"F": ["1.5ms", ..], ..}`, which profileFromJson reads.
std::string profileToJson(const Profile &profile);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_MEASUREMENT_H
