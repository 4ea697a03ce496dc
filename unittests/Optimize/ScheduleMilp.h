//===- ScheduleMilp.h - A problem as a mixed-integer program ----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the least makespan with COIN-OR's CBC. Variables are start times, the
// order of every two cells that share a queue, and the order of every two
// memory events of a worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_OPTIMIZE_SCHEDULEMILP_H
#define PIPESCHED_UNITTESTS_OPTIMIZE_SCHEDULEMILP_H

#include "PipeSched/Optimize/Problem/Problem.h"
#include <Cbc_C_Interface.h>
#include <cmath>
#include <map>
#include <optional>

namespace pipesched::optimize::test {

/// A problem with one path and split backwards.
class ScheduleMilp {
public:
  /// `horizon` is the makespan of some schedule.
  ScheduleMilp(const Problem &problem, int64_t horizon)
      : problem(problem), placement(problem.placement),
        horizon(double(horizon)), model(Cbc_newModel()) {
    Cbc_setParameter(model, "log", "0");
    makespan = addColumn(0, this->horizon, /*cost=*/1, /*isWhole=*/false);
    for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m)
      for (int64_t stage = 0; stage < placement.getNumGlobalStages(); ++stage)
        addPair(stage, m);
    addMessages();
    for (int64_t worker = 0; worker < placement.getNumWorkers(); ++worker) {
      addQueues(worker);
      addMemory(worker);
    }
  }
  ScheduleMilp(const ScheduleMilp &) = delete;
  ScheduleMilp &operator=(const ScheduleMilp &) = delete;
  ~ScheduleMilp() { Cbc_deleteModel(model); }

  /// Nothing: no result in so many seconds.
  std::optional<int64_t> solve(int seconds) {
    Cbc_setParameter(model, "seconds", std::to_string(seconds).c_str());
    Cbc_solve(model);
    if (!Cbc_isProvenOptimal(model))
      return std::nullopt;
    return std::llround(Cbc_getObjValue(model));
  }

private:
  static constexpr int kAlways = -1; ///< no column: the cell is always there

  /// A cell, with the column that is 1 if the schedule has it.
  struct Task {
    int start = 0;
    double duration = 0;
    int presence = kAlways;
    int64_t worker = 0;
    int queue = 0; ///< compute, offloads, reloads
  };
  /// A change of memory at the start or the end of a cell.
  struct Event {
    Task task;
    bool isEnd = false;
    double amount = 0;
    int presence = kAlways;
  };
  struct PairTasks {
    Task forward, inputGrad, weightGrad, recompute, offload, reload;
  };
  struct Term {
    int column;
    double factor;
  };

  int addColumn(double least, double most, double cost, bool isWhole) {
    Cbc_addCol(model, "", least, most, cost, isWhole, 0, nullptr, nullptr);
    return numColumns++;
  }
  int addChoice() { return addColumn(0, 1, 0, /*isWhole=*/true); }

  /// Requires that the sum of the terms is at least `least`. Terms of kAlways
  /// are constants; a column may have several terms.
  void require(llvm::ArrayRef<Term> terms, double least) {
    std::map<int, double> factors;
    for (Term term : terms) {
      if (term.column == kAlways)
        least -= term.factor;
      else
        factors[term.column] += term.factor;
    }
    std::vector<int> columns;
    std::vector<double> values;
    for (auto [column, factor] : factors) {
      columns.push_back(column);
      values.push_back(factor);
    }
    Cbc_addRow(model, "", int(columns.size()), columns.data(), values.data(),
               'G', least);
  }
  void requireAfter(const Task &later, const Task &before, double delay = 0) {
    require({{later.start, 1}, {before.start, -1}}, before.duration + delay);
  }

  Task addTask(int64_t stage, int queue, int64_t duration, int presence) {
    Task task;
    task.start = addColumn(0, horizon, 0, /*isWhole=*/false);
    task.duration = double(duration);
    task.presence = presence;
    task.worker = placement.workerOf(stage);
    task.queue = queue == 2 && problem.sharedCopyQueue ? 1 : queue;
    tasks.push_back(task);
    return task;
  }
  void addEvent(const Task &task, bool isEnd, int64_t amount, int presence) {
    if (amount != 0)
      events.push_back({task, isEnd, double(amount), presence});
  }

  void addPair(int64_t stage, int64_t microbatch) {
    const StageFacts &facts = problem.stages[stage];
    PairTasks pair;
    pair.forward = addTask(stage, 0, facts.forward, kAlways);
    pair.inputGrad = addTask(stage, 0, facts.inputGrad, kAlways);
    pair.weightGrad = addTask(stage, 0, facts.weightGrad, kAlways);
    requireAfter(pair.inputGrad, pair.forward);
    requireAfter(pair.weightGrad, pair.inputGrad);
    require({{makespan, 1}, {pair.weightGrad.start, -1}},
            pair.weightGrad.duration);
    addEvent(pair.forward, false, facts.activation, kAlways);
    addEvent(pair.inputGrad, true, -facts.freedByInputGrad, kAlways);
    addEvent(pair.weightGrad, true, facts.freedByInputGrad - facts.activation,
             kAlways);
    int offloads = problem.techniques.offload ? addChoice() : kAlways;
    int recomputes = problem.techniques.recompute ? addChoice() : kAlways;
    if (problem.techniques.offload)
      addCopies(pair, stage, offloads);
    if (problem.techniques.recompute)
      addRecompute(pair, stage, recomputes);
    if (problem.techniques.offload && problem.techniques.recompute)
      require({{offloads, -1}, {recomputes, -1}}, -1);
    if (stage == 0 && microbatch > 0) // alike, so they may start in order
      require(
          {{pair.forward.start, 1},
           {pairs[pairs.size() - placement.getNumGlobalStages()].forward.start,
            -1}},
          0);
    pairs.push_back(pair);
  }

