//===- AnyTimeMemory.h - Memory bounds for any times ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the most memory that a worker can hold if the times of cells,
// messages and copies are unknown, and only the waits between them are known
// (docs/Transforms.md, "Proof of a memory budget").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_MEMORY_ANYTIMEMEMORY_H
#define PIPESCHED_ANALYSIS_MEMORY_ANYTIMEMEMORY_H

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Schedule/Program/Program.h"
#include "PipeSched/Support/EnumNames.h"

namespace pipesched {

/// The times of cells, messages and copies for which memory has to suffice.
enum class MemoryTimes : uint8_t {
  Any,   ///< any times: the order of the rows and their joins must guarantee it
  Given, ///< the times of the attached costs
};

template <>
struct EnumNames<MemoryTimes> {
  static constexpr EnumName<MemoryTimes> values[] = {
      {MemoryTimes::Any, "any",
       "Whatever cells, messages and copies take: rows and joins guarantee it"},
      {MemoryTimes::Given, "given", "At the attached times, and only there"}};
};

/// Tracks the most memory that one worker can hold. The caller reports the
/// actions of its row in order. The only known facts about times are that
/// offloads end in the order of their queue, and reloads start in the order of
/// theirs.
///
/// Let W(n) be the most that can be held once the first n offloads have ended,
/// over all states that are then possible. W does not grow with n, so one
/// number and the steps down describe it:
///
///   W(n) = level - held[0] - ... - held[n-1]
///
///   row allocates or frees b    W(n) += b          for all n
///   D of b bytes is issued      W(last) = W(last - 1) - b
///   U of b bytes is issued      W(n) = max(W(n), W(k) + b) for n < k,
///                               W(n) += b          for n >= k
///
/// where k is the number of offloads that end before the U can start: its own,
/// the offloads that joins before it name, and the offloads that earlier
/// reloads wait for. Offloads that the row itself has waited for are removed
/// from the sum. Each call takes amortized nearly constant time. Sums must fit
/// int64; this holds if the sum of all allocations fits.
class AnyTimeMemory {
public:
  /// The row allocates bytes, or frees them if the number is negative.
  void change(int64_t bytes) { level += bytes; }
  /// Issues a D. Returns the number of offloads that have ended when this one
  /// ends.
  uint32_t offload(int64_t bytes);
  /// Issues a U that starts once `numEnded` offloads have ended. Returns the
  /// number of offloads that have ended when it starts, including the offloads
  /// that earlier reloads wait for.
  uint32_t reload(int64_t bytes, uint32_t numEnded);
  /// Lets the row continue once `numEnded` offloads have ended.
  void await(uint32_t numEnded);

  /// The most bytes that can be held now.
  int64_t most() const { return level; }
  /// Number of offloads that are known to have ended.
  uint32_t getNumEnded() const { return numAwaited; }

private:
  uint32_t lastHeld(uint32_t end);

  int64_t level = 0;
  uint32_t numAwaited = 0, numBeforeReload = 0;
  std::vector<int64_t> held; ///< by offload
  /// By offload, a link to an offload that holds memory, plus one: to the
  /// offload itself if it holds some, else to an earlier offload on the way to
  /// one that does. 0: there is none.
  std::vector<uint32_t> links;
};

/// The most memory that the activations of a worker can take.
struct AnyTimePeak {
  int64_t bytes = 0;
  /// The cell that reaches the peak; none if there are no cells.
  std::optional<Cell> cell;
  int64_t microbatches = 0; ///< stage activations, including offloaded ones
  /// Offloads that no instruction before `cell` waits for, in the order of the
  /// row.
  std::vector<Cell> pending;
};

/// The peak of each worker, linear in instructions. Needs a program made by
/// lowerTable from a verified table: each copy is issued after the compute
/// before it. Errors: activations that sum to more than 2^63-1 bytes; edges
/// besides chains whose tensors have memory; errors of computeMemory for sparse
/// programs.
llvm::Expected<std::vector<AnyTimePeak>>
computeAnyTimePeaks(const Program &program, const Placement &placement,
                    const MemoryFacts &facts);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_MEMORY_ANYTIMEMEMORY_H
