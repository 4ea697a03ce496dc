//===- Cache.h - Cache of schedules -----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A folder with the best known schedule of each problem, one text file each
// (docs/Optimize.md, the cache).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_SCHEDULE_CACHE_H
#define PIPESCHED_OPTIMIZE_SCHEDULE_CACHE_H

#include "PipeSched/Optimize/Search/Solver.h"

namespace pipesched::optimize {

/// Returns 64 hexadecimal digits: the SHA-256 of everything in a problem except
/// its name.
std::string cacheKey(const Problem &problem);

/// The entry that a folder stores for a problem.
struct CacheEntry {
  SolverResult result;
  /// The limits of the search that found the entry.
  double timeLimitSeconds = 0;
  uint64_t maxEvaluations = 0;
};

/// A folder of entries that several threads and processes may use at the same
/// time. An entry is replaced atomically, and the better of two entries is
/// kept.
class Cache {
public:
  explicit Cache(llvm::StringRef directory) : directory(directory) {}

  /// Returns the entry of a problem after timing and verifying it again.
  /// Returns nothing if there is no entry, or if it cannot be used; in the
  /// second case `warning` states the reason and the file.
  std::optional<CacheEntry> find(const Problem &problem,
                                 std::string &warning) const;

  /// Stores `entry` unless the stored entry is better: by objective, then by
  /// bound, then by limits. Creates the folder. Errors: a folder or file that
  /// cannot be written, with its name.
  llvm::Error store(const Problem &problem, const CacheEntry &entry) const;

  /// Returns the path of the file of a problem, whether or not it exists.
  std::string pathOf(const Problem &problem) const;

private:
  std::string directory;
};

/// Calls solve() with a cache. Returns the entry of the problem if it is proven
/// optimal, within the gap, or found within limits at least as large. Otherwise
/// it searches with the entry as one of the seeds, and stores the result. With
/// an empty `directory` this is solve(). Problems with the folder are reported
/// in `warning` and have no other effect. Errors: as for solve.
llvm::Expected<SolverResult> solveCached(const Problem &problem,
                                         llvm::ArrayRef<Seed> seeds,
                                         const SolverOptions &options,
                                         llvm::StringRef directory,
                                         std::string &warning);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_SCHEDULE_CACHE_H
