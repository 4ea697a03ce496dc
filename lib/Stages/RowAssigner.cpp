//===- RowAssigner.cpp - Where the tensors of a row are -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the row once, takes the places of what an instruction makes and gives
// back those that it uses last. Where the row repeats, the walk ends as soon as
// its state is what it was some periods ago.
//
//===----------------------------------------------------------------------===//

#include "RowAssigner.h"
#include "ArenaAllocator.h"
#include "LivenessPeriod.h"
#include "RowWaits.h"

using namespace mlir;
using namespace pipesched;

namespace {
class RowAssigner {
public:
  RowAssigner(const LoadedProgram &loaded, int64_t worker, int64_t inFlight,
              RowBuffers &row)
      : loaded(loaded), worker(worker),
        rowBegin(loaded.program.rowBegins[worker]),
        rowEnd(loaded.program.rowBegins[worker + 1]), inFlight(inFlight),
        row(row), next(rowBegin), arena(rowBegin), host(rowBegin),
        waits(loaded.program, worker), sendNumber(rowEnd - rowBegin),
        firstBlocking(rowBegin), isGiven(row.liveness.versions.size()) {}

  LogicalResult run(bool leaps);

private:
  using Reader = ArenaAllocator::Reader;

  const Instruction &at(uint32_t i) const {
    return loaded.program.instructions[i];
  }
  bool mayWaitForSend(uint32_t send) const;
  Reader classify(uint32_t reader) const;
  void noteEnd(uint32_t instruction);
  void noteSend();
  LogicalResult take(uint32_t instruction);
  void give(uint32_t instruction);
  void noteUse();
  LogicalResult runTo(uint32_t end);
  LogicalResult runRepeats(const LivenessPeriod &period);
  void updateLive();
  std::vector<int64_t> summarize() const;
  std::vector<int64_t> describe(uint32_t oldest) const;
  void leap(const LivenessPeriod &period, uint32_t numPeriods, uint32_t oldest,
            int64_t sends);

  const LoadedProgram &loaded;
  int64_t worker;
  uint32_t rowBegin, rowEnd;
  int64_t inFlight;
  RowBuffers &row;

  uint32_t next; ///< the next instruction
  ArenaAllocator arena, host;
  RowWaits waits;
  std::vector<int64_t> sendNumber; ///< of sends: how many stand before it
  int64_t numSends = 0;
  uint32_t firstBlocking;    ///< no send before it may not be waited for
  std::vector<bool> isGiven; ///< by version
  int64_t activations = 0, messages = 0; ///< live bytes
  /// The versions below `numSeen` that were still in use at the end of the last
  /// period.
  std::vector<uint32_t> live;
  uint32_t numSeen = 0;
};
} // namespace

/// Whether nothing in the row needs that it has ended, as long as places do not
/// run out: what it works on goes to other workers.
static bool isForOthers(const Instruction &instruction) {
  return instruction.is(InstructionKind::Send) ||
         instruction.is(InstructionKind::Reduce);
}

/// Whether enough later sends, or sums for others, are behind one.
bool RowAssigner::mayWaitForSend(uint32_t send) const {
  return numSends - sendNumber[send - rowBegin] - 1 >= inFlight;
}

ArenaAllocator::Reader RowAssigner::classify(uint32_t reader) const {
  if (waits.hasEnded(reader))
    return Reader::Done;
  return !isForOthers(at(reader)) || mayWaitForSend(reader)
             ? Reader::MayWaitFor
             : Reader::MayNotWaitFor;
}

/// Tells the arenas that an instruction has ended.
void RowAssigner::noteEnd(uint32_t instruction) {
  arena.noteDone(instruction);
  host.noteDone(instruction);
}

/// Numbers the send at hand, and tells the arenas which ones may be waited for
/// since there is one more. Leaps leave gaps without numbers, which nothing
/// reads: they count as the first send.
void RowAssigner::noteSend() {
  sendNumber[next - rowBegin] = numSends++;
  for (; firstBlocking < next; ++firstBlocking) {
    if (!isForOthers(at(firstBlocking)))
      continue;
    if (!mayWaitForSend(firstBlocking))
      return;
    arena.noteMayWaitFor(firstBlocking);
    host.noteMayWaitFor(firstBlocking);
  }
}

