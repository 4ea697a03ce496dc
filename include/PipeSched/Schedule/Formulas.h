//===- Formulas.h - Level 1: closed formulas of families --------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The literature's bubble ratio and activation peak per family, each with its
// source and the conditions under which it holds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_FORMULAS_H
#define PIPESCHED_SCHEDULE_FORMULAS_H

#include "PipeSched/Schedule/Families.h"
#include <string>

namespace pipesched {

/// What a formula may depend on.
struct FormulaInputs {
  /// Of one stage, the same for every stage; commPs is the delay of one message
  /// (transport `delay`).
  struct Times {
    int64_t forwardPs = 0, inputGradPs = 0, weightGradPs = 0, commPs = 0;
    /// Of an overlapped pair F+B; nothing: the sum.
    std::optional<int64_t> overlappedPs = std::nullopt;
  };

  int64_t workers = 0;
  int64_t stages = 0; ///< of one path
  int64_t microbatches = 0;
  /// Nothing: times differ between stages.
  std::optional<Times> times = std::nullopt;
  int64_t paths = 1;
  /// Backwards are split into I and, right behind it, W, and send their
  /// gradient after I. Families that put W off do not ask.
  bool sendsAfterInput = false;
  /// The rows were made for stages of these times: greedy ones.
  bool isMadeForTimes = false;
  /// Of interleaved families; nothing: their default.
  std::optional<int64_t> group = std::nullopt;
  ChimeraConstruction construction = ChimeraConstruction::Concat;
};

/// Ratios are idle / (idle + work) of a worker, idle being the makespan less
/// its work.
struct FormulaResult {
  double bubbleRatio = 0;      ///< the literature's
  int64_t peakActivations = 0; ///< largest over the workers
  std::string source, conditions;
  /// For the given times, messages included; nothing without uniform times or
  /// where no general form is known (then the reason is in generalConditions).
  std::optional<double> bubbleRatioGeneral;
  std::string generalSource, generalConditions;
};

/// The family whose formula a schedule goes by: its own, under its own name if
/// it has one; for greedy that of its placement (bidirectional: chimera, wave:
/// hanayo, linear: 1f1b).
llvm::StringRef formulaFamilyOf(llvm::StringRef family,
                                const Placement &placement);

/// What the formulas of a schedule depend on, times aside. `options` are those
/// that it was generated with.
FormulaInputs formulaInputsOf(const Placement &placement,
                              const FamilyOptions &options = {});

/// The formula of a family ("gpipe", "1f1b", ..., or an alias). Errors: an
/// unknown family; one without a closed form, saying why; sizes outside its
/// conditions.
llvm::Expected<FormulaResult> evaluateFormula(llvm::StringRef family,
                                              const FormulaInputs &inputs);

/// The formula that rows of a family go by on a placement (formulaFamilyOf). Of
/// greedy rows the general form is that of waves, or nothing: in other formulas
/// the times are those of another order. Errors: likewise.
llvm::Expected<FormulaResult>
evaluateFormulaOfRows(llvm::StringRef family, const Placement &placement,
                      const FormulaInputs &inputs);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FORMULAS_H
