//===- Evaluation.cpp - C API to time schedules ---------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Evaluates with or without IR, and returns the results.
//
//===----------------------------------------------------------------------===//

#include "Enums.h"
#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Adapter/LoadCosts.h"
#include "PipeSched/Evaluation/MeasuredTimes.h"
#include "PipeSched/Evaluation/Summary.h"
#include "PipeSched/Evaluation/TimedCells.h"
#include "PipeSched/Target/ChromeTrace.h"
#include "PipeSched/Target/Comparison.h"
#include "PipeSched/Target/Report.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TextPicture.h"
#include "Wrap.h"
#include "mlir/CAPI/IR.h"
#include "llvm/Support/JSON.h"
#include <limits>

using namespace pipesched;

//===----------------------------------------------------------------------===//
// Evaluating
//===----------------------------------------------------------------------===//

llvm::Expected<TimingOptions>
pipesched::readTiming(const PipeschedTiming &timing) {
  TimingOptions options;
  EnumReader reader;
  reader.read("transport", timing.transport, options.transport);
  reader.read("receive-placement", timing.receivePlacement,
              options.receivePlacement);
  reader.read("forward-sends", timing.forwardSends, options.forwardSends);
  reader.read("runtime", timing.runtime, options.runtime);
  if (llvm::Error error = reader.take())
    return std::move(error);
  llvm::Expected<Disturbance> disturbance =
      parseDisturbance(readText(timing.disturbance));
  if (!disturbance)
    return disturbance.takeError();
  options.disturbance = std::move(*disturbance);
  return options;
}

/// How a training step ends; nothing if it ends with its last backward.
static llvm::Expected<std::optional<ReductionPlace>>
readOptimizerStep(const PipeschedOptimizerStep &given) {
  llvm::Expected<PipeschedOptimizerStep> step =
      readEnum<PipeschedOptimizerStep>("optimizer-step", given);
  if (!step)
    return step.takeError();
  switch (*step) {
  case PipeschedOptimizerStepNone:
    return std::nullopt;
  case PipeschedOptimizerStepOverlapped:
    return ReductionPlace::Eager;
  case PipeschedOptimizerStepExposed:
    return ReductionPlace::End;
  }
  llvm_unreachable("covered switch");
}

llvm::Expected<Configuration>
pipesched::readConfiguration(const PipeschedConfiguration &given) {
  llvm::Expected<Problem> problem = readProblem(given.problem);
  if (!problem)
    return problem.takeError();
  Configuration configuration;
  configuration.problem = std::move(*problem);
  configuration.costs = unwrap(given.costs);
  llvm::Expected<TimingOptions> timing = readTiming(given.timing);
  if (!timing)
    return timing.takeError();
  configuration.timing = *timing;
  llvm::Expected<std::optional<ReductionPlace>> step =
      readOptimizerStep(given.optimizerStep);
  if (!step)
    return step.takeError();
  configuration.optimizerStep = *step;
  return configuration;
}

/// The costs of an op, where those in `given` have priority.
static mlir::FailureOr<CostInputs> overlayCosts(mlir::Operation *op,
                                                const CostSources *given) {
  mlir::FailureOr<CostInputs> costs = loadCosts(op);
  if (failed(costs) || !given)
    return costs;
  auto owner = llvm::cast<pipe::PlacementOwnerOpInterface>(op);
  llvm::Expected<CostInputs> resolved =
      resolveCosts(*given, owner.getNumMicrobatches());
  if (!resolved)
    return pipe::emitTableError(op)
           << "has no costs: " << llvm::toString(resolved.takeError());
  if (resolved->model)
    costs->model = std::move(resolved->model);
  if (resolved->system)
    costs->system = std::move(resolved->system);
  if (resolved->profile)
    costs->profile = std::move(resolved->profile);
  return costs;
}

PipeschedEvaluation pipeschedScheduleEvaluate(MlirOperation scheduleOrProgram,
                                              PipeschedCosts costs,
                                              PipeschedTiming timing) {
  mlir::Operation *op = readEvaluable(scheduleOrProgram);
  if (!op)
    return {nullptr};
  llvm::Expected<TimingOptions> options = readTiming(timing);
  if (!options) {
    pipe::emitTableError(op)
        << "cannot be timed: " << llvm::toString(options.takeError());
    return {nullptr};
  }
  mlir::FailureOr<CostInputs> inputs = overlayCosts(op, unwrap(costs));
  if (failed(inputs))
    return {nullptr};
  mlir::FailureOr<NamedEvaluation> result = evaluate(op, *inputs, *options);
  if (failed(result))
    return {nullptr};
  auto *evaluation = new OwnedEvaluation();
  evaluation->result = std::move(*result);
  evaluation->result.keepRows(); // the op may change or go
  return wrap(evaluation);
}

