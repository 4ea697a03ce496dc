//===- AssignBuffers.cpp - Assignment of buffers --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns the places of each row, then proves that the waits for places close
// no cycle. If they do, assigns again without reusing any place that a message
// may still read.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/AssignBuffers.h"
#include "ArenaAllocator.h"
#include "Liveness.h"
#include "PipeSched/Analysis/Proof/Messages.h"
#include "RowWaits.h"

using namespace mlir;
using namespace pipesched;

FailureOr<BufferOptions> BufferOptions::create(Location location,
                                               SendMode sends, int64_t inFlight,
                                               int64_t hostMemory) {
  if (inFlight < 1)
    return emitError(location)
           << "in-flight is " << inFlight << ", wanted 1 or more";
  if (hostMemory < -1)
    return emitError(location)
           << "host-memory is " << hostMemory << ", wanted 0 or more bytes";
  BufferOptions options;
  options.sends = sends;
  options.inFlight = inFlight;
  if (hostMemory >= 0)
    options.hostMemory = hostMemory;
  return options;
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

namespace {
/// The tensors of one row, and their assignment.
struct RowBuffers {
  RowLiveness liveness;
  ArenaUse use;
  /// CSR by position in the row: the additional instructions that it must wait
  /// for.
  std::vector<uint32_t> waitBegins, waits;

  llvm::ArrayRef<uint32_t> waitsOf(uint32_t position) const {
    return llvm::ArrayRef(waits).slice(
        waitBegins[position], waitBegins[position + 1] - waitBegins[position]);
  }
};

/// Sets the offsets of the versions of `row`, its memory use and its waits. A
/// place is reused when its readers have ended or may be waited for: a send may
/// be waited for if `inFlight` later sends follow it. Errors, emitted at the
/// instruction: memory of more than 2^63 - 1 bytes.
class RowAssigner {
public:
  RowAssigner(const LoadedProgram &loaded, int64_t worker, int64_t inFlight,
              RowBuffers &row)
      : loaded(loaded), worker(worker),
        rowBegin(loaded.program.rowBegins[worker]),
        rowEnd(loaded.program.rowBegins[worker + 1]), inFlight(inFlight),
        row(row), waits(loaded.program, worker), sendNumber(rowEnd - rowBegin),
        isGiven(row.liveness.versions.size()) {}

  LogicalResult run();

private:
  using Reader = ArenaAllocator::Reader;

  const Instruction &at(uint32_t i) const {
    return loaded.program.instructions[i];
  }
  Reader classify(uint32_t reader) const;
  auto classifier() const {
    return [this](uint32_t reader) { return classify(reader); };
  }
  void noteEnd(uint32_t instruction);
  LogicalResult take(uint32_t instruction);
  void give(uint32_t instruction);
  void noteUse();

  const LoadedProgram &loaded;
  int64_t worker;
  uint32_t rowBegin, rowEnd;
  int64_t inFlight;
  RowBuffers &row;

  ArenaAllocator arena, host;
  RowWaits waits;
  std::vector<int64_t> sendNumber; ///< of sends: the number of earlier ones
  int64_t numSends = 0;
  std::vector<bool> isGiven;             ///< by version
  int64_t activations = 0, messages = 0; ///< in live tensors
};
} // namespace

/// Whether the data of an instruction is only for other workers. Then no
/// instruction of the row needs its end, unless places run out.
static bool isForOthers(const Instruction &instruction) {
  return instruction.is(InstructionKind::Send) ||
         instruction.is(InstructionKind::Reduce);
}

/// A send may be waited for if `inFlight` later sends, or sums for other
/// workers, follow it.
ArenaAllocator::Reader RowAssigner::classify(uint32_t reader) const {
  if (waits.hasEnded(reader))
    return Reader::Done;
  int64_t later = numSends - sendNumber[reader - rowBegin] - 1;
  return !isForOthers(at(reader)) || later >= inFlight ? Reader::MayWaitFor
                                                       : Reader::MayNotWaitFor;
}

/// Tells the arenas that an instruction has ended.
void RowAssigner::noteEnd(uint32_t instruction) {
  arena.noteDone(instruction);
  host.noteDone(instruction);
}

/// Allocates places for the results of an instruction.
LogicalResult RowAssigner::take(uint32_t instruction) {
  for (uint32_t number : row.liveness.buffersOf(instruction - rowBegin)) {
    TensorVersion &version = row.liveness.versions[number];
    if (version.made != instruction || version.offset >= 0)
      continue;
    ArenaAllocator &block = version.isInHost ? host : arena;
    ArenaAllocator::Taken taken = block.take(version.bytes, classifier());
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

/// Frees the places whose last use is this instruction.
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
        .give(version.offset, version.bytes, readers, classifier());
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

LogicalResult RowAssigner::run() {
  row.waitBegins.reserve(rowEnd - rowBegin + 1);
  row.waitBegins.push_back(0);
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    waits.note(i, [&](uint32_t ended) { noteEnd(ended); });
    if (failed(take(i)))
      return failure();
    row.waitBegins.push_back(row.waits.size());
    noteUse();
    if (isForOthers(at(i)))
      sendNumber[i - rowBegin] = numSends++;
    give(i);
  }
  row.use.arena = arena.getSize();
  row.use.host = host.getSize();
  row.use.padding = row.use.arena - row.use.activations - row.use.messages;
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
class ProgramAssigner {
public:
  ProgramAssigner(Operation *owner, const LoadedProgram &loaded,
                  const StageKernels &kernels, const BufferOptions &options)
      : owner(owner), loaded(loaded), program(loaded.program), kernels(kernels),
        options(options) {}

  FailureOr<BufferAssignment>
  run(llvm::function_ref<void(llvm::Error error)> deadlock);

private:
  LogicalResult assignRows(int64_t inFlight);
  void addOperands(int64_t worker, const RowBuffers &row);
  void addOffsets(int64_t worker, const RowBuffers &row);
  llvm::Error verifyFinishes() const;
  LogicalResult assignTags();
  LogicalResult verifyHost();

  Operation *owner;
  const LoadedProgram &loaded;
  const Program &program;
  const StageKernels &kernels;
  const BufferOptions &options;
  BufferAssignment result;
};
} // namespace

/// Assigns row by row, so that only the tensors of one row are in memory.
LogicalResult ProgramAssigner::assignRows(int64_t inFlight) {
  result = {};
  result.operandBegins.reserve(program.operandBegins.size());
  result.operandBegins.push_back(0);
  // A row rarely has more tensors than this, and unused pages take no memory.
  result.operands.reserve(program.operands.size() +
                          program.instructions.size());
  result.offsets.reserve(4 * program.instructions.size());
  result.offsetBegins.reserve(program.operandBegins.size());
  result.offsetBegins.push_back(0);
  for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker) {
    FailureOr<RowLiveness> liveness = findLiveness(loaded, kernels, worker);
    if (failed(liveness))
      return failure();
    RowBuffers row;
    row.liveness = std::move(*liveness);
    if (failed(RowAssigner(loaded, worker, inFlight, row).run()))
      return failure();
    addOperands(worker, row);
    addOffsets(worker, row);
    result.uses.push_back(row.use);
  }
  return success();
}

/// Lists the operands of the program with the waits for places.
void ProgramAssigner::addOperands(int64_t worker, const RowBuffers &row) {
  uint32_t begin = program.rowBegins[worker];
  for (uint32_t i = begin; i < program.rowBegins[worker + 1]; ++i) {
    llvm::append_range(result.operands, program.operandsOf(i));
    llvm::append_range(result.operands, row.waitsOf(i - begin));
    if (program.instructions[i].cell.overlapsNext())
      llvm::append_range(result.operands, row.waitsOf(i + 1 - begin));
    result.operandBegins.push_back(result.operands.size());
  }
}

/// Lists the places of each instruction; for copies also the bytes.
void ProgramAssigner::addOffsets(int64_t worker, const RowBuffers &row) {
  uint32_t begin = program.rowBegins[worker];
  for (uint32_t i = begin; i < program.rowBegins[worker + 1]; ++i) {
    bool isCopy = program.instructions[i].is(InstructionRole::Copy);
    ArrayRef<uint32_t> buffers = row.liveness.buffersOf(i - begin);
    for (auto [place, number] : llvm::enumerate(buffers)) {
      const TensorVersion &version = row.liveness.versions[number];
      result.offsets.push_back(version.offset);
      if (isCopy && place % 2 == 1)
        result.offsets.push_back(version.bytes);
    }
    result.offsetBegins.push_back(result.offsets.size());
  }
}

/// Proves that the waits of the result close no cycle.
llvm::Error ProgramAssigner::verifyFinishes() const {
  return verifyPosted(program, result.operandBegins, result.operands,
                      options.sends);
}

/// Numbers the messages of each channel in the order of their sends. Messages
/// with the same tag must be received in that order, too.
LogicalResult ProgramAssigner::assignTags() {
  constexpr int64_t numTags = 32768; // the guarantee of MPI (MPI 4.0, 8.1.2)
  std::vector<int32_t> &tags = result.tags;
  tags.assign(program.instructions.size(), -1);
  std::vector<int64_t> numbers(program.instructions.size());
  std::vector<int64_t> byPeer(program.getNumWorkers());
  auto forEach = [&](InstructionKind kind, auto &&treat) {
    for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker) {
      llvm::fill(byPeer, 0);
      for (uint32_t i = program.rowBegins[worker];
           i < program.rowBegins[worker + 1]; ++i)
        if (program.instructions[i].is(kind) &&
            failed(treat(i, byPeer[program.instructions[i].peer])))
          return failure();
    }
    return success();
  };
  (void)forEach(InstructionKind::Send, [&](uint32_t i, int64_t &count) {
    numbers[program.partner[i]] = count;
    tags[i] = tags[program.partner[i]] = count++ % numTags;
    return success();
  });
  return forEach(
      InstructionKind::Recv,
      [&](uint32_t i, int64_t &highest) -> LogicalResult {
        highest = std::max(highest, numbers[i]);
        if (highest - numbers[i] < numTags)
          return success();
        return pipe::emitTableError(loaded.ops[i])
               << "is " << highest - numbers[i]
               << " messages behind another one of its channel; at most "
               << numTags - 1 << " can be distinguished";
      });
}