/// Takes places for what an instruction makes.
LogicalResult RowAssigner::take(uint32_t instruction) {
  for (uint32_t number : row.liveness.buffersOf(instruction - rowBegin)) {
    TensorVersion &version = row.liveness.versions[number];
    if (version.made != instruction || version.offset >= 0)
      continue;
    ArenaAllocator &block = version.isInHost ? host : arena;
    ArenaAllocator::Taken taken = block.take(version.bytes);
    if (block.getSize() > ArenaAllocator::kMaxBytes)
      return pipe::emitTableError(loaded.ops[instruction])
             << "makes the " << (version.isInHost ? "host memory" : "arena")
             << " of worker " << worker << " larger than "
             << ArenaAllocator::kMaxBytes << " bytes";
    version.offset = taken.offset;
    for (uint32_t reader : taken.readers) {
      row.waits.push_back(reader);
      waits.noteEnd(reader);
      noteEnd(reader);
    }
    if (!version.isInHost)
      (version.isActivation ? activations : messages) += version.bytes;
  }
  return success();
}

/// Gives back what an instruction uses last.
void RowAssigner::give(uint32_t instruction) {
  for (uint32_t number : row.liveness.buffersOf(instruction - rowBegin)) {
    TensorVersion &version = row.liveness.versions[number];
    if (version.lastUse != instruction || isGiven[number])
      continue;
    isGiven[number] = true;
    SmallVector<uint32_t, 2> readers(version.readers.begin(),
                                     version.readers.end());
    if (!at(version.made).is(InstructionKind::Compute))
      readers.push_back(version.made); // it may still be written
    (version.isInHost ? host : arena)
        .give(version.offset, version.bytes, readers,
              [&](uint32_t reader) { return classify(reader); });
    if (!version.isInHost)
      (version.isActivation ? activations : messages) -= version.bytes;
  }
}

void RowAssigner::noteUse() {
  ArenaUse &use = row.use;
  if (activations + messages <= use.activations + use.messages)
    return;
  use.activations = activations;
  use.messages = messages;
}

