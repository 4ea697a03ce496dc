//===- AllReduces.cpp - Checks of a program's all-reduces -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The instructions are sorted by their blocks, so that those of one collective
// are neighbours, and collectives that share blocks are easy to find.
//
//===----------------------------------------------------------------------===//

#include "AllReduces.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::exec;

namespace {
using Group = ArrayRef<AllReduceEnd>;

class AllReduceVerifier {
public:
  AllReduceVerifier(ArrayRef<Operation *> ops, const Placement &placement,
                    const ParameterSets &sets)
      : ops(ops), placement(placement), sets(sets),
        replicas(sets.getReplicas()) {}

  LogicalResult verifyStage(const AllReduceEnd &end) const;
  LogicalResult verifyGroup(Group group);

private:
  LogicalResult verifyOnce(Group group);
  LogicalResult verifyBytes(Group group) const;
  LogicalResult verifyHolders(Group group) const;

  InstructionOpInterface opOf(const AllReduceEnd &end) const {
    return cast<InstructionOpInterface>(ops[end.instruction]);
  }
  /// The bytes that an end states.
  std::optional<int64_t> bytesOf(const AllReduceEnd &end) const {
    auto work = dyn_cast<WorkOpInterface>(ops[end.instruction]);
    return work ? work.getMessageBytes() : std::nullopt;
  }
  /// Emits an error at one end, with a note at the other.
  LogicalResult emitPair(const AllReduceEnd &end, const Twine &message,
                         const AllReduceEnd &other, const Twine &note) const;

  ArrayRef<Operation *> ops;
  const Placement &placement;
  const ParameterSets &sets;
  const Replicas &replicas;
  const AllReduceEnd *last = nullptr; ///< its blocks end last so far
};
} // namespace

static std::string str(BlockSpan blocks) {
  return ("blocks " + Twine(blocks.begin) + " to " + Twine(blocks.end)).str();
}

LogicalResult AllReduceVerifier::emitPair(const AllReduceEnd &end,
                                          const Twine &message,
                                          const AllReduceEnd &other,
                                          const Twine &note) const {
  InFlightDiagnostic diagnostic = pipe::emitTableError(opOf(end)) << message;
  diagnostic.attachNote(opOf(other)->getLoc()) << note;
  return diagnostic;
}

/// program_c10
LogicalResult AllReduceVerifier::verifyStage(const AllReduceEnd &end) const {
  Cell cell = *opOf(end).getInstructionCell();
  int64_t stage = placement.globalStage(cell);
  auto pieces = replicas.piecesIn(end.blocks);
  auto isWithin = [&](BlockSpan held, llvm::iota_range<int64_t> heldPieces) {
    return held.begin <= end.blocks.begin && end.blocks.end <= held.end &&
           !pieces.empty() && llvm::is_contained(heldPieces, *pieces.begin());
  };
  if (isWithin(sets.ownedBlocksOf(stage), sets.ownedPiecesOf(stage)))
    return success();
  InFlightDiagnostic diagnostic = pipe::emitTableError(opOf(end))
                                  << "reduces " << str(end.blocks) << ", stage "
                                  << cell.getStage() << " of path "
                                  << cell.getNumber();
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

/// program_c11: a worker reduces the same blocks once, and different
/// all-reduces share no blocks, since the holders of shared blocks would have
/// both.
LogicalResult AllReduceVerifier::verifyOnce(Group group) {
  for (auto [first, second] : llvm::zip(group, group.drop_front()))
    if (first.worker == second.worker)
      return emitPair(second,
                      "reduces " + str(second.blocks) + " a second time", first,
                      "the first is here");
  const AllReduceEnd &end = group.front();
  if (last && end.blocks.size() > 0 && end.blocks.begin < last->blocks.end)
    return emitPair(end,
                    "reduces " + str(end.blocks) +
                        ", some of which are among " + str(last->blocks),
                    *last, str(last->blocks) + " are reduced here");
  if (!last || last->blocks.end < end.blocks.end)
    last = &end;
  return success();
}

/// program_c12
LogicalResult AllReduceVerifier::verifyBytes(Group group) const {
  auto describe = [&](const AllReduceEnd &end) -> std::string {
    std::optional<int64_t> bytes = bytesOf(end);
    return bytes ? std::to_string(*bytes) + " bytes" : "no bytes";
  };
  for (const AllReduceEnd &end : group.drop_front())
    if (bytesOf(end) != bytesOf(group.front()))
      return emitPair(end, "states " + describe(end), group.front(),
                      "worker " + Twine(group.front().worker) + " states " +
                          describe(group.front()));
  return success();
}

/// program_c12
LogicalResult AllReduceVerifier::verifyHolders(Group group) const {
  const AllReduceEnd &end = group.front();
  for (int64_t piece : replicas.piecesIn(end.blocks))
    for (int64_t path = 0; path < placement.getNumPaths(); ++path) {
      int64_t holder = replicas.holderOf(piece, path);
      int64_t worker = placement.workerOf(holder);
      const AllReduceEnd *member = llvm::lower_bound(
          group, worker,
          [](const AllReduceEnd &a, int64_t b) { return a.worker < b; });
      if (member == group.end() || member->worker != worker)
        return pipe::emitTableError(opOf(end))
               << "has no partner: worker " << worker << " holds "
               << str(replicas.blocksOf(piece)) << " as stage "
               << holder - placement.stageOffset(path) << " of path " << path
               << " and has no 'all_reduce' of " << str(end.blocks);
    }
  return success();
}

LogicalResult AllReduceVerifier::verifyGroup(Group group) {
  return success(succeeded(verifyOnce(group)) &&
                 succeeded(verifyBytes(group)) &&
                 succeeded(verifyHolders(group)));
}

LogicalResult exec::verifyAllReduces(std::vector<AllReduceEnd> &ends,
                                     ArrayRef<Operation *> ops,
                                     const Placement &placement,
                                     const ParameterSets &sets) {
  AllReduceVerifier verifier(ops, placement, sets);
  for (const AllReduceEnd &end : ends)
    if (failed(verifier.verifyStage(end)))
      return failure();
  sortByName(ends);
  LogicalResult result = success();
  forEachGroup(ends, [&](Group group) {
    if (succeeded(result))
      result = verifier.verifyGroup(group);
  });
  return result;
}