PipeschedEvaluation
pipeschedConfigurationEvaluate(const PipeschedConfiguration *given,
                               MlirStringCallback onError, void *userData) {
  if (llvm::Error error = checkGiven("a configuration", given)) {
    passError(onError, userData, std::move(error));
    return {nullptr};
  }
  llvm::Expected<Configuration> configuration = readConfiguration(*given);
  if (!configuration) {
    passError(onError, userData, configuration.takeError());
    return {nullptr};
  }
  llvm::Expected<EvaluatedTable> evaluation =
      evaluateConfiguration(*configuration);
  if (!evaluation) {
    passError(onError, userData, evaluation.takeError());
    return {nullptr};
  }
  return wrap(new OwnedEvaluation(std::move(*evaluation)));
}

/// The predicted execution with measured times. Errors: those of the arrays;
/// a null evaluation; those of withMeasuredTimes.
static llvm::Expected<Execution>
measure(PipeschedEvaluation predicted,
        llvm::Expected<llvm::ArrayRef<int64_t>> startPs,
        llvm::Expected<llvm::ArrayRef<int64_t>> endPs, int64_t makespanPs) {
  if (llvm::Error error =
          llvm::joinErrors(startPs.takeError(), endPs.takeError()))
    return std::move(error);
  if (llvm::Error error = checkGiven("an evaluation", predicted.ptr))
    return std::move(error);
  return withMeasuredTimes(unwrap(predicted)->result.getExecution(),
                           {*startPs, *endPs, makespanPs});
}

PipeschedEvaluation pipeschedEvaluationCreateMeasured(
    PipeschedEvaluation predicted, MlirStringRef name, intptr_t numInstructions,
    const int64_t *startPs, const int64_t *endPs, int64_t makespanPs,
    MlirStringCallback onError, void *userData) {
  llvm::Expected<Execution> execution =
      measure(predicted, readArray("starts", startPs, numInstructions),
              readArray("ends", endPs, numInstructions), makespanPs);
  if (!execution) {
    passError(onError, userData, execution.takeError());
    return {nullptr};
  }
  auto *measured = new OwnedEvaluation();
  measured->result = unwrap(predicted)->result;
  measured->result.name = readText(name).str();
  measured->result.evaluation.set(std::move(*execution));
  return wrap(measured);
}

