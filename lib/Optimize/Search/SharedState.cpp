//===- SharedState.cpp - What the tasks of one search share ---------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is read often is atomic; what changes seldom is under a lock.
//
//===----------------------------------------------------------------------===//

#include "SharedState.h"
#include "../Evaluator/Evaluator.h"

using namespace pipesched;
using namespace pipesched::optimize;

static constexpr double kReportInterval = 0.25; ///< seconds

double SharedState::seconds() const {
  return options.setupSeconds +
         std::chrono::duration<double>(Clock::now() - start).count();
}

static bool isNear(int64_t objective, int64_t bound, double gap) {
  return objective <= bound ||
         double(objective) <= double(bound) * (1 + std::max(0.0, gap));
}

bool SharedState::isGoal(int64_t objective) const {
  return isNear(objective, goalBound, options.gap);
}

void SharedState::startRound() {
  firstDone = kNoRank;
  std::lock_guard<std::mutex> guard(lock);
  goalBound = bound;
}

void SharedState::tell(uint32_t rank, int64_t objective) {
  if (objective == kInfeasible)
    return;
  if (isGoal(objective)) {
    uint32_t first = firstDone;
    while (rank < first && !firstDone.compare_exchange_weak(first, rank))
      ;
  }
  if (objective >= best)
    return;
  std::lock_guard<std::mutex> guard(lock);
  if (objective < best) {
    best = objective;
    secondsToBest = seconds();
  }
}

void SharedState::endProof(int64_t known) {
  tell(0, known);
  std::lock_guard<std::mutex> guard(lock);
  if (isNear(known, bound, options.gap))
    firstDone = 0;
}

void SharedState::raiseBound(int64_t value, llvm::StringRef name) {
  std::lock_guard<std::mutex> guard(lock);
  if (value <= bound)
    return;
  bound = value;
  boundName = name.str();
  if (!isRepeatable())
    goalBound = bound;
}

bool SharedState::mustStop(uint32_t rank) const {
  if (isInterrupted() || !hasTime())
    return true;
  return isRepeatable() ? rank >= firstDone : firstDone != kNoRank;
}

void SharedState::report() {
  if (!options.report)
    return;
  std::unique_lock<std::mutex> guard(lock, std::try_to_lock);
  double now = seconds();
  if (!guard || now - lastReport < kReportInterval || best == kInfeasible)
    return;
  lastReport = now;
  options.report({now, best, bound, evaluations});
}

void SharedState::fill(SolverResult &result) {
  std::lock_guard<std::mutex> guard(lock);
  result.lowerBound = bound;
  result.boundName = boundName;
  result.seconds = seconds();
  result.secondsToBest = secondsToBest;
  result.evaluations = evaluations;
}

//===----------------------------------------------------------------------===//
// The best solution
//===----------------------------------------------------------------------===//

void BestSolution::offer(Solution offered, llvm::StringRef name) {
  if (objectiveOf(problem, offered) >= getObjective())
    return;
  if (llvm::Error error = verifySolution(problem, offered))
    return llvm::consumeError(std::move(error));
  solution = std::move(offered);
  origin = name.str();
}

void BestSolution::offer(llvm::ArrayRef<Row> rows, llvm::StringRef name) {
  std::vector<llvm::ArrayRef<Cell>> views(rows.begin(), rows.end());
  llvm::Expected<Solution> timed = timeRows(problem, views);
  if (!timed)
    return llvm::consumeError(timed.takeError());
  offer(std::move(*timed), name);
}
