//===- Results.h - Results to export -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two workers and two microbatches, in numbers that can be checked by hand.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_TARGET_RESULTS_H
#define PIPESCHED_UNITTESTS_TARGET_RESULTS_H

#include "PipeSched/Evaluation/NamedEvaluation.h"
#include "PipeSched/Schedule/Family/Generators.h"
#include <deque>

namespace pipesched::test {

/// 1F1B on a linear path. Its rows live as long as the tests.
inline NamedEvaluation evaluate1F1B(llvm::StringRef name, int64_t workers,
                                    int64_t microbatches,
                                    const CostInputs &costs = {},
                                    const TimingOptions &timing = {}) {
  static std::deque<Table> tables;
  Placement placement = llvm::cantFail(
      Placement::create(workers, microbatches, {placeLinear(workers)}));
  tables.push_back(llvm::cantFail(generate1F1B(placement)));
  NamedEvaluation result;
  result.name = name.str();
  result.family = "1f1b";
  result.placement = placement;
  result.timing = timing;
  result.table = tables.back().view();
  result.evaluation = llvm::cantFail(
      evaluateTable(result.tableView(), result.family, costs, timing));
  return result;
}

/// F takes 10 us, B 20 us, a message 3 us in its queue and 2 us of latency.
inline CostInputs profileWithMessages() {
  constexpr int64_t us = 1000000;
  Profile profile;
  profile.phasePs[Phase::Forward] = {10 * us};
  profile.phasePs[Phase::Backward] = {20 * us};
  profile.sendPs = {3 * us};
  profile.commPs = {2 * us};
  CostInputs costs;
  costs.profile = profile;
  return costs;
}

} // namespace pipesched::test

#endif // PIPESCHED_UNITTESTS_TARGET_RESULTS_H
