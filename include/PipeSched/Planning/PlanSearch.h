//===- PlanSearch.h - Rounds of the search for a plan -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A round takes the candidates of some shapes, drops candidates that cannot fit
// or are too slow by their bounds, and evaluates the others.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_PLANSEARCH_H
#define PIPESCHED_PLANNING_PLANSEARCH_H

#include "PipeSched/Planning/PairSavings.h"
#include "PipeSched/Planning/Placed.h"

namespace pipesched {

/// The limits that all schedules of a shape share.
struct ShapeLimits {
  const LayerSums *layers = nullptr;
  /// Lower bound on the bytes that layers always hold.
  const Sums *bytes = nullptr;
  /// A bound on the step of schedules without pairs of cells.
  double wholePs = 0;
  PairSavings *savings = nullptr; ///< null if pairs hide nothing
  /// Lower bounds on the slowdown of each worker's cells; empty if all have
  /// normal speed.
  std::vector<double> factors = {};
};

/// The sizes for measuring the rows of a shape.
struct ShapeRows {
  /// Upper bound on the bytes that layers always hold.
  const Sums *most = nullptr;
  int32_t unsharded = 0; ///< the same shape without sharding
  bool waits = false;    ///< whether cells wait for transfers of its sharding
  /// For each draw of disturbances its texts; the slowest draw counts.
  std::vector<std::vector<std::string>> draws = {};
};

/// One evaluation of a candidate.
struct PlanPoint {
  int32_t candidate = 0;
  /// True: only few microbatches, without sharding and without the end of the
  /// step, to measure the memory of rows. False: the whole step.
  bool isShort = false;
  std::string disturbance = {};
};

/// The result of a point. Bytes are of the worker with the most; 0 if unknown.
struct PlanRow {
  std::string error; ///< empty if there are results
  int64_t makespanPs = 0, peakBytes = 0, worker = 0;
};

using EvaluatePoints =
    llvm::function_ref<std::vector<PlanRow>(llvm::ArrayRef<PlanPoint>)>;

/// Returns for each candidate whether a plan may list it.
using AreListed =
    llvm::function_ref<std::vector<bool>(llvm::ArrayRef<int32_t>)>;

/// The limits on steps up to which candidates are evaluated: for candidates
/// that a plan may list, and for all others, of which it only names the
/// fastest.
struct StepLimits {
  double listedPs, otherPs;
};

/// The result of a candidate.
struct PlanOutcome {
  int32_t candidate = 0;
  int64_t stepPs = 0;        ///< with disturbances, if there are any
  int64_t peakBytes = 0;     ///< of an accelerator
  int64_t undisturbedPs = 0; ///< without disturbances
};

struct PlanCounts {
  int64_t considered = 0, tooLarge = 0, tooSlow = 0, impossible = 0,
          evaluated = 0;
};

/// The candidates of one search, with all facts known about them.
class PlanSearch {
public:
  struct Settings {
    int64_t numLayers = 0, mostCells = 0, usableBytes = 0;
    Transport transport = Transport::Overlap;
    /// The factor by which limits are raised for bounds, because these ignore
    /// disturbances.
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

  /// Returns bounds for a candidate that takes at most `limitPs`. Its shape
  /// must have limits.
  PlanBounds bounds(int32_t candidate, double limitPs);
  /// Returns a lower bound on the memory of an accelerator, from known results
  /// of the same rows.
  int64_t heldBytes(int32_t candidate);
  Placed &placed(int32_t candidate);

  /// Evaluates candidates, each only once. Their shapes must have rows.
  void evaluate(llvm::ArrayRef<int32_t> given, EvaluatePoints evaluatePoints);
  /// Evaluates candidates that may fit and do not exceed the limits. Returns
  /// the fitting ones, the fastest by their bounds first.
  std::vector<int32_t> round(llvm::ArrayRef<int32_t> given, StepLimits limits,
                             AreListed areListed,
                             EvaluatePoints evaluatePoints);
  /// Evaluates candidates that may fit by the memory of rows. Returns the
  /// fitting ones, in order.
  std::vector<int32_t> evaluateSmall(llvm::ArrayRef<int32_t> given,
                                     EvaluatePoints evaluatePoints);
  /// Returns up to `most` candidates that cannot fit, from all rounds and from
  /// `given`: first candidates with bounds below `fastestPs`, then by missing
  /// memory.
  std::vector<int32_t> nearest(llvm::ArrayRef<int32_t> given, double fastestPs,
                               size_t most);
  /// Returns the listable candidates on a single path whose steps (or bounds if
  /// they cannot fit) are at most `limitPs`, and that may fit if workers give
  /// up `mostLayers` of their layers.
  std::vector<int32_t> movable(double limitPs, int64_t mostLayers,
                               AreListed areListed,
                               EvaluatePoints evaluatePoints);

  llvm::Expected<Configuration> configurationOf(const PlanPoint &point) const;

  const PlanOutcome *outcomeOf(int32_t candidate) const {
    auto found = outcomeNumbers.find(candidate);
    return found == outcomeNumbers.end() ? nullptr : &outcomes[found->second];
  }
  const std::vector<PlanOutcome> &getOutcomes() const { return outcomes; }
  /// Returns why schedules are impossible, each reason once.
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
  /// By shape, placement, layers, and whether the head is sharded.
  std::map<std::array<int32_t, 4>, std::unique_ptr<Placed>> places;
  /// The worker of rows with the most memory, and its memory without the part
  /// that it always holds.
  std::map<Candidates::RowsKey, std::pair<int64_t, double>> held;
  std::vector<PlanOutcome> outcomes;
  std::map<int32_t, size_t> outcomeNumbers;
  std::vector<std::string> errors;
  /// Candidates that cannot fit, for shapes in which some might.
  std::vector<Bounded> large;
};

} // namespace pipesched

#endif // PIPESCHED_PLANNING_PLANSEARCH_H
