//===- StageCosts.cpp - Times of pairs of cells ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules for the time of two overlapped cells. They allocate no memory.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/StageCosts.h"
#include "PipeSched/Facts/CellCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;

bool StageCosts::useAny(ArrayRef<Resource> resources) const {
  return llvm::any_of(stages, [&](const StageCost &stage) {
    return llvm::any_of(stage.cells.all(), [&](const Segment &segment) {
      return llvm::is_contained(resources, segment.resource);
    });
  });
}

/// Adds numbers that are not negative.
static void addUpTo63Bits(int64_t &sum, int64_t added) {
  uint64_t all = uint64_t(sum) + uint64_t(added);
  sum = std::min<uint64_t>(all, std::numeric_limits<int64_t>::max());
}

void MessageCost::addTensor(const MessageCost &tensor) {
  addUpTo63Bits(occupancyPs, tensor.occupancyPs);
  addUpTo63Bits(bytes, tensor.bytes);
  latencyPs = std::max(latencyPs, tensor.latencyPs);
}

const EdgeCost &StageCosts::edge(int64_t from, int64_t to) const {
  return *llvm::lower_bound(
      edges, std::pair(from, to), [](const EdgeCost &edge, auto ends) {
        return std::pair<int64_t, int64_t>(edge.from, edge.to) < ends;
      });
}

