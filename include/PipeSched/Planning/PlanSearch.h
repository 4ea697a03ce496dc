//===- PlanSearch.h - Rounds of the search for a plan -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A round takes the candidates of some shapes, drops candidates whose bounds
// say that they cannot fit or are too slow, and evaluates the others.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_PLANSEARCH_H
#define PIPESCHED_PLANNING_PLANSEARCH_H

#include "PipeSched/Planning/PairSavings.h"
#include "PipeSched/Planning/Placed.h"

namespace pipesched {

/// The common limits of the schedules of a shape.
struct ShapeLimits {
  const LayerSums *layers = nullptr;
  const Sums *bytes = nullptr; ///< that layers always hold at least
  /// A bound on the step of schedules without pairs of cells.
  double wholePs = 0;
  PairSavings *savings = nullptr; ///< null if pairs hide nothing
  /// The factors that the cells of each worker do not fall below; empty if
  /// nothing is slow.
  std::vector<double> factors = {};
};

/// The sizes with which the rows of a shape are measured.
struct ShapeRows {
  const Sums *most = nullptr; ///< bytes that layers always hold at most
  int32_t unsharded = 0;      ///< the same shape without sharding
  bool waits = false;         ///< cells wait for messages of its sharding
  /// For each draw of disturbances its texts; the slowest counts.
  std::vector<std::vector<std::string>> draws = {};
};

/// One evaluation of a candidate.
struct PlanPoint {
  int32_t candidate = 0;
  /// Few microbatches without sharding and without the end of the step, for the
  /// memory of rows; else the whole step.
  bool isShort = false;
  std::string disturbance = {};
};

/// Its result. Bytes are of the fullest worker, 0 if they are not known.
struct PlanRow {
  std::string error; ///< empty if there are numbers
  int64_t makespanPs = 0, peakBytes = 0, worker = 0;
};

/// Evaluates points, in order.
using EvaluatePoints =
    llvm::function_ref<std::vector<PlanRow>(llvm::ArrayRef<PlanPoint>)>;

/// Says which candidates a plan may list.
using AreListed =
    llvm::function_ref<std::vector<bool>(llvm::ArrayRef<int32_t>)>;

/// The steps up to which candidates are evaluated: candidates that a plan may
/// list, and others, of which it only names the fastest.
struct StepLimits {
  double listedPs, otherPs;
};

/// The result of a candidate.
struct PlanOutcome {
  int32_t candidate = 0;
  int64_t stepPs = 0;        ///< under the disturbances, if there are any
  int64_t peakBytes = 0;     ///< of an accelerator
  int64_t undisturbedPs = 0; ///< without them
};

struct PlanCounts {
  int64_t considered = 0, tooLarge = 0, tooSlow = 0, impossible = 0,
          evaluated = 0;
};

/// The candidates of one search, with the known facts about them.
class PlanSearch {
public:
  struct Settings {
    int64_t numLayers = 0, mostCells = 0, usableBytes = 0;
    Transport transport = Transport::Overlap;
    /// The factor by which limits grow for bounds, which ignore disturbances.
    double widening = 1;
  };

  explicit PlanSearch(const Settings &settings)
      : candidates(settings.numLayers, settings.mostCells), settings(settings) {
  }

  void setLimits(int32_t shape, ShapeLimits limits) {
    shapeLimits[shape] = std::move(limits);
  }
  void setRows(int32_t shape, ShapeRows rows) {
    shapeRows[shape] = std::move(rows);
  }

  /// Bounds on a candidate that takes at most `limitPs`. Its shape has limits.
  PlanBounds bounds(int32_t candidate, double limitPs);
  /// The least memory of an accelerator, by the known results of the same rows.
  int64_t heldBytes(int32_t candidate);
  Placed &placed(int32_t candidate);

  /// Evaluates candidates, each only once. Their shapes have rows.
  void evaluate(llvm::ArrayRef<int32_t> given, EvaluatePoints evaluatePoints);
  /// Evaluates candidates that may fit and do not exceed the limits, and
  /// returns the ones that fit, the fastest by their bounds first.
  std::vector<int32_t> round(llvm::ArrayRef<int32_t> given, StepLimits limits,
                             AreListed areListed,
                             EvaluatePoints evaluatePoints);
  /// Evaluates candidates that may fit by the memory of rows, and returns the
  /// ones that fit, in order.
  std::vector<int32_t> evaluateSmall(llvm::ArrayRef<int32_t> given,
                                     EvaluatePoints evaluatePoints);
  /// The `most` candidates that cannot fit, of all rounds and of `given`:
  /// candidates with bounds below `fastestPs` first, then by their missing
  /// memory.
  std::vector<int32_t> nearest(llvm::ArrayRef<int32_t> given, double fastestPs,
                               size_t most);
  /// The candidates on a single path that may be listed, whose steps, or bounds
  /// if they cannot fit, are at most `limitPs`, and which may fit if workers
  /// give up `mostLayers` of their layers.
  std::vector<int32_t> movable(double limitPs, int64_t mostLayers,
                               AreListed areListed,
                               EvaluatePoints evaluatePoints);

  llvm::Expected<Configuration> configurationOf(const PlanPoint &point) const;

  const PlanOutcome *outcomeOf(int32_t candidate) const {
    auto found = outcomeNumbers.find(candidate);
    return found == outcomeNumbers.end() ? nullptr : &outcomes[found->second];
  }
  const std::vector<PlanOutcome> &getOutcomes() const { return outcomes; }
  /// Why schedules are impossible, each reason once.
  const std::vector<std::string> &getErrors() const { return errors; }
  const PlanCounts &getCounts() const { return counts; }

  Candidates candidates;

private:
  struct Bounded {
    int32_t candidate;
    PlanBounds bounds;
  };

  PlanBounds pairedBounds(int32_t candidate, double limitPs, double &visible);
  std::vector<Bounded> keepListed(std::vector<Bounded> given, double otherPs,
                                  AreListed areListed);
  std::vector<Bounded> rank(llvm::ArrayRef<int32_t> given, double limitPs);
  void measureRows(llvm::ArrayRef<Bounded> given,
                   EvaluatePoints evaluatePoints);
  std::vector<int32_t> keepSmall(llvm::ArrayRef<Bounded> given,
                                 EvaluatePoints evaluatePoints);
  std::vector<int32_t> evaluateFitting(llvm::ArrayRef<int32_t> given,
                                       EvaluatePoints evaluatePoints);
  void note(int32_t candidate, const Sums *most, const PlanRow &row);
  std::vector<int64_t> disturb(llvm::ArrayRef<int32_t> given,
                               std::vector<PlanRow> &rows,
                               EvaluatePoints evaluatePoints);
  void addOutcome(int32_t candidate, const PlanRow &row, int64_t stepPs);

  Settings settings;
  PlanCounts counts;
  std::map<int32_t, ShapeLimits> shapeLimits;
  std::map<int32_t, ShapeRows> shapeRows;
  /// By shape, placement, layers, and whether the head is spread.
  std::map<std::array<int32_t, 4>, std::unique_ptr<Placed>> places;
  /// The fullest worker of rows, and its memory besides the part that it always
  /// holds.
  std::map<Candidates::RowsKey, std::pair<int64_t, double>> held;
  std::vector<PlanOutcome> outcomes;
  std::map<int32_t, size_t> outcomeNumbers;
  std::vector<std::string> errors;
  /// Candidates that cannot fit, of shapes that might.
  std::vector<Bounded> large;
};

} // namespace pipesched

#endif // PIPESCHED_PLANNING_PLANSEARCH_H
