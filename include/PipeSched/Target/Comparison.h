//===- Comparison.h - Schedules side by side, as text -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables for people: the fastest schedule, the causes of idle time, the
// schedules that fit in memory; then findings from the numbers, such as
// rankings that differ between levels.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_COMPARISON_H
#define PIPESCHED_TARGET_COMPARISON_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// The numbers of one result in a comparison. Ratios are shares of workers
/// times makespan.
struct ComparisonEntry {
  std::string name, family;
  int64_t workers = 0, microbatches = 0;
  int64_t slices = 1;         ///< of a microbatch
  int64_t microbatchSize = 0; ///< 0: not known
  int64_t stepPs = 0;
  double idle = 0;
  std::array<double, kNumIdleCauses> idleByCause = {}; ///< as kIdleCauses
  double exposed = 0; ///< part of the step that free messages would save
  std::optional<double> tableBubble, formulaBubble;
  /// The bottleneck worker's; absent without a model.
  std::optional<WorkerMemory> memory;
  int64_t bottleneckWorker = 0;
  int64_t capacityBytes = 0; ///< 0: not known
};

ComparisonEntry summarizeForComparison(const NamedEvaluation &result);

/// The subject of a finding.
enum class FindingKind : uint8_t {
  Fastest,
  Cause,
  EqualSteps,
  Fit,
  Ranking,
  Tie,
  AllRankings
};

template <>
struct EnumNames<FindingKind> {
  static constexpr EnumName<FindingKind> values[] = {
      {FindingKind::Fastest, "fastest", "Who is fastest, or fastest that fits"},
      {FindingKind::Cause, "cause", "The main cause of idle time"},
      {FindingKind::EqualSteps, "equal-steps", "Steps of the same length"},
      {FindingKind::Fit, "fit", "Who does not fit"},
      {FindingKind::Ranking, "ranking",
       "Two schedules that formula, table and execution put in other orders"},
      {FindingKind::Tie, "tie",
       "Two schedules that some of the three hold equal and others do not"},
      {FindingKind::AllRankings, "all-rankings",
       "How many pairs change their order between the three"}};
};

/// One sentence about a notable result of a comparison.
struct Finding {
  FindingKind kind;
  std::string text; ///< without a final period
};

/// Who is fastest, why workers idle, equal steps, who does not fit, and pairs
/// whose order differs between formula, table and execution (of entries with
/// the same workers and the same work).
std::vector<Finding> findFindings(llvm::ArrayRef<ComparisonEntry> entries);

/// Writes aligned tables and findings; writes nothing if there are no entries.
void writeComparison(llvm::raw_ostream &os,
                     llvm::ArrayRef<ComparisonEntry> entries);

} // namespace pipesched

#endif // PIPESCHED_TARGET_COMPARISON_H
