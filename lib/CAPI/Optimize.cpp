//===- Optimize.cpp - C API to search for schedules -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps what the passes of a pipeline note in the log of their context.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Optimize.h"
#include "Enums.h"
#include "PipeSched/Transforms/OptimizationLog.h"
#include "Wrap.h"
#include "mlir/CAPI/IR.h"

using namespace mlir;
using namespace pipesched;

using SearchResults = std::vector<OptimizationSummary>;
DEFINE_C_API_PTR_METHODS(PipeschedSearch, SearchResults)

static_assert(isSame(PipeschedObjectiveMakespan,
                     optimize::Objective::Makespan) &&
              isSame(PipeschedObjectivePeriod, optimize::Objective::Period) &&
              kNumEnumValues<optimize::Objective> == 2);
static_assert(isSame(PipeschedSearchOptimal, optimize::Status::Optimal) &&
              isSame(PipeschedSearchGapReached, optimize::Status::GapReached) &&
              isSame(PipeschedSearchLimit, optimize::Status::TimeLimit) &&
              isSame(PipeschedSearchInterrupted,
                     optimize::Status::Interrupted) &&
              kNumEnumValues<optimize::Status> == 4);
static_assert(isSame(PipeschedPlacementLinear, PlacementKind::Linear) &&
              isSame(PipeschedPlacementInterleaved,
                     PlacementKind::Interleaved) &&
              isSame(PipeschedPlacementV, PlacementKind::V) &&
              isSame(PipeschedPlacementWave, PlacementKind::Wave) &&
              kNumEnumValues<PlacementKind> == 4);

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

PipeschedSearch pipeschedModuleSearch(MlirModule module,
                                      MlirStringRef pipeline) {
  if (mlirModuleIsNull(module))
    return {nullptr};
  pipe::OptimizationLog log(unwrap(module)->getContext());
  if (mlirLogicalResultIsFailure(
          pipeschedModuleRunSearchPipeline(module, pipeline)))
    return {nullptr};
  return wrap(new SearchResults(log.take()));
}

void pipeschedSearchDestroy(PipeschedSearch search) { delete unwrap(search); }

intptr_t pipeschedSearchGetNumResults(PipeschedSearch search) {
  return search.ptr ? unwrap(search)->size() : 0;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// The element of a list. Error: there is none.
template <typename T>
static llvm::Expected<const T *>
at(llvm::StringRef what, const std::vector<T> &list, intptr_t index) {
  if (index >= 0 && index < intptr_t(list.size()))
    return &list[index];
  return llvm::createStringError("expected " + what + " below " +
                                 llvm::Twine(list.size()) + ", found " +
                                 llvm::Twine(index));
}

static llvm::Expected<const OptimizationSummary *>
findResult(PipeschedSearch search, intptr_t index) {
  if (llvm::Error error = checkGiven("a search", search.ptr))
    return std::move(error);
  return at("a result", *unwrap(search), index);
}

static PipeschedChoice choiceOf(const CandidateChoice &choice) {
  return {choice.placement.has_value(),
          static_cast<PipeschedPlacementKind>(
              choice.placement.value_or(PlacementKind::Linear)),
          choice.microbatchSize.value_or(0)};
}

static PipeschedSearchResult resultOf(const OptimizationSummary &found) {
  PipeschedSearchResult result = {};
  result.schedule = wrap(found.name);
  result.choice = choiceOf(found.choice);
  result.objective = static_cast<PipeschedObjective>(found.objective);
  result.objectivePs = found.objectivePs;
  result.makespanPs = found.makespanPs;
  result.periodPs = found.periodPs;
  result.lowerBoundPs = found.lowerBoundPs;
  result.bound = wrap(found.bound);
  if (found.lowerBoundPs != 0)
    result.gap =
        double(found.objectivePs - found.lowerBoundPs) / found.lowerBoundPs;
  result.status = static_cast<PipeschedSearchStatus>(found.status);
  result.origin = wrap(found.origin);
  result.startPs = found.startPs;
  result.start = wrap(found.start);
  result.seconds = found.seconds;
  result.secondsToBest = found.secondsToBest;
  result.evaluations = found.evaluations;
  result.numOthers = found.others.size();
  result.numWithout = found.without.size();
  return result;
}

static PipeschedAlternative alternativeOf(const Alternative &found) {
  return {wrap(found.name),
          choiceOf(found.choice),
          found.objective.has_value(),
          found.objective.value_or(0),
          found.isBound,
          wrap(found.reason)};
}

/// Writes what was found to `result`, converted, or passes on the error.
template <typename T, typename Found, typename Convert>
static MlirLogicalResult give(llvm::Expected<Found> found, T *result,
                              Convert convert, MlirStringCallback onError,
                              void *userData) {
  llvm::Error error = found.takeError();
  if (!error)
    error = checkGiven("room for the answer", result);
  if (error) {
    passError(onError, userData, std::move(error));
    return mlirLogicalResultFailure();
  }
  *result = convert(**found);
  return mlirLogicalResultSuccess();
}

MlirLogicalResult pipeschedSearchGetResult(PipeschedSearch search,
                                           intptr_t index,
                                           PipeschedSearchResult *result,
                                           MlirStringCallback onError,
                                           void *userData) {
  return give(findResult(search, index), result, resultOf, onError, userData);
}

/// An alternative of one of the lists of a result.
static MlirLogicalResult
giveAlternative(PipeschedSearch search, intptr_t index, llvm::StringRef what,
                std::vector<Alternative> OptimizationSummary::*list,
                intptr_t number, PipeschedAlternative *alternative,
                MlirStringCallback onError, void *userData) {
  llvm::Expected<const OptimizationSummary *> result =
      findResult(search, index);
  auto found = result ? at(what, (*result)->*list, number)
                      : llvm::Expected<const Alternative *>(result.takeError());
  return give(std::move(found), alternative, alternativeOf, onError, userData);
}

MlirLogicalResult pipeschedSearchGetOther(PipeschedSearch search,
                                          intptr_t index, intptr_t other,
                                          PipeschedAlternative *alternative,
                                          MlirStringCallback onError,
                                          void *userData) {
  return giveAlternative(search, index, "a choice",
                         &OptimizationSummary::others, other, alternative,
                         onError, userData);
}

MlirLogicalResult pipeschedSearchGetWithout(PipeschedSearch search,
                                            intptr_t index, intptr_t technique,
                                            PipeschedAlternative *alternative,
                                            MlirStringCallback onError,
                                            void *userData) {
  return giveAlternative(search, index, "a technique",
                         &OptimizationSummary::without, technique, alternative,
                         onError, userData);
}