LogicalResult ProgramAssigner::verifyHost() {
  if (!options.hostMemory)
    return success();
  for (auto [worker, use] : llvm::enumerate(result.uses))
    if (use.host > *options.hostMemory)
      return pipe::emitTableError(owner)
             << "has a worker " << worker << " that offloads " << use.host
             << " bytes at once, and its host has " << *options.hostMemory
             << "; offload fewer microbatches at a time, or give it more";
  return success();
}

FailureOr<BufferAssignment>
ProgramAssigner::run(llvm::function_ref<void(llvm::Error error)> deadlock) {
  if (failed(assignRows(options.inFlight)))
    return failure();
  if (llvm::Error error = verifyFinishes()) {
    llvm::consumeError(std::move(error));
    if (failed(assignRows(std::numeric_limits<int64_t>::max())))
      return failure();
    if (llvm::Error still = verifyFinishes()) {
      deadlock(std::move(still));
      return failure();
    }
  }
  if (failed(verifyHost()) || failed(assignTags()))
    return failure();
  return std::move(result);
}

FailureOr<BufferAssignment>
pipesched::findBuffers(Operation *owner, const LoadedProgram &loaded,
                       const StageKernels &kernels,
                       const BufferOptions &options,
                       llvm::function_ref<void(llvm::Error error)> deadlock) {
  return ProgramAssigner(owner, loaded, kernels, options).run(deadlock);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Writes buffers, tags and waits of one instruction into its op. For a pair,
/// the buffers of the second half come last.
static void storeInstruction(const LoadedProgram &loaded,
                             const BufferAssignment &assignment,
                             uint32_t instruction) {
  Operation *target = loaded.ops[instruction];
  bool isSecond = instruction > 0 && loaded.ops[instruction - 1] == target;
  SmallVector<int64_t> offsets;
  if (isSecond)
    if (auto before = target->getAttrOfType<DenseI64ArrayAttr>("buffers"))
      llvm::append_range(offsets, before.asArrayRef());
  llvm::append_range(offsets, assignment.offsetsOf(instruction));
  Builder builder(target->getContext());
  if (!offsets.empty())
    target->setAttr("buffers", builder.getDenseI64ArrayAttr(offsets));
  else if (!isSecond)
    target->removeAttr("buffers");
  if (auto send = dyn_cast<exec::SendOp>(target))
    send.setTag(assignment.tags[instruction]);
  if (auto recv = dyn_cast<exec::RecvOp>(target))
    recv.setTag(assignment.tags[instruction]);
  ArrayRef<uint32_t> waits =
      assignment.operandsOf(instruction)
          .drop_front(loaded.program.operandsOf(instruction).size());
  if (waits.empty())
    return;
  SmallVector<Value> operands(target->getOperands());
  for (uint32_t wait : waits) {
    Value token = loaded.ops[wait]->getResult(0);
    if (!llvm::is_contained(operands, token))
      operands.push_back(token);
  }
  if (operands.size() != target->getNumOperands())
    target->setOperands(operands);
}

FailureOr<std::vector<ArenaUse>>
pipesched::assignBuffers(exec::ProgramOp program,
                         const BufferOptions &options) {
  FailureOr<StageFunctions> functions = loadStageFunctions(program);
  if (failed(functions))
    return failure();
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  FailureOr<BufferAssignment> assignment = findBuffers(
      program, *loaded, StageKernels(*functions), options,
      [&](llvm::Error error) {
        (void)emitAnalysisError(program, *loaded, std::move(error),
                                ("sends=" + enumName(options.sends)).str());
      });
  if (failed(assignment))
    return failure();
  for (uint32_t i = 0; i < loaded->ops.size(); ++i)
    storeInstruction(*loaded, *assignment, i);
  for (exec::WorkerOp worker : program.getWorkerOps()) {
    const ArenaUse &use = assignment->uses[worker.getWorker()];
    worker.setArena(use.arena);
    worker.setHost(use.host > 0 ? std::optional(use.host) : std::nullopt);
  }
  return std::move(assignment->uses);
}
