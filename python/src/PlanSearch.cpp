//===- PlanSearch.cpp - The search for plans ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes and schedules from Python, and rounds over their candidates.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Planning/PlanSearch.h"
#include "Bindings.h"
#include "Diagnostics.h"
#include "Enums.h"
#include "PipeSched/Planning/ShapeCosts.h"
#include "Problem.h"
#include "Summaries.h"
#include <numeric>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

using Numbers = std::vector<int32_t>;
/// Tensor, pipeline, data, microbatch size, microbatches, recompute, sharding,
/// context, expert, exchange.
using ShapeTuple =
    std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, std::string,
               std::string, int64_t, int64_t, std::string>;
/// Shape, schedule, layers of the stages of each path, receive placement.
using CandidateTuple = std::tuple<int32_t, int32_t, LayerCounts, int>;
/// Candidate, step, bytes, step without disturbances.
using OutcomeTuple = std::tuple<int32_t, int64_t, int64_t, int64_t>;
/// Makespan, persistent bytes, peak bytes, error.
using WholeTuple =
    std::tuple<int64_t, int64_t, int64_t, std::optional<std::string>>;
/// Error, makespan, peak bytes, fullest worker.
using RowTuple =
    std::tuple<std::optional<std::string>, int64_t, int64_t, int64_t>;

namespace {

/// A search, with the sums that its shapes share.
struct GivenSearch {
  GivenSearch(int64_t layers, int64_t mostCells, int64_t usable, int transport,
              double widening, unsigned threads)
      : search({layers, mostCells, usable,
                valueOf(readEnum<Transport>("transport", transport)),
                widening}),
        threads(threads) {}
  GivenSearch(const GivenSearch &) = delete;

  PlanSearch search;
  unsigned threads;
  std::vector<std::unique_ptr<LayerSums>> layers;
  std::vector<std::unique_ptr<Sums>> sums;
  std::vector<ParameterSums> parameters;
  std::vector<std::unique_ptr<PairSavings>> savings;
  /// The costs of shapes, which the search refers to. nb::keep_alive would look
  /// through all of them for each new one.
  std::vector<nb::object> costs;
};

/// Evaluates points on threads, or by the function of Python, if there is one.
class Evaluator {
public:
  Evaluator(const GivenSearch &given, nb::object byPython)
      : given(given), byPython(std::move(byPython)) {}

  std::vector<PlanRow> operator()(llvm::ArrayRef<PlanPoint> points) const {
    return byPython.is_none() ? evaluateHere(points) : evaluateThere(points);
  }

private:
  std::vector<PlanRow> evaluateHere(llvm::ArrayRef<PlanPoint> points) const;
  std::vector<PlanRow> evaluateThere(llvm::ArrayRef<PlanPoint> points) const;

  const GivenSearch &given;
  nb::object byPython;
};

} // namespace

std::vector<PlanRow>
Evaluator::evaluateHere(llvm::ArrayRef<PlanPoint> points) const {
  Swept swept = sweepNumbers(points.size(), given.threads, [&](size_t index) {
    return given.search.configurationOf(points[index]);
  });
  std::vector<PlanRow> rows;
  for (auto [summary, error] : llvm::zip_equal(swept.summaries, swept.errors))
    rows.push_back({std::move(error), summary.makespanPs,
                    std::max<int64_t>(summary.peakBytes, 0),
                    std::max<int64_t>(summary.bottleneckWorker, 0)});
  return rows;
}

std::vector<PlanRow>
Evaluator::evaluateThere(llvm::ArrayRef<PlanPoint> points) const {
  nb::list listed;
  for (const PlanPoint &point : points)
    listed.append(nb::make_tuple(point.candidate, point.isShort,
                                 toPython(point.disturbance)));
  std::vector<PlanRow> rows;
  for (auto &[error, makespanPs, peakBytes, worker] :
       nb::cast<std::vector<RowTuple>>(byPython(listed)))
    rows.push_back({error.value_or(""), makespanPs, peakBytes, worker});
  if (rows.size() != points.size())
    raise("a row for each point");
  return rows;
}

//===----------------------------------------------------------------------===//
// Parts of candidates
//===----------------------------------------------------------------------===//