LogicalResult RowAssigner::runTo(uint32_t end) {
  for (; next < end; ++next) {
    waits.note(next, [&](uint32_t ended) { noteEnd(ended); });
    if (failed(take(next)))
      return failure();
    row.waitBegins.push_back(row.waits.size());
    noteUse();
    if (isForOthers(at(next)))
      noteSend();
    give(next);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Rows that repeat
//===----------------------------------------------------------------------===//

/// Drops the versions that are no longer used, and adds the new ones.
void RowAssigner::updateLive() {
  const std::vector<TensorVersion> &versions = row.liveness.versions;
  uint32_t made = row.liveness.madeBefore(next);
  llvm::erase_if(live, [&](uint32_t i) { return versions[i].lastUse < next; });
  for (; numSeen < made; ++numSeen)
    if (versions[numSeen].lastUse >= next)
      live.push_back(numSeen);
}

/// The part of the state that takes no time to list. Where it differs from an
/// earlier one, so do the states.
std::vector<int64_t> RowAssigner::summarize() const {
  return {activations,
          messages,
          static_cast<int64_t>(waits.getJoins().size()),
          static_cast<int64_t>(live.size()),
          arena.getSize(),
          arena.getNumPieces(),
          host.getSize(),
          host.getNumPieces()};
}

/// The state of the walk in numbers that are the same after some periods if the
/// walk repeats itself: instructions as distances from the next one, versions
/// from the next one to be made. Nothing in the rest of the period waits for
/// what is before `oldest`, so readers of places that are there may stay.
std::vector<int64_t> RowAssigner::describe(uint32_t oldest) const {
  std::vector<int64_t> numbers = summarize();
  auto put = [&](int64_t number) { numbers.push_back(number); };
  auto putDistance = [&](uint32_t i) { put(int64_t(i) - next); };
  auto putStanding = [&](uint32_t reader) {
    if (reader >= next)
      return;
    bool isSend = isForOthers(at(reader));
    int64_t later = numSends - sendNumber[reader - rowBegin] - 1;
    put(waits.hasEnded(reader));
    put(isSend ? std::min(later, inFlight) : -1);
  };
  llvm::for_each(waits.getJoins(), putDistance);
  for (uint32_t number : live) {
    const TensorVersion &version = row.liveness.versions[number];
    put(int64_t(number) - numSeen);
    putDistance(version.lastUse);
    put(version.bytes);
    put(version.offset);
    put(version.isInHost);
    put(version.isActivation);
    put(at(version.made).is(InstructionKind::Compute));
    putDistance(version.made);
    putStanding(version.made);
    put(version.readers.size());
    llvm::for_each(version.readers, putDistance);
    llvm::for_each(version.readers, putStanding);
  }
  auto putReader = [&](uint32_t reader) {
    put(reader < oldest ? reader : int64_t(reader) - next);
    putStanding(reader);
  };
  arena.describe(numbers, putReader);
  host.describe(numbers, putReader);
  return numbers;
}

/// Lets the rest of the period repeat the last `numPeriods` periods, in which
/// there were `sends` sends.
void RowAssigner::leap(const LivenessPeriod &period, uint32_t numPeriods,
                       uint32_t oldest, int64_t sends) {
  uint32_t stride = numPeriods * period.length;
  uint32_t times = (period.end - next) / stride;
  uint32_t end = next + times * stride;
  for (uint32_t i = next - rowBegin; i < end - rowBegin; ++i) {
    for (uint32_t wait = row.waitBegins[i - stride];
         wait < row.waitBegins[i - stride + 1]; ++wait)
      row.waits.push_back(row.waits[wait] + stride);
    row.waitBegins.push_back(row.waits.size());
  }
  uint32_t versions = numPeriods * period.versions;
  for (uint32_t i = numSeen; i < numSeen + times * versions; ++i)
    row.liveness.versions[i].offset =
        row.liveness.versions[i - versions].offset;
  // Sends stand as far before the end as they stood before `next`.
  for (uint32_t i = std::max(next - rowBegin, end - next); i < end - rowBegin;
       ++i)
    sendNumber[i] = sendNumber[i - (end - next)] + times * sends;
  waits.leap(next, end);
  auto move = [&](uint32_t instruction) {
    return instruction < oldest ? instruction : instruction + (end - next);
  };
  arena.replaceReaders(move);
  host.replaceReaders(move);
  numSends += times * sends;
  row.numRepeated = end - next;
  next = end;
}

/// Compares the state at the ends of periods with that at an earlier one, which
/// is a later one each time that twice as many periods have passed (Brent
/// 1980).
LogicalResult RowAssigner::runRepeats(const LivenessPeriod &period) {
  constexpr uint32_t kMaxPeriods = 1024, kMaxLive = 4096;
  if (failed(runTo(period.begin)))
    return failure();
  uint32_t margin = period.reach + 32 * period.length;
  auto oldest = [&] { return next - std::min(next, margin); };
  std::vector<int64_t> before, summaryBefore;
  int64_t sendsBefore = 0;
  for (uint32_t passed = 0, since = 0, limit = 1;
       passed < kMaxPeriods && next + period.length <= period.end;
       ++passed, ++since) {
    updateLive();
    if (live.size() >= kMaxLive)
      return success();
    std::vector<int64_t> now, summary = summarize();
    if (passed > 0 && summary == summaryBefore) {
      now = describe(oldest());
      if (now == before) {
        leap(period, since, oldest(), numSends - sendsBefore);
        return success();
      }
    }
    if (passed == 0 || since == limit) {
      limit = passed == 0 ? 1 : 2 * limit;
      since = 0;
      before = now.empty() ? describe(oldest()) : std::move(now);
      summaryBefore = std::move(summary);
      sendsBefore = numSends;
    }
    if (failed(runTo(next + period.length)))
      return failure();
  }
  return success();
}

LogicalResult RowAssigner::run(bool leaps) {
  row.waitBegins.reserve(rowEnd - rowBegin + 1);
  row.waitBegins.push_back(0);
  std::optional<LivenessPeriod> period;
  if (leaps)
    period = findLivenessPeriod(loaded, row.liveness, worker);
  if ((period && failed(runRepeats(*period))) || failed(runTo(rowEnd)))
    return failure();
  row.use.arena = arena.getSize();
  row.use.host = host.getSize();
  row.use.padding = row.use.arena - row.use.activations - row.use.messages;
  return success();
}

LogicalResult pipesched::assignRow(const LoadedProgram &loaded, int64_t worker,
                                   int64_t inFlight, RowBuffers &row,
                                   bool leaps) {
  return RowAssigner(loaded, worker, inFlight, row).run(leaps);
}
