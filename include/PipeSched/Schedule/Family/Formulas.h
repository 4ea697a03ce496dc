//===- Formulas.h - Level 1: closed formulas of families --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The literature's bubble ratio and activation peak per family, each with its
// source and the conditions under which it holds.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_FAMILY_FORMULAS_H
#define PIPESCHED_SCHEDULE_FAMILY_FORMULAS_H

#include "PipeSched/Schedule/Family/Families.h"
#include <string>

namespace pipesched {

struct FormulaInputs {
  /// Times of one stage, the same for every stage and slice; commPs is the
  /// delay of one message (transport `delay`).
  struct Times {
    int64_t forwardPs = 0, inputGradPs = 0, weightGradPs = 0, commPs = 0;
    /// The time of an overlapped pair F+B. No value: the sum of its cells.
    std::optional<int64_t> overlappedPs = std::nullopt;
    /// Times of S and T for one shard of the vocabulary.
    int64_t logitsPs = 0, logitsGradPs = 0;
  };

  int64_t workers = 0;
  int64_t stages = 0; ///< of one path
  int64_t microbatches = 0;
  /// No value: the times differ between stages, or are unknown.
  std::optional<Times> times = std::nullopt;
  int64_t paths = 1;
  /// Backwards are split into I and, right after it, W, and send their gradient
  /// after I. Ignored for families that delay W.
  bool sendsAfterInput = false;
  /// The greedy rule made the rows, with slots in proportion to these times.
  bool isMadeForTimes = false;
  /// Number of microbatches in a group of an interleaved family. No value: the
  /// family's default.
  std::optional<int64_t> group = std::nullopt;
  ChimeraConstruction construction = ChimeraConstruction::Concat;
  VocabularyAlgorithm vocabulary = VocabularyAlgorithm::Vocab1;
  int64_t slices = 1; ///< of a microbatch
};

/// A ratio is idle / (idle + work) of a worker, where idle is the makespan
/// minus the worker's work.
struct FormulaResult {
  double bubbleRatio = 0;      ///< as the literature states it
  int64_t peakActivations = 0; ///< in units, of the worker with the most
  std::string source, conditions;
  /// The ratio for the given times, including messages. No value without
  /// uniform times or without a known general form; generalConditions then
  /// states the reason.
  std::optional<double> bubbleRatioGeneral;
  std::string generalSource, generalConditions;
};

/// Returns the family whose formula holds for a schedule. An alias gives the
/// name of its family; greedy gives the family that its placement suggests
/// (bidirectional: chimera, wave: hanayo, linear: 1f1b).
llvm::StringRef formulaFamilyOf(llvm::StringRef family,
                                const Placement &placement);

/// Returns the inputs of the formulas of a schedule, except for times.
/// `options` are the options that generated it.
FormulaInputs formulaInputsOf(const Placement &placement,
                              const FamilyOptions &options = {});

/// Evaluates the formula of a family ("gpipe", "1f1b", ..., or an alias).
/// Errors: an unknown family; a family without a closed form, with the reason;
/// sizes outside its conditions.
llvm::Expected<FormulaResult> evaluateFormula(llvm::StringRef family,
                                              const FormulaInputs &inputs);

/// Evaluates the formula that holds for rows of a family on a placement (see
/// formulaFamilyOf). Greedy rows have a general form only on waves, because the
/// other formulas assume another order of cells. If some stages do not train,
/// there are formulas only for forward-only schedules, and for 1F1B and GPipe
/// whose first stages are frozen. Errors: as for evaluateFormula.
llvm::Expected<FormulaResult>
evaluateFormulaOfRows(llvm::StringRef family, const Placement &placement,
                      const FormulaInputs &inputs);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FAMILY_FORMULAS_H
