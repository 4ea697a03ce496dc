//===- Chimera.cpp - Li & Hoefler's bidirectional schedule ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chimera (arXiv 2107.06925, sections 3.2 to 3.6). Each cell takes one slot, no
// two cells of a worker share a slot, and the rows are the cells by slot.
//
//===----------------------------------------------------------------------===//

#include "Support.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;

/// Microbatches enter a path at slots 0, 2, .., so that microbatch j of a unit
/// has F at slot 2j + s and B at 2j + 2D-1-s on stage s. With B = D / pairs, a
/// worker at position q + kB (q < B) of the first path is at stage q + cB of
/// down path 2(k-c) and at D-1-q-cB of its mirror. Its cells form two streams,
/// one in even and one in odd slots, each without gaps within and between
/// units:
///
///   from slot q:      F of down paths, c = 0, 1, ..; then B of their mirrors
///   from slot B-1-q:  F of up paths, c = .., 1, 0;   then B of their mirrors
///
/// Doubling and halving run units with twice the microbatches: two in each
/// forward slot. Their backwards run in two passes, each over half of the
/// microbatches.
namespace {
struct Shape {
  int64_t numWorkers, pairs, passes; ///< passes: of the backwards of a unit

  int64_t block() const { return numWorkers / pairs; }
  /// Number of forwards of a path in a unit.
  int64_t forwardsPerUnit() const { return block() / 2; }
  int64_t microbatchesPerUnit() const { return forwardsPerUnit() * passes; }
};

/// The microbatches of each path in their order.
class PathMicrobatches {
public:
  explicit PathMicrobatches(const Placement &placement)
      : microbatches(placement.getNumMicrobatches()) {
    for (int64_t path = 0; path < placement.getNumPaths(); ++path)
      offsets.push_back(offsets.back() + placement.countOnPath(path));
    for (int64_t m = 0; m < placement.getNumMicrobatches(); ++m)
      microbatches[offsets[placement.pathOf(m)] + placement.rankOnPath(m)] = m;
  }

  int64_t count(int64_t path) const {
    return offsets[path + 1] - offsets[path];
  }
  int64_t at(int64_t path, int64_t rank) const {
    return microbatches[offsets[path] + rank];
  }

private:
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> microbatches;
};

/// One of the two streams of a worker, a sequence of runs. A run is the cells
/// of one path within a unit and pass, two slots apart.
class Stream {
public:
  Stream(const PathMicrobatches &microbatches, const Shape &shape,
         int64_t numUnits, int64_t position, bool isDown)
      : microbatches(microbatches), shape(shape), numUnits(numUnits),
        q(position % shape.block()), home(position / shape.block()),
        isDown(isDown) {
    enterRun();
  }

  bool isDone() const { return unit == numUnits; }

  int64_t slot() const {
    int64_t run = (unit * (1 + shape.passes) + pass) * shape.pairs + order;
    return (isDown ? q : shape.block() - 1 - q) +
           2 * (run * shape.forwardsPerUnit() + step);
  }

  void writeStep(RowWriter &row) {
    if (pass == 0)
      for (int64_t i = 0; i < std::min(shape.passes, left); ++i)
        row.forward(stage, microbatches.at(path, next + i));
    else
      row.backward(stage, microbatches.at(path, next));
    int64_t taken = pass == 0 ? shape.passes : 1;
    next += taken;
    left -= taken;
    ++step;
    if (left <= 0 && leaveRun())
      enterRun();
  }

private:
  /// Enters the run at (unit, pass, order), or the next non-empty run.
  void enterRun() {
    do {
      int64_t c = isDown ? order : shape.pairs - 1 - order;
      int64_t pair = (home - c + shape.pairs) % shape.pairs;
      bool onDownPath = isDown == (pass == 0);
      int64_t downStage = q + c * shape.block();
      path = 2 * pair + !onDownPath;
      stage = onDownPath ? downStage : shape.numWorkers - 1 - downStage;
      next = unit * shape.microbatchesPerUnit();
      int64_t most = shape.microbatchesPerUnit();
      if (pass > 0) {
        next += (pass - 1) * shape.forwardsPerUnit();
        most = shape.forwardsPerUnit();
      }
      left = std::min(most, microbatches.count(path) - next);
    } while (left <= 0 && leaveRun());
  }

