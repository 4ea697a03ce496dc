//===- Candidates.h - The candidates of a plan ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A candidate is a schedule on a shape, which distributes the accelerators and
// the batch, with the layers of each stage.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PLANNING_CANDIDATES_H
#define PIPESCHED_PLANNING_CANDIDATES_H

#include "PipeSched/CostModel/Layers/BalanceLayers.h"
#include "PipeSched/Evaluation/Sweep.h"
#include <array>
#include <map>

namespace pipesched {

/// The distribution of accelerators and batch, and the state that is sharded
/// and recomputed. Shapes are ordered by these fields.
struct PlanShape {
  int64_t tensor = 1, pipeline = 1, data = 1, microbatchSize = 1,
          microbatches = 1;
  std::string recompute, sharding;
  int64_t context = 1, expert = 1;
  std::string exchange;

  auto key() const {
    return std::tie(tensor, pipeline, data, microbatchSize, microbatches,
                    recompute, sharding, context, expert, exchange);
  }
  /// Returns the number of accelerators of a worker.
  int64_t getWorker() const { return tensor * context; }
  /// Returns a number of microbatches with which rows hold at least as much as
  /// with fewer.
  int64_t getShort() const { return 2 * pipeline; }
};

using WorkerPaths = std::vector<std::vector<int32_t>>;
/// The layers of the stages of each path.
using LayerCounts = std::vector<std::vector<int64_t>>;

/// A schedule that may run on the workers of a pipeline.
struct PlanSchedule {
  /// Rank by simplicity. -1: not a schedule, but the reason why there is none.
  int64_t order = -1;
  /// Why there are no candidates; empty if there are some.
  std::string reason;
  /// Family and options. Without a family, the caller evaluates the schedule.
  Problem problem;
  WorkerPaths paths;
  int32_t placement = 0; ///< equal for equal paths; set by addSchedule
  std::vector<ReceivePlacement> receives;
  int64_t slices = 1;
  bool isUsual = false; ///< few stages per worker that divide the layers evenly
  bool isSplit = false; ///< weight gradients have their own cells
  bool isSpread = false;     ///< workers have shards of the head
  bool hasPairs = false;     ///< cells overlap
  bool needsExperts = false; ///< left out if experts are not sharded
  /// Whether pairs hide the exchange with experts, and the number of forwards
  /// of a stage that are not in a pair.
  bool hides = false;
  int64_t alone = 0;
};

/// Which schedules of a shape to expand, by PlanSchedule::isUsual.
enum class PlanKind { All, Usual, Unusual };

/// A schedule on a shape. All members are indices into a Candidates.
struct PlanCandidate {
  int32_t shape = 0, schedule = 0, counts = 0;
  ReceivePlacement receives = ReceivePlacement::Arrival;
};

/// The shapes, schedules and candidates of a plan, numbered in the order in
/// which they were added.
class Candidates {
public:
  Candidates(int64_t numLayers, int64_t mostCells)
      : numLayers(numLayers), mostCells(mostCells) {}

  /// Adds a schedule for pipelines of some length, after the earlier ones.
  void addSchedule(int64_t pipeline, PlanSchedule schedule);
  /// Adds a shape. `costs` are not copied.
  int32_t addShape(PlanShape shape, const CostSources *costs);
  /// Sets the layers of a path if only the caller knows the times by which they
  /// are balanced.
  void setBalanced(int32_t shape, std::vector<int32_t> workers,
                   std::vector<int64_t> counts);
  /// Sets the slowdown of cells on the workers and of single stages of a shape.
  /// Layers are then also balanced by speed, as on a system with groups.
  void setSlow(int32_t shape, std::vector<double> workers,
               std::map<int64_t, double> stages) {
    shapes[shape].slow = {std::move(workers), std::move(stages)};
  }
  /// Adds a candidate unless it exists already.
  int32_t add(int32_t shape, int32_t schedule, LayerCounts counts,
              ReceivePlacement receives);

  /// Finds the candidates of a shape; with `onlyPairs` only candidates with
  /// overlapped cells. Layers are divided evenly if possible, by their times,
  /// and if some workers or stages are slow, also by times and speeds; if the
  /// head is sharded over the workers, by number. Errors: as for balanceLayers
  /// and the costs.
  llvm::Error expand(int32_t shape, PlanKind kind, bool onlyPairs,
                     std::vector<int32_t> &found);
  /// Returns why candidates were left out since the last call, each reason
  /// once.
  std::vector<std::string> takeReasons() { return std::exchange(reasons, {}); }

  const PlanCandidate &get(int32_t candidate) const { return all[candidate]; }
  const PlanShape &shapeOf(int32_t candidate) const {
    return shapes[all[candidate].shape].shape;
  }
  const PlanShape &getShape(int32_t shape) const { return shapes[shape].shape; }
  const CostSources *costsOf(int32_t shape) const {
    return shapes[shape].costs;
  }
  const PlanSchedule &scheduleOf(int32_t candidate) const {
    return schedules.at(shapeOf(candidate).pipeline)[all[candidate].schedule];
  }
  const LayerCounts &countsOf(int32_t candidate) const {
    return *counts[all[candidate].counts];
  }
  size_t size() const { return all.size(); }
  int32_t numShapes() const { return int32_t(shapes.size()); }

  /// A key of all values on which the activations of a schedule depend. With
  /// more than `getShort` microbatches a schedule holds no less than with
  /// `getShort`.
  using RowsKey = std::array<int64_t, 6>;
  RowsKey rowsOf(int32_t candidate) const;

private:
  /// The values on which the times of layers depend.
  struct Base {
    std::optional<LayerLoads> loads;
    /// By the workers of a path and the weights of its stages.
    std::map<std::pair<std::vector<int32_t>, std::vector<int64_t>>,
             std::vector<int64_t>>
        balanced;
    /// By pipeline length and replicas: the slowdown of the groups of workers.
    std::map<std::pair<int64_t, int64_t>, std::vector<double>> factors;
    bool isGiven = false; ///< whether only the caller knows the times of layers
  };
  /// Factors of workers, and of stages by number; empty if all have normal
  /// speed.
  struct Slow {
    std::vector<double> workers;
    std::map<int64_t, double> stages;
  };
  struct Shape {
    PlanShape shape;
    const CostSources *costs;
    int32_t base, rows;
    Slow slow = {};
  };

  llvm::Error addDivisions(int32_t shape, const PlanSchedule &schedule,
                           std::vector<LayerCounts> &divisions);
  llvm::Expected<std::vector<int64_t>>
  balance(int32_t shape, const std::vector<int32_t> &workers,
          std::vector<int64_t> weights = {});
  llvm::Expected<std::vector<double>> factorsOf(int32_t shape);
  llvm::Error addSlowed(int32_t shape, const PlanSchedule &schedule,
                        std::vector<LayerCounts> &divisions);
  int32_t numberOf(LayerCounts given);

  int64_t numLayers, mostCells;
  std::vector<Shape> shapes;
  std::map<int64_t, std::vector<PlanSchedule>> schedules;
  std::vector<Base> bases;
  std::map<std::string, int32_t> baseNumbers, rowNumbers;
  std::map<WorkerPaths, int32_t> placementNumbers;
  std::map<LayerCounts, int32_t> countNumbers;
  std::vector<const LayerCounts *> counts; ///< keys of countNumbers
  std::vector<PlanCandidate> all;
  std::map<std::array<int32_t, 4>, int32_t> numbers;
  std::vector<std::string> reasons;
};

} // namespace pipesched

#endif // PIPESCHED_PLANNING_CANDIDATES_H
