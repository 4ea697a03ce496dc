//===- Comparison.h - Comparison of schedules as text -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tables for users: the fastest schedule, the causes of idle time, the
// schedules that fit in memory; then findings from these numbers, such as
// rankings that differ between levels.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_COMPARISON_H
#define PIPESCHED_TARGET_COMPARISON_H

#include "PipeSched/Evaluation/NamedEvaluation.h"

namespace pipesched {

/// The numbers of one result in a comparison. Ratios are fractions of workers
/// times makespan.
struct ComparisonEntry {
  std::string name, family;
  int64_t workers = 0, microbatches = 0;
  int64_t slices = 1;         ///< of a microbatch
  int64_t microbatchSize = 0; ///< 0: unknown
  int64_t stepPs = 0;
  double idle = 0;
  /// In the order of kIdleCauses.
  std::array<double, kNumIdleCauses> idleByCause = {};
  double exposed = 0; ///< part of the step that free messages would save
  std::optional<double> tableBubble, formulaBubble;
  /// Of the bottleneck worker; absent without a model.
  std::optional<WorkerMemory> memory;
  int64_t bottleneckWorker = 0;
  int64_t capacityBytes = 0; ///< 0: unknown
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

/// One sentence about a notable result of the comparison.
struct Finding {
  FindingKind kind;
  std::string text; ///< without a final period
};

/// Finds the fastest entry, causes of idle time, equal steps, entries that do
/// not fit, and pairs whose order differs between formula, table and execution
/// (among entries with the same workers and the same work).
std::vector<Finding> findFindings(llvm::ArrayRef<ComparisonEntry> entries);

/// Writes aligned tables and findings; writes nothing if there are no entries.
void writeComparison(llvm::raw_ostream &os,
                     llvm::ArrayRef<ComparisonEntry> entries);

} // namespace pipesched

#endif // PIPESCHED_TARGET_COMPARISON_H