void pipeschedEvaluationDestroy(PipeschedEvaluation evaluation) {
  delete unwrap(evaluation);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

static constexpr PipeschedSummary kUnknownSummary = {
    -1,       -1,       -1,       -1,       -1,       kUnknown, kUnknown,
    kUnknown, -1,       -1,       -1,       -1,       -1,       kUnknown,
    kUnknown, kUnknown, kUnknown, kUnknown, kUnknown, kUnknown, kUnknown,
    -1,       -1,       -1,       -1,       -1,       -1};

static void addFormula(PipeschedSummary &summary,
                       const std::optional<FormulaResult> &formula) {
  summary.formulaBubbleRatio = formula ? formula->bubbleRatio : kUnknown;
  summary.formulaBubbleRatioGeneral =
      formula ? formula->bubbleRatioGeneral.value_or(kUnknown) : kUnknown;
}

static void addTable(PipeschedSummary &summary,
                     const std::optional<TableMetrics> &table) {
  summary.tableBubbleRatio = table ? table->bubbleRatio : kUnknown;
  summary.slots = table ? table->slots : -1;
  summary.peakActivations =
      table ? *llvm::max_element(table->peakActivations) : -1;
}

static void addExecution(PipeschedSummary &summary,
                         const ExecutionTotals &execution) {
  ExecutionSummary numbers = summarize(execution);
  summary.makespanPs = execution.makespanPs;
  summary.spanPs = numbers.spanPs;
  summary.exposedCommunicationPs = numbers.exposedCommunicationPs;
  summary.idleRatio = numbers.idleRatio;
  summary.spanBubbleRatio = numbers.spanBubbleRatio;
  static_assert(kNumIdleCauses == 5, "a field of PipeschedSummary per cause");
  double *fields[] = {&summary.fill, &summary.drain, &summary.dependency,
                      &summary.queueOrder, &summary.communication};
  for (auto [field, ratio] : llvm::zip_equal(fields, numbers.idleByCause))
    *field = ratio;
  summary.messages = execution.traffic.messages;
}

static void addMemory(PipeschedSummary &summary,
                      const std::optional<MemoryUsage> &memory) {
  summary.bottleneckWorker = summary.capacityBytes = -1;
  summary.persistentBytes = summary.peakActivationBytes = summary.peakBytes =
      -1;
  if (!memory)
    return;
  const WorkerMemory &worker = memory->workers[memory->bottleneckWorker];
  summary.bottleneckWorker = memory->bottleneckWorker;
  summary.persistentBytes = worker.persistentBytes();
  summary.peakActivationBytes = worker.peakActivationBytes;
  summary.peakBytes = worker.peakBytes();
  if (memory->capacityBytes != 0)
    summary.capacityBytes = memory->capacityBytes;
}

PipeschedSummary pipeschedEvaluationGetSummary(PipeschedEvaluation evaluation) {
  if (!evaluation.ptr)
    return kUnknownSummary;
  const NamedEvaluation &result = unwrap(evaluation)->result;
  PipeschedSummary summary = {};
  summary.workers = result.placement.getNumWorkers();
  summary.stages = result.placement.getMaxStages();
  summary.microbatches = result.placement.getNumMicrobatches();
  summary.slices = result.placement.getNumSlices();
  summary.microbatchSize = result.microbatchSize ? result.microbatchSize : -1;
  addFormula(summary, result.evaluation.formula);
  addTable(summary, result.evaluation.table);
  addExecution(summary, result.evaluation.totals);
  addMemory(summary, result.evaluation.totals.memory);
  summary.mfu = result.getMfu().value_or(kUnknown);
  return summary;
}

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

intptr_t pipeschedEvaluationGetNumCells(PipeschedEvaluation evaluation) {
  if (!evaluation.ptr)
    return 0;
  return countTimedCells(unwrap(evaluation)->result.getExecution());
}

void pipeschedEvaluationGetCells(PipeschedEvaluation evaluation,
                                 PipeschedCellColumns columns) {
  if (!evaluation.ptr)
    return;
  CellWriter writer(columns,
                    unwrap(evaluation)->result.placement.getNumSlices());
  forEachTimedCell(unwrap(evaluation)->result.getExecution(),
                   [&](const TimedCell &cell) {
                     writer.write(cell.worker, cell.cell, cell.startPs,
                                  cell.endPs, cell.message);
                   });
}

//===----------------------------------------------------------------------===//
// Texts and pictures
//===----------------------------------------------------------------------===//

using Results = llvm::SmallVector<const NamedEvaluation *>;

/// Errors: those of the array; a null evaluation.
static llvm::Expected<Results>
readResults(intptr_t count, const PipeschedEvaluation *evaluations) {
  auto given = readArray("evaluations", evaluations, count);
  if (!given)
    return given.takeError();
  Results results;
  for (PipeschedEvaluation evaluation : *given) {
    if (llvm::Error error = checkGiven("an evaluation", evaluation.ptr))
      return std::move(error);
    results.push_back(&unwrap(evaluation)->result);
  }
  return results;
}

/// The results of a function that cannot say what is wrong; none then.
static Results orNone(llvm::Expected<Results> results) {
  if (results)
    return std::move(*results);
  llvm::consumeError(results.takeError());
  return {};
}

void pipeschedEvaluationWriteReport(PipeschedEvaluation evaluation,
                                    MlirStringCallback callback,
                                    void *userData) {
  if (!evaluation.ptr)
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os, /*IndentSize=*/2);
  writeReport(json, unwrap(evaluation)->result);
  json.flush();
  passText(callback, userData, text);
}

void pipeschedWriteChromeTrace(intptr_t numEvaluations,
                               const PipeschedEvaluation *evaluations,
                               MlirStringCallback callback, void *userData) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeChromeTrace(os, orNone(readResults(numEvaluations, evaluations)));
  passText(callback, userData, text);
}

static std::vector<ComparisonEntry>
listEntries(intptr_t numEvaluations, const PipeschedEvaluation *evaluations) {
  std::vector<ComparisonEntry> entries;
  for (const NamedEvaluation *result :
       orNone(readResults(numEvaluations, evaluations)))
    entries.push_back(summarizeForComparison(*result));
  return entries;
}