static void addSchedule(GivenSearch &self, int64_t pipeline, int64_t order,
                        std::string reason,
                        const std::optional<std::string> &family,
                        const Options &options, WorkerPaths paths,
                        const std::vector<int> &receives, int64_t slices,
                        bool isUsual, bool isSplit, bool isSpread,
                        bool hasPairs, bool needsExperts,
                        std::optional<int64_t> alone) {
  PlanSchedule schedule;
  schedule.order = order;
  schedule.reason = std::move(reason);
  if (family)
    schedule.problem = valueOf(readProblem(*family, 0, 0, options, {}));
  schedule.paths = std::move(paths);
  for (int number : receives)
    schedule.receives.push_back(
        valueOf(readEnum<ReceivePlacement>("receive-placement", number)));
  schedule.slices = slices;
  schedule.isUsual = isUsual;
  schedule.isSplit = isSplit;
  schedule.isSpread = isSpread;
  schedule.hasPairs = hasPairs;
  schedule.needsExperts = needsExperts;
  schedule.hides = alone.has_value();
  schedule.alone = alone.value_or(0);
  self.search.candidates.addSchedule(pipeline, std::move(schedule));
}

static PlanShape readShape(const ShapeTuple &given) {
  PlanShape shape;
  std::tie(shape.tensor, shape.pipeline, shape.data, shape.microbatchSize,
           shape.microbatches, shape.recompute, shape.sharding, shape.context,
           shape.expert, shape.exchange) = given;
  return shape;
}

static int32_t addShape(GivenSearch &self, const ShapeTuple &given,
                        nb::object costs) {
  const auto &sources = nb::cast<const CostSources &>(costs);
  self.costs.push_back(std::move(costs));
  return self.search.candidates.addShape(readShape(given), &sources);
}

/// Returns the number of the sums, and the whole of bytes by time with split
/// backwards, with the head and without its time.
static std::tuple<size_t, double, double>
addLayers(GivenSearch &self, const CostSources &costs,
          const std::vector<int64_t> &runs, bool hasSplit) {
  LayerSums sums = runFree([&] { return sumLayers(costs, runs, hasSplit); });
  double held = sums.held[1].back(), headless = sums.headless[1].back();
  self.layers.push_back(std::make_unique<LayerSums>(std::move(sums)));
  return {self.layers.size() - 1, held, headless};
}

static size_t addParameters(GivenSearch &self, const CostSources &costs,
                            const std::vector<int64_t> &runs) {
  self.parameters.push_back(
      runFree([&] { return sumParameters(costs, runs); }));
  return self.parameters.size() - 1;
}

static size_t addSums(GivenSearch &self, size_t parameters,
                      const std::array<double, 3> &parts) {
  self.sums.push_back(
      std::make_unique<Sums>(addParts(self.parameters.at(parameters), parts)));
  return self.sums.size() - 1;
}

/// Returns the number of the savings, the most that pairs save, and the largest
/// part of a layer.
static std::tuple<size_t, double, double> addSavings(GivenSearch &self,
                                                     const CostSources &costs) {
  PairSavings savings = runFree([&] { return PairSavings::create(costs); });
  self.savings.push_back(std::make_unique<PairSavings>(std::move(savings)));
  return {self.savings.size() - 1, self.savings.back()->mostPs(),
          self.savings.back()->mostPart()};
}

static void setLimits(GivenSearch &self, int32_t shape, size_t layers,
                      size_t bytes, double wholePs,
                      std::optional<size_t> savings,
                      std::vector<double> factors) {
  self.search.setLimits(
      shape, {self.layers.at(layers).get(), self.sums.at(bytes).get(), wholePs,
              savings ? self.savings.at(*savings).get() : nullptr,
              std::move(factors)});
}

static void setRows(GivenSearch &self, int32_t shape,
                    std::optional<size_t> most, int32_t unsharded, bool waits,
                    std::vector<std::vector<std::string>> draws) {
  self.search.setRows(shape, {most ? self.sums.at(*most).get() : nullptr,
                              unsharded, waits, std::move(draws)});
}

//===----------------------------------------------------------------------===//
// Costs and probes
//===----------------------------------------------------------------------===//

static CostSources divide(const CostSources &whole, const ShapeTuple &shape,
                          const std::array<int64_t, 3> &parameterBytes,
                          bool hasHost) {
  return valueOf(costsOn(whole, readShape(shape), parameterBytes, hasHost));
}

/// Probes with one worker that has all layers.
static std::vector<WholeTuple>
probeWhole(const std::vector<const CostSources *> &costs,
           const std::vector<int64_t> &microbatches, int64_t layers,
           unsigned threads) {
  Swept swept = sweepNumbers(costs.size(), threads, [&](size_t index) {
    return llvm::Expected<Configuration>(
        probeOf(*costs[index], layers, microbatches[index]));
  });
  std::vector<WholeTuple> rows;
  for (auto [summary, error] : llvm::zip_equal(swept.summaries, swept.errors))
    rows.emplace_back(summary.makespanPs,
                      std::max<int64_t>(summary.persistentBytes, 0),
                      std::max<int64_t>(summary.peakBytes, 0),
                      error.empty() ? std::nullopt : std::optional(error));
  return rows;
}