  void addCopies(PairTasks &pair, int64_t stage, int offloads) {
    const StageFacts &facts = problem.stages[stage];
    pair.offload = addTask(stage, 1, facts.offload, offloads);
    pair.reload = addTask(stage, 2, facts.reload, offloads);
    requireAfter(pair.offload, pair.forward);
    requireAfter(pair.reload, pair.offload);
    // I waits for U if there is one; otherwise U may be anywhere.
    require({{pair.inputGrad.start, 1},
             {pair.reload.start, -1},
             {offloads, -2 * horizon}},
            pair.reload.duration - 2 * horizon);
    addEvent(pair.offload, true, -facts.activation, offloads);
    addEvent(pair.reload, false, facts.activation, offloads);
  }

  void addRecompute(PairTasks &pair, int64_t stage, int recomputes) {
    const StageFacts &facts = problem.stages[stage];
    pair.recompute = addTask(stage, 0, facts.recompute, recomputes);
    requireAfter(pair.recompute, pair.forward);
    require({{pair.inputGrad.start, 1},
             {pair.recompute.start, -1},
             {recomputes, -2 * horizon}},
            pair.recompute.duration - 2 * horizon);
    int64_t rest = facts.activation - facts.checkpoint;
    addEvent(pair.forward, true, -rest, recomputes);
    addEvent(pair.recompute, false, rest, recomputes);
  }

  void addMessages() {
    int64_t numStages = placement.getNumGlobalStages();
    bool isLate = problem.gradientAfter == GradientAfter::WeightGrad;
    for (size_t i = 0; i + 1 < pairs.size(); ++i) {
      int64_t stage = int64_t(i) % numStages;
      if (stage + 1 == numStages)
        continue;
      bool isLocal = placement.workerOf(stage) == placement.workerOf(stage + 1);
      const PairTasks &after = pairs[i + 1];
      requireAfter(after.forward, pairs[i].forward,
                   isLocal ? 0 : double(problem.stages[stage].activationDelay));
      requireAfter(
          pairs[i].inputGrad, isLate ? after.weightGrad : after.inputGrad,
          isLocal ? 0 : double(problem.stages[stage + 1].gradientDelay));
    }
  }

  /// Of two cells of a queue that the schedule has, one ends before the other
  /// starts.
  void addQueues(int64_t worker) {
    for (size_t i = 0; i < tasks.size(); ++i)
      for (size_t j = i + 1; j < tasks.size(); ++j) {
        const Task &first = tasks[i], &second = tasks[j];
        if (first.worker != worker || second.worker != worker ||
            first.queue != second.queue)
          continue;
        int isFirst = addChoice();
        double slack = 2 * horizon;
        auto order = [&](const Task &before, const Task &later, double sign,
                         double constant) {
          require({{later.start, 1},
                   {before.start, -1},
                   {isFirst, -sign * slack},
                   {first.presence, -slack},
                   {second.presence, -slack}},
                  before.duration - slack * (2 + constant));
        };
        order(first, second, 1, 1);
        order(second, first, -1, 0);
      }
  }

  /// Limits what a worker holds at each allocation: all that was allocated
  /// until then, less what the program can claim to be freed by then.
  void addMemory(int64_t worker) {
    for (const Event &now : events) {
      if (now.task.worker != worker || now.amount < 0)
        continue;
      double mostHeld = 0;
      std::vector<Term> held;
      for (const Event &other : events) {
        if (other.task.worker != worker || &other == &now)
          continue;
        int counts = addChoice();
        held.push_back({counts, -other.amount});
        if (other.amount > 0) {
          mostHeld += other.amount;
          allowLater(counts, other, now);
        } else {
          allowEarlier(counts, other, now);
        }
      }
      double capacity = double(problem.capacity[worker]);
      held.push_back({now.presence, -now.amount - mostHeld});
      require(held, -capacity - mostHeld);
    }
  }
  double offsetOf(const Event &event) const {
    return event.isEnd ? event.task.duration : 0;
  }
  /// `counts` may be 0 only if `other` is at least a tick later or absent.
  void allowLater(int counts, const Event &other, const Event &now) {
    double slack = 2 * horizon + 1;
    require({{other.task.start, 1},
             {now.task.start, -1},
             {counts, slack},
             {other.presence, -slack}},
            1 + offsetOf(now) - offsetOf(other) - slack);
  }
  /// `counts` may be 1 only if `other` is present and not later.
  void allowEarlier(int counts, const Event &other, const Event &now) {
    double slack = 2 * horizon;
    require({{now.task.start, 1}, {other.task.start, -1}, {counts, -slack}},
            offsetOf(other) - offsetOf(now) - slack);
    require({{other.presence, 1}, {counts, -1}}, 0);
  }

  const Problem &problem;
  const Placement &placement;
  double horizon;
  Cbc_Model *model;
  int numColumns = 0, makespan = 0;
  std::vector<PairTasks> pairs; ///< by microbatch and stage
  std::vector<Task> tasks;
  std::vector<Event> events;
};

} // namespace pipesched::optimize::test

#endif // PIPESCHED_UNITTESTS_OPTIMIZE_SCHEDULEMILP_H