void pipeschedWriteComparison(intptr_t numEvaluations,
                              const PipeschedEvaluation *evaluations,
                              MlirStringCallback callback, void *userData) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeComparison(os, listEntries(numEvaluations, evaluations));
  passText(callback, userData, text);
}

void pipeschedListFindings(intptr_t numEvaluations,
                           const PipeschedEvaluation *evaluations,
                           PipeschedFindingCallback callback, void *userData) {
  if (!callback)
    return;
  for (const Finding &finding :
       findFindings(listEntries(numEvaluations, evaluations)))
    callback(wrap(enumName(finding.kind)), wrap(llvm::StringRef(finding.text)),
             userData);
}

MlirLogicalResult pipeschedWriteText(intptr_t numEvaluations,
                                     const PipeschedEvaluation *evaluations,
                                     int64_t width, bool hasColours,
                                     MlirStringCallback callback,
                                     void *userData, MlirStringCallback onError,
                                     void *errorData) {
  llvm::Expected<Results> results = readResults(numEvaluations, evaluations);
  if (!results) {
    passError(onError, errorData, results.takeError());
    return mlirLogicalResultFailure();
  }
  llvm::SmallVector<const NamedTable *> tables;
  for (const NamedEvaluation *result : *results) {
    if (result->isProgram()) {
      passText(onError, errorData,
               result->name + " is a program; tables are of schedules");
      return mlirLogicalResultFailure();
    }
    tables.push_back(result);
  }
  TextPictureOptions options;
  options.width = width;
  options.hasColours = hasColours;
  std::string text;
  llvm::raw_string_ostream os(text);
  if (llvm::Error error = writeTextPictures(os, tables, options)) {
    passError(onError, errorData, std::move(error));
    return mlirLogicalResultFailure();
  }
  passText(callback, userData, text);
  return mlirLogicalResultSuccess();
}

MlirLogicalResult pipeschedWriteSvg(intptr_t numEvaluations,
                                    const PipeschedEvaluation *evaluations,
                                    PipeschedSvgVariant variant,
                                    MlirStringCallback callback, void *userData,
                                    MlirStringCallback onError,
                                    void *errorData) {
  llvm::Expected<SvgVariant> chosen =
      readEnum<SvgVariant>("svg-variant", variant);
  if (!chosen) {
    passError(onError, errorData, chosen.takeError());
    return mlirLogicalResultFailure();
  }
  llvm::Expected<Results> results = readResults(numEvaluations, evaluations);
  if (!results) {
    passError(onError, errorData, results.takeError());
    return mlirLogicalResultFailure();
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  if (llvm::Error error = writeSvg(os, *results, *chosen)) {
    passError(onError, errorData, std::move(error));
    return mlirLogicalResultFailure();
  }
  passText(callback, userData, text);
  return mlirLogicalResultSuccess();
}

//===----------------------------------------------------------------------===//
// Sweeps
//===----------------------------------------------------------------------===//

static void consume(size_t index, llvm::Expected<EvaluatedTable> evaluation,
                    const PipeschedSweepCalls &calls) {
  if (!calls.consume) {
    llvm::consumeError(evaluation.takeError());
    return;
  }
  if (!evaluation) {
    std::string error = llvm::toString(evaluation.takeError());
    calls.consume(index, {nullptr}, wrap(error), calls.userData);
    return;
  }
  calls.consume(index, wrap(&*evaluation), wrap(llvm::StringRef()),
                calls.userData);
}

bool pipeschedSweep(intptr_t numConfigurations,
                    const PipeschedConfiguration *configurations,
                    unsigned numThreads, PipeschedSweepCalls calls) {
  if (numConfigurations < 0 || (numConfigurations && !configurations))
    return false;
  return sweep(
      numConfigurations, numThreads,
      {[&](size_t index) {
         llvm::Expected<Configuration> configuration =
             readConfiguration(configurations[index]);
         if (configuration)
           configuration->numbersAlone = true; // a sweep reads numbers alone
         return configuration;
       },
       [&](size_t index, llvm::Expected<EvaluatedTable> evaluation) {
         consume(index, std::move(evaluation), calls);
       },
       [&](size_t done) {
         return !calls.keepGoing || calls.keepGoing(done, calls.userData);
       }});
}
