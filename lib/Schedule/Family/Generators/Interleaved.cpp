//===- Interleaved.cpp - Interleaved 1F1B, pairs and zero bubble ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The generators walk through (chunk, microbatch) in groups, up to three times
// in one row: for the forwards, for the backwards, and for delayed W cells.
//
//===----------------------------------------------------------------------===//

#include "InterleavedRow.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static constexpr llvm::StringLiteral kCombined = "combined-1f1b";

/// PyTorch's group: N is split into max(1, N div D) equal groups.
static Expected<int64_t>
defaultGroup(int64_t numWorkers, int64_t numMicrobatches, StringRef family) {
  auto countGroups = [&](int64_t n) {
    return std::max<int64_t>(1, n / numWorkers);
  };
  int64_t numGroups = countGroups(numMicrobatches);
  if (numMicrobatches % numGroups == 0)
    return numMicrobatches / numGroups;
  auto isValid = [&](int64_t n) { return n % countGroups(n) == 0; };
  return formatError(
      "{0} divides {2} microbatches on {3} workers into {1} equal groups, but "
      "{1} does not divide {2}; {4}, or give a group",
      family, numGroups, numMicrobatches, numWorkers,
      nearestOf(numMicrobatches, numMicrobatches + numWorkers, isValid));
}

/// Megatron's rule: each group, including the last, has at least D
/// microbatches, or one group has all N.
static Error checkGroup(int64_t group, int64_t numWorkers,
                        int64_t numMicrobatches, StringRef family) {
  auto isValid = [&](int64_t g) {
    int64_t rest = numMicrobatches % g;
    return g == numMicrobatches ||
           (g >= numWorkers && (rest == 0 || rest >= numWorkers));
  };
  if (group >= 1 && group <= numMicrobatches && isValid(group))
    return Error::success();
  std::string nearest = nearestOf(group, numMicrobatches, isValid);
  if (group < numWorkers || group > numMicrobatches)
    return formatError(
        "{0} on {1} workers takes a group of at least {1} and at "
        "most all {2} microbatches, found {3}; {4}",
        family, numWorkers, numMicrobatches, group, nearest);
  return formatError("{0} on {1} workers takes a group that leaves none or at "
                     "least {1} of the {2} microbatches to the last group, "
                     "found {3}, which leaves {4}; {5}",
                     family, numWorkers, numMicrobatches, group,
                     numMicrobatches % group, nearest);
}

static Expected<int64_t> chooseGroup(const Placement &placement,
                                     const InterleavedOptions &options,
                                     StringRef family) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  // With a single chunk the group has no effect.
  if (!options.group && placement.getMaxStages() == numWorkers &&
      family == kCombined)
    return numMicrobatches;
  if (!options.group)
    return defaultGroup(numWorkers, numMicrobatches, family);
  if (Error error =
          checkGroup(*options.group, numWorkers, numMicrobatches, family))
    return std::move(error);
  return *options.group;
}

/// Fills each row with `writeRow(r, chunks, group, row)`, which writes whole or
/// split backwards.
template <typename WriteRow>
static Expected<Table>
generateInterleaved(const Placement &given, const InterleavedOptions &options,
                    bool writesSplit, StringRef family, WriteRow &&writeRow) {
  Expected<Placement> placement = placeChunks(given, options.chunks, family);
  if (!placement)
    return placement.takeError();
  Expected<int64_t> group = chooseGroup(*placement, options, family);
  if (!group)
    return group.takeError();
  bool isSplit = writesSplit || options.splitBackward;
  if (Error error = checkTableSize(*placement, family, isSplit ? 3 : 2))
    return std::move(error);
  Table table =
      makeEmptyTable(*placement, GradientAfter::InputGrad, writesSplit ? 3 : 2);
  int64_t numWorkers = placement->getNumWorkers();
  int64_t chunks = placement->getMaxStages() / numWorkers;
  writeRows(table, [&](int64_t r, RowWriter &writer) {
    InterleavedRow row(writer, r, *placement, *group);
    writeRow(r, chunks, *group, row);
  });
  return splitIfAsked(std::move(table), options);
}

///   F .. F  | F B F B ..  | B ..       w = (V-1)g + 2(D-1-r)
///   warm-up of w   alternating  the rest
Expected<Table>
pipesched::generateInterleaved1F1B(const Placement &placement,
                                   const InterleavedOptions &options) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  return generateInterleaved(
      placement, options, /*writesSplit=*/false, "interleaved-1f1b",
      [&](int64_t r, int64_t chunks, int64_t group, InterleavedRow &row) {
        int64_t total = chunks * numMicrobatches;
        int64_t warmUp =
            std::min((chunks - 1) * group + 2 * (numWorkers - 1 - r), total);
        for (int64_t k = 0; k < warmUp; ++k)
          row.forward();
        for (int64_t k = warmUp; k < total; ++k) {
          row.forward();
          row.backward();
        }
        for (int64_t k = 0; k < warmUp; ++k)
          row.backward();
      });
}

///   F .. F  | F+B F+B ..  | B ..       w = (V-1)g + 2(D-1-r) + 1
///   warm-up of w   pairs     the rest
Expected<Table>
pipesched::generateCombined1F1B(const Placement &placement,
                                const InterleavedOptions &options) {
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  return generateInterleaved(
      placement, options, /*writesSplit=*/false, kCombined,
      [&](int64_t r, int64_t chunks, int64_t group, InterleavedRow &row) {
        int64_t total = chunks * numMicrobatches;
        int64_t warmUp = std::min(
            (chunks - 1) * group + 2 * (numWorkers - 1 - r) + 1, total);
        for (int64_t k = 0; k < warmUp; ++k)
          row.forward();
        for (int64_t k = warmUp; k < total; ++k)
          row.forwardAndBackward();
        for (int64_t k = 0; k < warmUp; ++k)
          row.backward();
      });
}

///   F .. F  | F I .. F I | F I W F I W .. | I W .. | W ..
///   warm-up of w   W is delayed by r         no forward left
Expected<Table>
pipesched::generateInterleavedZB(const Placement &placement,
                                 const InterleavedOptions &options) {
  StringRef family = "interleaved-zb";
  if (Error error = checkGradientAfterInput(options, family))
    return std::move(error);
  int64_t numWorkers = placement.getNumWorkers();
  int64_t numMicrobatches = placement.getNumMicrobatches();
  return generateInterleaved(
      placement, options, /*writesSplit=*/true, family,
      [&](int64_t r, int64_t chunks, int64_t group, InterleavedRow &row) {
        int64_t total = chunks * numMicrobatches;
        int64_t warmUp =
            std::min((chunks - 1) * group + (numWorkers - 1 - r), total);
        for (int64_t k = 0; k < warmUp; ++k)
          row.forward();
        for (int64_t k = 0; k < total; ++k) {
          if (k < total - warmUp)
            row.forward();
          row.inputGrad();
          if (k >= r)
            row.weightGrad();
        }
        for (int64_t k = std::max<int64_t>(0, total - r); k < total; ++k)
          row.weightGrad();
      });
}
