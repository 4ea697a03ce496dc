//===- Cache.h - Cache of schedules -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder with the best schedule known of each problem, one text file each
// (docs/Optimize.md, the cache).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SCHEDULE_CACHE_H
#define PIPESCHED_OPTIMIZE_SCHEDULE_CACHE_H

#include "PipeSched/Optimize/Search/Solver.h"

namespace pipesched::optimize {

/// 64 hexadecimal digits: the SHA-256 of everything in a problem but its name.
std::string cacheKey(const Problem &problem);

/// The entry that a folder stores for a problem.
struct CacheEntry {
  SolverResult result;
  /// The limits of the search that found it.
  double timeLimitSeconds = 0;
  uint64_t maxEvaluations = 0;
};

/// A folder of entries that several threads and processes may use at the same
/// time. An entry is replaced as a whole, and the better of two stays.
class Cache {
public:
  explicit Cache(llvm::StringRef directory) : directory(directory) {}

  /// The entry of a problem, timed and verified again. Nothing: there is none,
  /// or it cannot be used; then `warning` says so and names the file.
  std::optional<CacheEntry> find(const Problem &problem,
                                 std::string &warning) const;

  /// Stores `entry` unless the stored one is better: by objective, then by
  /// bound, then by limits. Creates the folder. Errors: a folder or file that
  /// cannot be written, with its name.
  llvm::Error store(const Problem &problem, const CacheEntry &entry) const;

  /// The file of a problem, whether or not it exists.
  std::string pathOf(const Problem &problem) const;

private:
  std::string directory;
};

/// solve() with a cache. Returns the entry of the problem if it is proven,
/// within the gap, or was found within limits no smaller than these. Otherwise
/// the entry is one of the seeds, and the result is stored. With an empty
/// `directory` this is solve(). Problems with the folder go to `warning` and
/// change nothing else. Errors: as for solve.
llvm::Expected<SolverResult> solveCached(const Problem &problem,
                                         llvm::ArrayRef<Seed> seeds,
                                         const SolverOptions &options,
                                         llvm::StringRef directory,
                                         std::string &warning);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_SCHEDULE_CACHE_H