  /// Advances to the next run; false at the end.
  bool leaveRun() {
    step = 0;
    if (++order < shape.pairs)
      return true;
    order = 0;
    if (++pass <= shape.passes)
      return true;
    pass = 0;
    return ++unit < numUnits;
  }

  const PathMicrobatches &microbatches;
  const Shape &shape;
  int64_t numUnits, q, home;
  bool isDown;
  int64_t unit = 0, pass = 0, order = 0, step = 0; ///< pass 0: the forwards
  int64_t path = 0, stage = 0, next = 0, left = 0; ///< of the run
};
} // namespace

/// Checks that paths share the microbatches evenly, and that with halving both
/// halves of a microbatch can take the same path.
static Error checkPathShares(const Placement &placement,
                             ChimeraConstruction construction) {
  for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
    int64_t count = placement.countOnPath(path);
    if (std::abs(count - placement.countOnPath(0)) > 1)
      return formatError("chimera shares microbatches out evenly, found {0} on "
                         "path 0 and {1} on path {2}",
                         placement.countOnPath(0), count, path);
    if (construction == ChimeraConstruction::Halving && count % 2 != 0)
      return formatError(
          "chimera with halving takes an even number of microbatches on each "
          "path, where each half counts as a microbatch, found {0} on path "
          "{1}; the nearest are {2} and {3}",
          count, path, count - 1, count + 1);
  }
  return Error::success();
}

static Expected<Placement> placePairs(const Placement &placement,
                                      std::optional<int64_t> pairs) {
  if (isPlainLinear(placement)) {
    Expected<std::vector<Path>> paths = placeBidirectional(
        placement.getNumWorkers(), placement.getNumMicrobatches(),
        pairs.value_or(1), Assign::Alternate);
    if (!paths)
      return paths.takeError();
    return replacePaths(placement, std::move(*paths));
  }
  Expected<int64_t> found = readPairs(placement, "chimera");
  if (!found)
    return found.takeError();
  if (pairs && *pairs != *found)
    return formatError("chimera is asked for {0} pairs, but the paths are {1}",
                       *pairs, *found);
  return assignInTurns(placement);
}

Expected<Table> pipesched::generateChimera(const Placement &given,
                                           const ChimeraOptions &options) {
  int64_t cellsPerPair = options.splitBackward ? 3 : 2;
  Expected<Placement> placement = placePairs(given, options.pairs);
  if (!placement)
    return placement.takeError();
  if (Error error = checkPathShares(*placement, options.construction))
    return std::move(error);
  if (Error error = checkTableSize(*placement, "chimera", cellsPerPair))
    return std::move(error);
  Table table = makeWholeTable(*placement);
  bool isConcat = options.construction == ChimeraConstruction::Concat;
  Shape shape = {placement->getNumWorkers(), placement->getNumPaths() / 2,
                 isConcat ? 1 : 2};
  PathMicrobatches microbatches(*placement);
  int64_t most = 0;
  for (int64_t path = 0; path < placement->getNumPaths(); ++path)
    most = std::max(most, placement->countOnPath(path));
  int64_t numUnits = llvm::divideCeil(most, shape.microbatchesPerUnit());
  writeRows(table, [&](int64_t position, RowWriter &row) {
    Stream down(microbatches, shape, numUnits, position, /*isDown=*/true);
    Stream up(microbatches, shape, numUnits, position, /*isDown=*/false);
    while (!down.isDone() || !up.isDone()) {
      bool isDownNext =
          up.isDone() || (!down.isDone() && down.slot() < up.slot());
      (isDownNext ? down : up).writeStep(row);
    }
  });
  return splitIfAsked(std::move(table), options);
}
