//===- Collectives.cpp - Checks of a program's collectives ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sorts the instructions by name, so that instructions of one group are
// adjacent, and groups that share blocks are easy to find.
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

namespace {
using Group = ArrayRef<CollectiveEnd>;

/// Checks for the groups of all kinds.
class GroupVerifier {
public:
  explicit GroupVerifier(ArrayRef<Operation *> ops) : ops(ops) {}

  LogicalResult verifyWorkers(Group group, const Twine &what) const;
  LogicalResult verifyBytes(Group group) const;

protected:
  InstructionOpInterface opOf(const CollectiveEnd &end) const {
    return cast<InstructionOpInterface>(ops[end.instruction]);
  }
  std::optional<int64_t> bytesOf(const CollectiveEnd &end) const {
    auto work = dyn_cast<WorkOpInterface>(ops[end.instruction]);
    return work ? work.getMessageBytes() : std::nullopt;
  }
  /// Emits an error at one end, with a note at the other end.
  LogicalResult emitPair(const CollectiveEnd &end, const Twine &message,
                         const CollectiveEnd &other, const Twine &note) const;

  ArrayRef<Operation *> ops;
};

class BlockGroupVerifier : GroupVerifier {
public:
  BlockGroupVerifier(ArrayRef<Operation *> ops, const Placement &placement,
                     const ParameterSets &sets)
      : GroupVerifier(ops), placement(placement), sets(sets),
        replicas(sets.getReplicas()) {}

  LogicalResult verifyStage(const CollectiveEnd &end) const;
  LogicalResult verifyGroup(Group group);

private:
  LogicalResult verifyOnce(Group group);
  LogicalResult verifyHolders(Group group) const;

  const Placement &placement;
  const ParameterSets &sets;
  const Replicas &replicas;
  const CollectiveEnd *last = nullptr; ///< the end whose blocks end last so far
};
} // namespace

static std::string str(BlockSpan blocks) {
  return ("blocks " + Twine(blocks.begin) + " to " + Twine(blocks.end)).str();
}

LogicalResult GroupVerifier::emitPair(const CollectiveEnd &end,
                                      const Twine &message,
                                      const CollectiveEnd &other,
                                      const Twine &note) const {
  InFlightDiagnostic diagnostic = pipe::emitTableError(opOf(end)) << message;
  diagnostic.attachNote(opOf(other)->getLoc()) << note;
  return diagnostic;
}

/// program_c10
LogicalResult BlockGroupVerifier::verifyStage(const CollectiveEnd &end) const {
  Cell cell = *opOf(end).getInstructionCell();
  int64_t stage = placement.globalStage(cell);
  auto pieces = replicas.piecesIn(end.name.blocks);
  auto isWithin = [&](BlockSpan held, llvm::iota_range<int64_t> heldPieces) {
    return held.begin <= end.name.blocks.begin &&
           end.name.blocks.end <= held.end && !pieces.empty() &&
           llvm::is_contained(heldPieces, *pieces.begin());
  };
  if (isWithin(sets.ownedBlocksOf(stage), sets.ownedPiecesOf(stage)))
    return success();
  InFlightDiagnostic diagnostic = pipe::emitTableError(opOf(end))
                                  << "reduces " << str(end.name.blocks)
                                  << ", stage " << cell.getStage()
                                  << " of path " << cell.getNumber();
  BlockSpan held = replicas.blocksOfStage(stage);
  if (!isWithin(held, replicas.piecesOf(stage)))
    return diagnostic << " holds " << str(held);
  if (!sets.ownsAny(stage))
    return diagnostic << " owns none: "
                      << sets.describeOwners(stage, Phase::AllReduce);
  return diagnostic << " owns " << str(sets.ownedBlocksOf(stage))
                    << "; another stage of worker " << end.worker
                    << " reduces the others";
}

/// program_c11, program_c16: a worker occurs only once in a group.
LogicalResult GroupVerifier::verifyWorkers(Group group,
                                           const Twine &what) const {
  for (auto [first, second] : llvm::zip(group, group.drop_front()))
    if (first.worker == second.worker)
      return emitPair(second, what + " a second time", first,
                      "the first is here");
  return success();
}

