//===- NamedEvaluation.h - A schedule with its results ------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What an export knows of one schedule or program: who it is, where its stages
// are, and its evaluation. Exports read this and nothing else.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_NAMEDEVALUATION_H
#define PIPESCHED_ANALYSIS_NAMEDEVALUATION_H

#include "PipeSched/Analysis/Evaluate.h"

namespace pipesched {

struct NamedEvaluation {
  std::string name;
  std::string family; ///< empty: none
  Placement placement;
  TimingOptions timing;
  int64_t microbatchSize = 0; ///< sequences; 0: no model says
  /// The rows of a schedule, owned by whoever holds it; for a program without
  /// rows.
  TableView table;
  std::vector<StatedWork> work; ///< of a program's instructions
  Evaluation evaluation;

  bool isProgram() const { return !evaluation.table; }
  /// The table with its placement, which moves with this object.
  TableView tableView() const {
    TableView view = table;
    view.placement = &placement;
    return view;
  }
};

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_NAMEDEVALUATION_H
