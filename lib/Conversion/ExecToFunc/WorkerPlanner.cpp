//===- WorkerPlanner.cpp - From instructions to actions -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks the instructions of a worker once, in the order of the text.
//
//===----------------------------------------------------------------------===//

#include "WorkerPlanner.h"

using namespace mlir;
using namespace pipesched;

static constexpr uint32_t kNone = Program::kNone;

static int64_t bytesOrNone(RankedTensorType type) {
  return type ? bytesOf(type) : -1;
}

WorkerPlanner::WorkerPlanner(StepPlan &step, KernelNumbers &kernels,
                             const ReduceGroups &groups, Operation *owner,
                             int64_t worker, std::vector<uint32_t> &words)
    : step(step), kernels(kernels), groups(groups), owner(owner),
      worker(worker), words(words), layout(step.layouts[worker]),
      plan(step.workers[worker]),
      rowBegin(step.placed.loaded.program.rowBegins[worker]),
      rowEnd(step.placed.loaded.program.rowBegins[worker + 1]),
      summedTies(step.functions.ties.size()),
      firstRequest(rowEnd - rowBegin, kNone) {
  const PersistentTensor *tensor =
      layout.find(PersistentKind::Loss, step.functions.stages.back().number);
  losses = tensor ? tensor->offset : 0;
  for (const Stage &stage : step.functions.stages) {
    stageBegins.push_back(layout.beginOf(stage.number));
    outputBytes.push_back(bytesOrNone(stage.output));
    gradientBytes.push_back(bytesOrNone(stage.inputGradient));
  }
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static uint32_t slotOf(int64_t offset) {
  assert(llvm::isUInt<32>(offset / kSlotAlignment) &&
         "blocks are at most 256 GiB");
  return offset / kSlotAlignment;
}

static uint32_t lowOf(int64_t size) { return size; }
static uint32_t highOf(int64_t size) { return size >> 32; }

void WorkerPlanner::putWaits(uint32_t instruction) {
  uint32_t request = std::exchange(firstRequest[instruction - rowBegin], kNone);
  for (; request != kNone; request = nextRequest[request]) {
    put({kWait, request});
    freeRequests.push_back(request);
  }
}

/// Assigns a request to an instruction, which starts its requests one after the
/// other.
uint32_t WorkerPlanner::startRequest(uint32_t instruction) {
  if (freeRequests.empty()) {
    freeRequests.push_back(plan.numRequests++);
    nextRequest.push_back(kNone);
  }
  uint32_t request = freeRequests.pop_back_val();
  nextRequest[request] = kNone;
  uint32_t *end = &firstRequest[instruction - rowBegin];
  while (*end != kNone)
    end = &nextRequest[*end];
  return *end = request;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitNoBuffers(Operation *op, const Twine &what) {
  return pipe::emitTableError(op)
         << "has no " << what << "; run exec-assign-buffers first";
}

LogicalResult WorkerPlanner::verifySlot(uint32_t instruction, int64_t offset,
                                        int64_t bytes, int64_t blockBytes,
                                        StringRef block) {
  if (offset < 0 || offset % kSlotAlignment != 0)
    return pipe::emitTableError(opOf(instruction))
           << "has a buffer at " << offset << "; expected a multiple of "
           << kSlotAlignment;
  // Both numbers come from the text, so their sum may not fit.
  if (bytes < 0 || bytes > blockBytes || offset > blockBytes - bytes)
    return pipe::emitTableError(opOf(instruction))
           << "has a buffer of " << bytes << " bytes at " << offset
           << ", but the " << block << " of worker " << worker << " has "
           << blockBytes << " bytes";
  return success();
}

/// A kernel reads and writes its buffers in any order, so they must not
/// overlap.
LogicalResult WorkerPlanner::verifyBuffers(uint32_t instruction,
                                           const StageKernel &kernel,
                                           ArrayRef<int64_t> offsets) {
  for (auto [i, offset] : llvm::enumerate(offsets)) {
    int64_t bytes = kernel.buffers[i].bytes;
    if (failed(
            verifySlot(instruction, offset, bytes, plan.arenaBytes, "arena")))
      return failure();
    int64_t end = offset + bytes;
    for (size_t j = 0; j < i; ++j)
      if (offsets[j] < end && offset < offsets[j] + kernel.buffers[j].bytes &&
          (kernel.buffers[i].isWritten || kernel.buffers[j].isWritten))
        return pipe::emitTableError(opOf(instruction))
               << "has buffers " << j << " and " << i
               << ", of which it writes one, at overlapping bytes";
  }
  return success();
}

/// Plans one cell. It takes its buffers from the front of `offsets` and removes
/// them there. Shared buffers of slices are zeroed by the F of the first slice,
/// or by the backward of the last.
void WorkerPlanner::putBegun(Cell cell, const StageKernel &kernel,
                             ArrayRef<int64_t> offsets) {
  const Placement &placement = step.placed.loaded.placement;
  int64_t slice = placement.sliceOf(cell.getUnit());
  for (auto [buffer, offset] : llvm::zip_equal(kernel.buffers, offsets)) {
    if (buffer.begunBy(placement.getNumSlices()) == slice)
      put({kClear, slotOf(offset), lowOf(buffer.bytes), highOf(buffer.bytes)});
  }
}

LogicalResult WorkerPlanner::planCell(uint32_t instruction, Cell cell,
                                      ArrayRef<int64_t> &offsets) {
  const StageKernel *kernel =
      step.stageKernels->find(cell.getStage(), cell.getPhase());
  if (!kernel)
    return pipe::emitTableError(opOf(instruction))
           << "runs " << nameOf(cell).str() << ", but stage " << cell.getStage()
           << " names no function for phase " << phaseLetter(cell.getPhase());
  if (offsets.size() < kernel->buffers.size())
    return pipe::emitTableError(opOf(instruction))
           << "has too few buffers for " << nameOf(cell).str()
           << ", which needs " << kernel->buffers.size()
           << "; run exec-assign-buffers again";
  ArrayRef<int64_t> own = offsets.take_front(kernel->buffers.size());
  offsets = offsets.drop_front(own.size());
  if (failed(verifyBuffers(instruction, *kernel, own)))
    return failure();
  putBegun(cell, *kernel, own);
  put({kernels.numberOf(*kernel, layout), slotOf(stageBegins[cell.getStage()]),
       slotOf(losses), static_cast<uint32_t>(cell.getUnit())});
  for (int64_t offset : own)
    words.push_back(slotOf(offset));
  if (kernel->takesShard())
    words.push_back(*step.functions.shardOf(cell.getStage()));
  return success();
}

/// Plans a compute. A pair has the places of both halves.
LogicalResult WorkerPlanner::planCompute(uint32_t instruction) {
  bool isPair = at(instruction).cell.overlapsNext();
  const BufferAssignment &buffers = step.placed.buffers;
  uint32_t begin = buffers.offsetBegins[instruction];
  uint32_t end = buffers.offsetBegins[instruction + (isPair ? 2 : 1)];
  ArrayRef<int64_t> offsets =
      ArrayRef(buffers.offsets).slice(begin, end - begin);
  if (failed(planCell(instruction, at(instruction).cell.withOverlap(false),
                      offsets)) ||
      (isPair &&
       failed(planCell(instruction, at(instruction + 1).cell, offsets))))
    return failure();
  if (!offsets.empty())
    return pipe::emitTableError(opOf(instruction))
           << "has " << end - begin << " buffers, but needs "
           << end - begin - offsets.size() << "; run exec-assign-buffers again";
  return success();
}

/// Plans a message. It carries an output (F), or the gradient of the stage's
/// input.
LogicalResult WorkerPlanner::planMessage(uint32_t instruction, Opcode opcode) {
  auto [cell, peer, kind] = at(instruction);
  int64_t bytes = cell.is(Phase::Forward) ? outputBytes[cell.getStage()]
                                          : gradientBytes[cell.getStage()];
  if (bytes < 0)
    return pipe::emitTableError(opOf(instruction))
           << "carries the gradient of the input of stage " << cell.getStage()
           << ", which none of its functions gives";
  ArrayRef<int64_t> offsets = step.placed.buffers.offsetsOf(instruction);
  if (offsets.size() != 1)
    return emitNoBuffers(opOf(instruction), "buffer (at [offset])");
  int32_t tag = step.placed.buffers.tags[instruction];
  if (tag < 0)
    return emitNoBuffers(opOf(instruction), "tag");
  if (failed(verifySlot(instruction, offsets.front(), bytes, plan.arenaBytes,
                        "arena")))
    return failure();
  put({opcode, slotOf(offsets.front()), lowOf(bytes), highOf(bytes),
       static_cast<uint32_t>(peer), static_cast<uint32_t>(tag),
       startRequest(instruction)});
  return success();
}

LogicalResult WorkerPlanner::planCopy(uint32_t instruction, Opcode opcode) {
  ArrayRef<int64_t> rest = step.placed.buffers.offsetsOf(instruction);
  if (rest.size() % 3 != 0)
    return emitNoBuffers(opOf(instruction),
                         "buffers (at [arena offset, host offset, bytes, ..])");
  for (; !rest.empty(); rest = rest.drop_front(3)) {
    if (failed(verifySlot(instruction, rest[0], rest[2], plan.arenaBytes,
                          "arena")) ||
        failed(verifySlot(instruction, rest[1], rest[2], plan.hostBytes,
                          "host memory")))
      return failure();
    put({opcode, slotOf(rest[1]), slotOf(rest[0]), lowOf(rest[2]),
         highOf(rest[2]), startRequest(instruction)});
  }
  return success();
}

/// Returns the number of an element type in the interface of the runtime.
static std::optional<int64_t> elementTypeNumber(Type type) {
  if (type.isF32())
    return 0;
  if (type.isF64())
    return 1;
  if (type.isF16())
    return 2;
  if (type.isBF16())
    return 3;
  if (type.isInteger(32))
    return 4;
  if (type.isInteger(64))
    return 5;
  return std::nullopt;
}

static InFlightDiagnostic emitNoSum(Operation *op, Type type) {
  return pipe::emitTableError(op)
         << "sums numbers of " << type
         << "; the runtime sums f32, f64, f16, bf16, i32 and i64";
}

LogicalResult WorkerPlanner::planAllReduce(uint32_t instruction) {
  BlockSpan blocks =
      step.placed.loaded.program.groups[at(instruction).peer].blocks;
  const Group &group = groups.byBlocks.at({blocks.begin, blocks.end});
  for (const GradientRun &run : layout.runsOf(at(instruction).cell.getStage()))
    if (!run.isTied &&
        failed(putSum(instruction, kAllReduce, run.offset,
                      run.bytes * 8 / run.elementType.getIntOrFloatBitWidth(),
                      run.elementType, group)))
      return failure();
  return success();
}

LogicalResult WorkerPlanner::putSum(uint32_t instruction, Opcode opcode,
                                    int64_t offset, int64_t size, Type type,
                                    const Group &group) {
  if (group.numMembers == 1)
    return success();
  std::optional<int64_t> number = elementTypeNumber(type);
  if (!number)
    return emitNoSum(opOf(instruction), type);
  put({opcode, slotOf(offset), lowOf(size), highOf(size),
       static_cast<uint32_t>(*number), group.number, group.firstMember,
       group.numMembers, startRequest(instruction)});
  return success();
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

/// The worker of the last stage sends its output to all workers with a shard.
LogicalResult WorkerPlanner::planBroadcast(uint32_t instruction) {
  const Placement &placement = step.placed.loaded.placement;
  int64_t path = placement.pathOf(at(instruction).cell.getUnit());
  const Group &group = groups.byPath[path].broadcasts;
  ArrayRef<int64_t> offsets = step.placed.buffers.offsetsOf(instruction);
  if (offsets.size() != 1)
    return emitNoBuffers(opOf(instruction), "buffer (at [offset])");
  int64_t bytes = outputBytes.back();
  if (failed(verifySlot(instruction, offsets.front(), bytes, plan.arenaBytes,
                        "arena")))
    return failure();
  if (group.numMembers == 1)
    return success();
  auto root = static_cast<uint32_t>(placement.getPath(path).workers.back());
  put({kBroadcast, slotOf(offsets.front()), lowOf(bytes), highOf(bytes), root,
       group.number, group.firstMember, group.numMembers,
       startRequest(instruction)});
  return success();
}

/// Replaces the result of a shard by the sum over shards. The partials of a
/// shard are zero at the places of other shards, so the sum contains all
/// partials.
LogicalResult WorkerPlanner::planShardSums(uint32_t instruction) {
  const StageFunctions &functions = step.functions;
  int64_t path =
      step.placed.loaded.placement.pathOf(at(instruction).cell.getUnit());
  SmallVector<RankedTensorType> types;
  if (at(instruction).is(InstructionKind::Reduce))
    types.push_back(functions.lastOutputGradient);
  else
    for (const NamedTensor &tensor : functions.partials)
      types.push_back(tensor.type);
  ArrayRef<int64_t> offsets = step.placed.buffers.offsetsOf(instruction);
  if (offsets.size() != types.size())
    return emitNoBuffers(opOf(instruction), "buffers (at [offset, ..])");
  for (auto [type, offset] : llvm::zip_equal(types, offsets))
    if (failed(verifySlot(instruction, offset, bytesOf(type), plan.arenaBytes,
                          "arena")) ||
        failed(putSum(instruction, kSumShards, offset, type.getNumElements(),
                      type.getElementType(), groups.byPath[path].sums)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Ties
//===----------------------------------------------------------------------===//

/// Verifies that a tie comes last. Workers wait here for each other, which
/// cannot deadlock if only optimizer steps follow: then none waits for a later
/// instruction.
LogicalResult WorkerPlanner::verifyLast(uint32_t instruction, const Tie &tie) {
  for (uint32_t i = instruction + 1; i < rowEnd; ++i) {
    const Instruction &later = at(i);
    if (later.is(InstructionKind::Wait) ||
        (later.is(InstructionKind::Compute) && later.cell.is(Phase::Optimizer)))
      continue;
    return pipe::emitTableError(opOf(instruction))
           << "steps stage " << at(instruction).cell.getStage()
           << ", whose parameter is tied as \"" << tie.name << "\", before "
           << nameOf(later.cell).str() << " on worker " << worker
           << "; expected steps of the optimizer at the end of the row";
  }
  return success();
}

/// Before the first O of a tied stage, adds up the gradients of its tied
/// parameters, first on this worker, then among all workers that have such a
/// gradient:
///
///   kAdd a += b    kAllReduce a    kCopy b = a
LogicalResult WorkerPlanner::planTies(uint32_t instruction) {
  int64_t stage = at(instruction).cell.getStage();
  for (auto [i, tie] : llvm::enumerate(step.functions.ties)) {
    if (summedTies[i] || !tie.has(stage))
      continue;
    summedTies[i] = true;
    if (failed(verifyLast(instruction, tie)))
      return failure();
    SmallVector<const PersistentTensor *> own;
    for (auto [number, index] : tie.gradients)
      if (const PersistentTensor *tensor =
              layout.find(PersistentKind::Gradient, number, index))
        own.push_back(tensor);
    const PersistentTensor &sum = *own.front();
    Type type = sum.type.getElementType();
    std::optional<int64_t> number = elementTypeNumber(type);
    if (!number)
      return emitNoSum(opOf(instruction), type);
    int64_t size = sum.type.getNumElements();
    for (const PersistentTensor *other : llvm::drop_begin(own))
      put({kAdd, slotOf(sum.offset), slotOf(other->offset), lowOf(size),
           highOf(size), static_cast<uint32_t>(*number)});
    if (failed(putSum(instruction, kAllReduce, sum.offset, size, type,
                      groups.byTie[i])))
      return failure();
    putWaits(instruction);
    for (const PersistentTensor *other : llvm::drop_begin(own))
      put({kCopy, slotOf(other->offset), slotOf(sum.offset), lowOf(sum.bytes),
           highOf(sum.bytes)});
  }
  return success();
}

LogicalResult WorkerPlanner::planInstruction(uint32_t instruction) {
  switch (traitsOf(at(instruction).kind).role) {
  case InstructionRole::Compute:
    return planCompute(instruction);
  case InstructionRole::Message:
    return planMessage(
        instruction, at(instruction).is(InstructionKind::Send) ? kSend : kRecv);
  case InstructionRole::Copy:
    return planCopy(instruction, at(instruction).is(InstructionKind::Offload)
                                     ? kOffload
                                     : kReload);
  case InstructionRole::Collective:
    if (at(instruction).is(InstructionKind::Broadcast))
      return planBroadcast(instruction);
    return traitsOf(at(instruction).kind).grouping == Grouping::Unit
               ? planShardSums(instruction)
               : planAllReduce(instruction);
  case InstructionRole::Join:
    break;
  }
  llvm_unreachable("a wait is no action");
}

/// kBegin and kEnd enclose the instruction itself, not its waits.
LogicalResult WorkerPlanner::planNext(uint32_t instruction) {
  InstructionKind kind = at(instruction).kind;
  ArrayRef<uint32_t> operands = step.placed.buffers.operandsOf(instruction);
  if (kind == InstructionKind::Wait) {
    llvm::append_range(joined, operands);
    return success();
  }
  if (kind == InstructionKind::Compute || kind == InstructionKind::Reload) {
    for (uint32_t waited : joined)
      putWaits(waited);
    joined.clear();
  }
  for (uint32_t waited : operands)
    putWaits(waited);
  words.push_back(kBegin);
  if (kind == InstructionKind::Compute &&
      at(instruction).cell.is(Phase::Optimizer) &&
      failed(planTies(instruction)))
    return failure();
  if (failed(planInstruction(instruction)))
    return failure();
  words.push_back(kEnd);
  plan.instructions.push_back(instruction);
  return success();
}

/// Zeroes the losses and the gradients, merged into runs, at the start.
void WorkerPlanner::putZeros() {
  SmallVector<std::pair<int64_t, int64_t>> spans;
  for (const GradientRun &run : layout.runs)
    spans.push_back({run.offset, run.offset + run.bytes});
  for (const PersistentTensor &tensor : layout.tensors)
    if (tensor.kind == PersistentKind::Loss)
      spans.push_back({tensor.offset, layout.bytes});
  for (size_t i = 0, next = 0; i < spans.size(); i = next) {
    next = i + 1;
    while (next < spans.size() && spans[next].first == spans[next - 1].second)
      ++next;
    int64_t size = spans[next - 1].second - spans[i].first;
    put({kZero, slotOf(spans[i].first), lowOf(size), highOf(size)});
  }
}

LogicalResult WorkerPlanner::run() {
  plan.arenaBytes = step.placed.buffers.uses[worker].arena;
  plan.hostBytes = step.placed.buffers.uses[worker].host;
  constexpr int64_t kMaxBytes = kSlotAlignment << 32;
  for (int64_t bytes : {plan.arenaBytes, plan.hostBytes, layout.bytes})
    if (bytes < 0 || bytes > kMaxBytes)
      return pipe::emitTableError(owner)
             << "has a block of " << bytes << " bytes on worker " << worker
             << "; expected 0 to " << kMaxBytes;
  plan.instructions.reserve(rowEnd - rowBegin);
  putZeros();
  for (uint32_t i = rowBegin; i < rowEnd; ++i) {
    if (failed(planNext(i)))
      return failure();
    if (at(i).is(InstructionKind::Compute) && at(i).cell.overlapsNext())
      ++i;
  }
  for (uint32_t i = rowBegin; i < rowEnd; ++i)
    putWaits(i);
  return success();
}