llvm::Error StageCosts::checkSlices(const Placement &placement) const {
  for (auto [number, stage] : llvm::enumerate(stages))
    if (int64_t found = stage.cells.getNumSlices(),
        wanted = placement.getNumSlices();
        found != 1 && found != wanted && found != placement.getNumUnits())
      return formatError("global stage {0} has costs of {1} slices, "
                         "microbatches have {2}; expected 1 or {2}, or {3} of "
                         "all microbatches",
                         number, found, wanted, placement.getNumUnits());
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

/// 1 for transfers of rows to experts, 0 for all other segments.
static unsigned laneOf(const Segment &segment) {
  return segment.resource == Resource::Experts ? 1 : 0;
}

/// Returns the time of a cell in each lane.
static std::array<uint64_t, 2> sumLanes(ArrayRef<Segment> segments) {
  std::array<uint64_t, 2> sums = {};
  for (const Segment &segment : segments)
    sums[laneOf(segment)] += segment.ps;
  return sums;
}

namespace {
/// One cell of a pair whose segments run in order.
struct Sequence {
  ArrayRef<Segment> rest;
  uint64_t readyPs = 0; ///< end of the previous segment

  uint64_t startPs(const std::array<uint64_t, 2> &freePs) const {
    return std::max(readyPs, freePs[laneOf(rest.front())]);
  }
};
} // namespace

PairTimes::~PairTimes() = default;

///   first     | c0 |x| c1 |        c: compute, x: transfer of rows
///   second         | c2   |x|      c1 waits for c2 to end
///
/// The pair ends when both cells have ended.
static uint64_t pairInOrder(ArrayRef<Segment> first, ArrayRef<Segment> second) {
  Sequence one = {first}, other = {second};
  std::array<uint64_t, 2> freePs = {};
  while (!one.rest.empty() || !other.rest.empty()) {
    bool isSecond =
        one.rest.empty() ||
        (!other.rest.empty() && other.startPs(freePs) < one.startPs(freePs));
    Sequence &next = isSecond ? other : one;
    const Segment &segment = next.rest.front();
    next.readyPs = next.startPs(freePs) + segment.ps;
    freePs[laneOf(segment)] = next.readyPs;
    next.rest = next.rest.drop_front();
  }
  return std::max(one.readyPs, other.readyPs);
}

uint64_t StageCosts::pairPs(ArrayRef<Segment> first,
                            ArrayRef<Segment> second) const {
  if (pairRule == PairRule::InOrder)
    return pairInOrder(first, second);
  auto [compute, rows] = sumLanes(first);
  auto [otherCompute, otherRows] = sumLanes(second);
  uint64_t one = compute + rows, other = otherCompute + otherRows;
  if (pairRule == PairRule::InTurn)
    return one + other;
  return std::max({compute + otherCompute, rows + otherRows, one, other});
}

/// The time of a pair whose layers run part by part.
std::optional<PairTime> StageCosts::scheduledPair(const Placement &placement,
                                                  Cell first,
                                                  Cell second) const {
  int64_t stage = placement.globalStage(first);
  if (!pairTimes || stages[stage].overlappedPs)
    return std::nullopt;
  int64_t other = placement.globalStage(second);
  auto is = [&](Phase phase, Phase otherPhase) {
    return first.getPhase() == phase && second.getPhase() == otherPhase;
  };
  if (is(Phase::Forward, Phase::Backward))
    return pairTimes->timeOf(stage, other);
  if (is(Phase::Backward, Phase::Forward))
    return pairTimes->timeOf(other, stage);
  return std::nullopt;
}

uint64_t StageCosts::pairPs(const Placement &placement, Cell first,
                            Cell second) const {
  int64_t stage = placement.globalStage(first);
  if (const std::optional<int64_t> &measured = stages[stage].overlappedPs)
    return *measured;
  if (auto scheduled = scheduledPair(placement, first, second))
    return scheduled->ps;
  return pairPs(segmentsOf(placement, first), segmentsOf(placement, second));
}

int64_t StageCosts::behindPs(const Placement &placement, Cell first,
                             Cell second) const {
  auto scheduled = scheduledPair(placement, first, second);
  return scheduled ? scheduled->behindPs : 0;
}

bool StageCosts::addDispatches(const Placement &placement, Cell cell,
                               std::optional<Cell> overlapped,
                               Exchange &sum) const {
  ArrayRef<Segment> first = segmentsOf(placement, cell);
  Exchange rows = sumOn(Resource::Experts, first);
  if (!overlapped)
    return sum.add(rows, 1);
  ArrayRef<Segment> second = segmentsOf(placement, *overlapped);
  uint64_t computePs = sumLanes(first)[0] + sumLanes(second)[0];
  if (stages[placement.globalStage(cell)].overlappedPs)
    rows.exposedPs = 0;
  else
    rows.exposedPs =
        static_cast<int64_t>(pairPs(placement, cell, *overlapped) - computePs);
  Exchange others = sumOn(Resource::Experts, second);
  others.exposedPs = 0; // the pair's time contains it
  return sum.add(rows, 1) && sum.add(others, 1);
}

Resource pipesched::resourceOf(Phase phase) {
  if (kCopyPhases.contains(phase))
    return Resource::Copy;
  return becomes(traitsOf(phase), InstructionKind::AllReduce)
             ? Resource::Replicas
             : Resource::Compute;
}

bool Exchange::add(const Exchange &other, int64_t count) {
  for (auto part : {&Exchange::ps, &Exchange::exposedPs, &Exchange::bytes}) {
    int64_t product = 0;
    if (llvm::MulOverflow(count, other.*part, product) ||
        llvm::AddOverflow(this->*part, product, this->*part))
      return false;
  }
  return true;
}

Exchange pipesched::sumOn(Resource resource, ArrayRef<Segment> segments) {
  Exchange sum;
  for (const Segment &segment : segments)
    if (segment.resource == resource) {
      sum.ps += segment.ps + segment.hiddenPs;
      sum.exposedPs += segment.ps;
      sum.bytes += segment.bytes;
    }
  return sum;
}

void CellCosts::replace(Phase phase, int64_t slice, ArrayRef<Segment> list,
                        int64_t ps) {
  alone[slice][phase] = ps;
  size_t cell = numberOf(phase, slice);
  size_t oldEnd = begins[cell + 1], newEnd = begins[cell] + list.size();
  if (newEnd != oldEnd) {
    size_t size = segments.size();
    if (newEnd > oldEnd) {
      segments.resize(size + newEnd - oldEnd);
      std::move_backward(segments.begin() + oldEnd, segments.begin() + size,
                         segments.end());
    } else {
      std::move(segments.begin() + oldEnd, segments.end(),
                segments.begin() + newEnd);
      segments.truncate(size + newEnd - oldEnd);
    }
    for (uint32_t &begin : llvm::drop_begin(begins, cell + 1))
      begin += newEnd - oldEnd; // modulo 2^32
  }
  llvm::copy(list, segments.begin() + begins[cell]);
}

void CellCosts::set(Phase phase, int64_t ps, int64_t slice) {
  Segment segment = {resourceOf(phase), ps};
  replace(phase, slice, ps == 0 ? ArrayRef<Segment>() : segment, ps);
}

Error CellCosts::setSegments(Phase phase, ArrayRef<Segment> list,
                             int64_t slice) {
  llvm::SmallVector<Segment, 4> used;
  ResourceMap<Exchange> sums = {};
  int64_t ps = 0;
  for (const Segment &segment : list) {
    llvm::StringRef resource = enumName(segment.resource);
    for (int64_t number : {segment.ps, segment.hiddenPs, segment.bytes})
      if (number < 0)
        return formatError(
            "a segment of {0} on {1} has {2} ps, {3} ps beside others and {4} "
            "bytes; expected numbers of at least 0",
            enumName(phase), resource, segment.ps, segment.hiddenPs,
            segment.bytes);
    if (llvm::AddOverflow(ps, segment.ps, ps))
      return formatError("the segments of {0} add up to more than 2^63 - 1 ps",
                         enumName(phase));
    Exchange part = {0, segment.ps, segment.bytes};
    if (llvm::AddOverflow(segment.ps, segment.hiddenPs, part.ps) ||
        !sums[segment.resource].add(part, 1))
      return formatError("the segments of {0} on {1} add up to more than "
                         "2^63 - 1 ps or bytes",
                         enumName(phase), resource);
    if (part.ps != 0 || part.bytes != 0)
      used.push_back(segment);
  }
  replace(phase, slice, used, ps);
  return Error::success();
}

Error CellCosts::splitOff(Phase phase, Segment part, int64_t slice) {
  llvm::SmallVector<Segment, 4> list(segmentsOf(phase, slice));
  auto *compute = llvm::find_if(list, [](const Segment &segment) {
    return segment.resource == Resource::Compute;
  });
  int64_t most = compute == list.end() ? 0 : compute->ps;
  part.ps = std::min(part.ps, most);
  if (part.ps != 0)
    compute->ps -= part.ps;
  list.push_back(part);
  return setSegments(phase, list, slice);
}

void CellCosts::append(const CellCosts &other) {
  uint32_t offset = segments.size();
  begins.pop_back();
  for (uint32_t begin : other.begins)
    begins.push_back(offset + begin);
  llvm::append_range(alone, other.alone);
  llvm::append_range(segments, other.segments);
}
