//===- Bounds.h - Lower bounds and proofs -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lower bounds on makespan and period, and exact search. docs/Optimize.md
// describes the bounds and proves them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_OPTIMIZE_BOUNDS_BOUNDS_H
#define PIPESCHED_OPTIMIZE_BOUNDS_BOUNDS_H

#include "PipeSched/Optimize/Problem/Solution.h"

namespace pipesched::optimize {

/// A lower bound on the objective of a problem, in ticks, and the name of the
/// bound in docs/Optimize.md.
struct Bound {
  int64_t value = 0;
  std::string name;
};

/// Returns the best of the bounds that need no search. Takes well under a
/// second for a thousand cells.
Bound quickBound(const Problem &problem);

/// The limits at which a proof stops. With only a limit on work, the same
/// problem gives the same proof on every machine.
struct ProofLimits {
  double seconds = 0; ///< may be infinite
  /// The most row edges, precedences and cells that propagation and searches
  /// read.
  uint64_t work = std::numeric_limits<uint64_t>::max();
  llvm::function_ref<bool()> mustStop = nullptr; ///< may be null
};

/// The result of exact search. `lowerBound` is valid even if the search was
/// stopped.
struct Proof {
  Bound lowerBound;
  /// A solution better than `upperBound`, if one was found.
  std::optional<Solution> better;
};

/// Raises the lower bound towards `upperBound`, the objective of a known
/// solution: first destructive bounds by propagation (rows as paths, memory
/// arcs), then branch and bound; for small problems with copies or
/// recomputation also a search from event to event. For the period it computes
/// only the quick bound. `knownBound` is a lower bound that is already proven.
Proof prove(const Problem &problem, int64_t upperBound,
            const ProofLimits &limits, int64_t knownBound = 0);

} // namespace pipesched::optimize

#endif // PIPESCHED_OPTIMIZE_BOUNDS_BOUNDS_H