static std::vector<int64_t> listRuns(const CostSources &costs, int64_t layers) {
  return runFree([&] { return findRuns(costs, layers); });
}

/// The work of each layer and of the head.
static std::vector<double> listWork(const CostSources &costs,
                                    const std::vector<int64_t> &runs) {
  Sums sums = runFree([&] {
                return sumLayers(costs, runs, /*hasSplit=*/false);
              }).workPs;
  std::adjacent_difference(sums.begin(), sums.end(), sums.begin());
  sums.erase(sums.begin());
  return sums;
}

static void bindProbes(nb::module_ &m) {
  m.def("divide_costs", divide, nb::arg("whole"), nb::arg("shape"),
        nb::arg("parameter_bytes"), nb::arg("has_host"));
  m.def("probe_whole", probeWhole, nb::arg("costs"), nb::arg("microbatches"),
        nb::arg("layers"), nb::arg("threads"));
  m.def("work_of_layers", listWork, nb::arg("costs"), nb::arg("runs"));
  m.def("find_runs", listRuns, nb::arg("costs"), nb::arg("layers"));
}

//===----------------------------------------------------------------------===//
// Candidates
//===----------------------------------------------------------------------===//

static Numbers expand(GivenSearch &self, const Numbers &shapes, int kind,
                      const std::vector<bool> &onlyPairs) {
  Numbers found;
  for (auto [shape, isOnly] : llvm::zip_equal(shapes, onlyPairs))
    check(self.search.candidates.expand(shape, PlanKind(kind), isOnly, found));
  return found;
}

static int32_t find(GivenSearch &self, const CandidateTuple &given) {
  const auto &[shape, schedule, counts, receives] = given;
  return self.search.candidates.add(
      shape, schedule, counts,
      valueOf(readEnum<ReceivePlacement>("receive-placement", receives)));
}

static CandidateTuple getCandidate(const GivenSearch &self, int32_t number) {
  const PlanCandidate &found = self.search.candidates.get(number);
  return {found.shape, found.schedule, self.search.candidates.countsOf(number),
          int(found.receives)};
}

static std::pair<double, int64_t> bounds(GivenSearch &self, int32_t candidate,
                                         double limitPs) {
  PlanBounds found = self.search.bounds(candidate, limitPs);
  return {found.stepPs, found.peakBytes};
}

static std::vector<OutcomeTuple> listOutcomes(const GivenSearch &self,
                                              size_t first) {
  std::vector<OutcomeTuple> found;
  for (const PlanOutcome &each :
       llvm::ArrayRef(self.search.getOutcomes()).drop_front(first))
    found.emplace_back(each.candidate, each.stepPs, each.peakBytes,
                       each.undisturbedPs);
  return found;
}

static nb::dict listCounts(const GivenSearch &self) {
  const PlanCounts &counts = self.search.getCounts();
  nb::dict found;
  found["considered"] = counts.considered;
  found["too_large"] = counts.tooLarge;
  found["too_slow"] = counts.tooSlow;
  found["impossible"] = counts.impossible;
  found["evaluated"] = counts.evaluated;
  return found;
}

//===----------------------------------------------------------------------===//
// Bindings
//===----------------------------------------------------------------------===//

/// Asks a function of Python, which takes and returns a list.
static auto asker(nb::object areListed) {
  return [areListed = std::move(areListed)](llvm::ArrayRef<int32_t> asked) {
    auto listed = nb::cast<std::vector<bool>>(areListed(Numbers(asked)));
    if (listed.size() != asked.size())
      raise("an answer for each candidate");
    return listed;
  };
}