/// program_c11: a worker reduces the same blocks only once. Different
/// all-reduces share no blocks, because holders of shared blocks would take
/// part in both.
LogicalResult BlockGroupVerifier::verifyOnce(Group group) {
  if (failed(verifyWorkers(group, "reduces " + str(group.front().name.blocks))))
    return failure();
  const CollectiveEnd &end = group.front();
  if (last && end.name.blocks.size() > 0 &&
      end.name.blocks.begin < last->name.blocks.end)
    return emitPair(end,
                    "reduces " + str(end.name.blocks) +
                        ", some of which are among " + str(last->name.blocks),
                    *last, str(last->name.blocks) + " are reduced here");
  if (!last || last->name.blocks.end < end.name.blocks.end)
    last = &end;
  return success();
}

/// program_c12, program_c16: all members state the same bytes.
LogicalResult GroupVerifier::verifyBytes(Group group) const {
  auto describe = [&](const CollectiveEnd &end) -> std::string {
    std::optional<int64_t> bytes = bytesOf(end);
    return bytes ? std::to_string(*bytes) + " bytes" : "no bytes";
  };
  for (const CollectiveEnd &end : group.drop_front())
    if (bytesOf(end) != bytesOf(group.front()))
      return emitPair(end, "states " + describe(end), group.front(),
                      "worker " + Twine(group.front().worker) + " states " +
                          describe(group.front()));
  return success();
}

/// program_c12
LogicalResult BlockGroupVerifier::verifyHolders(Group group) const {
  const CollectiveEnd &end = group.front();
  for (int64_t piece : replicas.piecesIn(end.name.blocks))
    for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
      int64_t holder = replicas.holderOf(piece, path);
      int64_t worker = placement.workerOf(holder);
      const CollectiveEnd *member = llvm::lower_bound(
          group, worker,
          [](const CollectiveEnd &a, int64_t b) { return a.worker < b; });
      if (member == group.end() || member->worker != worker)
        return pipe::emitTableError(opOf(end))
               << "has no partner: worker " << worker << " holds "
               << str(replicas.blocksOf(piece)) << " as stage "
               << holder - placement.stageOffset(path) << " of path " << path
               << " and has no 'all_reduce' of " << str(end.name.blocks);
    }
  return success();
}

LogicalResult BlockGroupVerifier::verifyGroup(Group group) {
  return success(succeeded(verifyOnce(group)) &&
                 succeeded(verifyBytes(group)) &&
                 succeeded(verifyHolders(group)));
}

LogicalResult exec::verifyBlockGroups(ArrayRef<CollectiveEnd> ends,
                                      ArrayRef<Operation *> ops,
                                      const Placement &placement,
                                      const ParameterSets &sets) {
  BlockGroupVerifier verifier(ops, placement, sets);
  SmallVector<CollectiveEnd> inOrder(ends);
  llvm::sort(inOrder, [](const CollectiveEnd &a, const CollectiveEnd &b) {
    return a.instruction < b.instruction;
  });
  for (const CollectiveEnd &end : inOrder)
    if (failed(verifier.verifyStage(end)))
      return failure();
  LogicalResult result = success();
  forEachGroup(ends, [&](Group group) {
    if (succeeded(result))
      result = verifier.verifyGroup(group);
  });
  return result;
}

namespace {
class UnitGroupVerifier : GroupVerifier {
public:
  using GroupVerifier::GroupVerifier;

  /// Checks program_c16 against the workers that must meet, in ascending order.
  LogicalResult verify(Group group, ArrayRef<int64_t> workers) const {
    std::string name = describeGroup(group.front().name);
    if (failed(verifyWorkers(group, "meets the others for " + name)) ||
        failed(verifyBytes(group)))
      return failure();
    for (int64_t worker : workers) {
      if (llvm::any_of(group, [&](const CollectiveEnd &end) {
            return end.worker == worker;
          }))
        continue;
      return pipe::emitTableError(opOf(group.front()))
             << "has no partner: worker " << worker << " has no '"
             << enumName(group.front().name.kind) << "' of " << name;
    }
    return success();
  }
};
} // namespace

LogicalResult exec::verifyUnitGroups(
    ArrayRef<CollectiveEnd> ends, ArrayRef<Operation *> ops,
    llvm::function_ref<ArrayRef<int64_t>(int64_t unit)> workersOf) {
  UnitGroupVerifier verifier(ops);
  LogicalResult result = success();
  forEachGroup(ends, [&](Group group) {
    if (succeeded(result))
      result = verifier.verify(group, workersOf(group.front().name.unit));
  });
  return result;
}