static void bindRounds(nb::class_<GivenSearch> &c) {
  c.def(
       "evaluate",
       [](GivenSearch &self, const Numbers &given, nb::object byPython) {
         self.search.evaluate(given, Evaluator(self, std::move(byPython)));
       },
       nb::arg("candidates"), nb::arg("evaluate").none())
      .def(
          "round",
          [](GivenSearch &self, const Numbers &given, double listedPs,
             double otherPs, nb::object areListed, nb::object byPython) {
            return self.search.round(given, {listedPs, otherPs},
                                     asker(areListed),
                                     Evaluator(self, std::move(byPython)));
          },
          nb::arg("candidates"), nb::arg("listed_ps"), nb::arg("other_ps"),
          nb::arg("are_listed"), nb::arg("evaluate").none())
      .def(
          "evaluate_small",
          [](GivenSearch &self, const Numbers &given, nb::object byPython) {
            return self.search.evaluateSmall(
                given, Evaluator(self, std::move(byPython)));
          },
          nb::arg("candidates"), nb::arg("evaluate").none())
      .def(
          "nearest",
          [](GivenSearch &self, const Numbers &given, double fastestPs,
             size_t most) {
            return self.search.nearest(given, fastestPs, most);
          },
          nb::arg("candidates"), nb::arg("fastest_ps"), nb::arg("most"))
      .def(
          "movable",
          [](GivenSearch &self, double limitPs, int64_t mostLayers,
             nb::object areListed, nb::object byPython) {
            return self.search.movable(limitPs, mostLayers, asker(areListed),
                                       Evaluator(self, std::move(byPython)));
          },
          nb::arg("limit_ps"), nb::arg("most_layers"), nb::arg("are_listed"),
          nb::arg("evaluate").none());
}

void pipesched::python::bindPlanSearch(nb::module_ &m) {
  nb::class_<GivenSearch> c(m, "PlanSearch", "The candidates of a plan.");
  c.def(nb::init<int64_t, int64_t, int64_t, int, double, unsigned>(),
        nb::arg("layers"), nb::arg("most_cells"), nb::arg("usable_bytes"),
        nb::arg("transport"), nb::arg("widening"), nb::arg("threads"))
      .def("add_schedule", addSchedule, nb::arg("pipeline"), nb::arg("order"),
           nb::arg("reason"), nb::arg("family").none(), nb::arg("options"),
           nb::arg("paths"), nb::arg("receives"), nb::arg("slices"),
           nb::arg("is_usual"), nb::arg("is_split"), nb::arg("is_spread"),
           nb::arg("has_pairs"), nb::arg("needs_experts"),
           nb::arg("alone").none())
      .def("add_shape", addShape, nb::arg("shape"), nb::arg("costs"),
           nb::sig("def add_shape(self, shape: tuple[int, int, int, int, int, "
                   "str, str, int, int, str], costs: Costs) -> int"))
      .def("add_layers", addLayers, nb::arg("costs"), nb::arg("runs"),
           nb::arg("has_split"))
      .def("add_parameters", addParameters, nb::arg("costs"), nb::arg("runs"))
      .def("add_savings", addSavings, nb::arg("costs"))
      .def("add_sums", addSums, nb::arg("parameters"), nb::arg("parts"))
      .def(
          "set_balanced",
          [](GivenSearch &self, int32_t shape, Numbers workers,
             std::vector<int64_t> counts) {
            self.search.candidates.setBalanced(shape, std::move(workers),
                                               std::move(counts));
          },
          nb::arg("shape"), nb::arg("workers"), nb::arg("counts"))
      .def(
          "set_slow",
          [](GivenSearch &self, int32_t shape, std::vector<double> workers,
             const std::vector<std::pair<int64_t, double>> &stages) {
            self.search.candidates.setSlow(shape, std::move(workers),
                                           {stages.begin(), stages.end()});
          },
          nb::arg("shape"), nb::arg("workers"), nb::arg("stages"))
      .def("set_limits", setLimits, nb::arg("shape"), nb::arg("layers"),
           nb::arg("bytes"), nb::arg("whole_ps"), nb::arg("savings").none(),
           nb::arg("factors"))
      .def("set_rows", setRows, nb::arg("shape"), nb::arg("most").none(),
           nb::arg("unsharded"), nb::arg("waits"), nb::arg("draws"))
      .def("expand", expand, nb::arg("shapes"), nb::arg("kind"),
           nb::arg("only_pairs"))
      .def("take_reasons",
           [](GivenSearch &self) {
             return self.search.candidates.takeReasons();
           })
      .def("find", find, nb::arg("candidate"))
      .def("candidate", getCandidate, nb::arg("number"))
      .def("bounds", bounds, nb::arg("candidate"), nb::arg("limit_ps"))
      .def(
          "held_bytes",
          [](GivenSearch &self, int32_t candidate) {
            return self.search.heldBytes(candidate);
          },
          nb::arg("candidate"))
      .def(
          "loads",
          [](GivenSearch &self, int32_t candidate) {
            return self.search.placed(candidate).loads();
          },
          nb::arg("candidate"))
      .def("outcomes", listOutcomes, nb::arg("first"))
      .def_prop_ro(
          "errors",
          [](const GivenSearch &self) { return self.search.getErrors(); })
      .def_prop_ro(
          "counts", listCounts,
          nb::for_getter(nb::sig("def counts(self) -> dict[str, int]")));
  bindRounds(c);
  bindProbes(m);
}
