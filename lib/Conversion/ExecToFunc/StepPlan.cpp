//===- StepPlan.cpp - From instructions to actions ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Walks the instructions of each worker once, in the order of the text.
//
//===----------------------------------------------------------------------===//

#include "StepPlan.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "WorkerPlanner.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace pipesched;

unsigned pipesched::getNumWords(Opcode opcode) {
  switch (opcode) {
  case kBegin:
  case kEnd:
    return 1;
  case kWait:
    return 2;
  case kZero:
    return 4;
  case kSend:
  case kRecv:
    return 7;
  case kOffload:
  case kReload:
    return 6;
  case kAllReduce:
    return 9;
  case kFirstKernel:
    break;
  }
  llvm_unreachable("kernels have numbers of their own");
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static RankedTensorType typeOfPlace(const StageKernel &kernel,
                                    KernelOperand operand,
                                    const RoleValue &value) {
  return operand.place == KernelOperand::Place::Buffer
             ? kernel.buffers[operand.index].type
             : value.getTensorType();
}

/// Adds an operand of a call to the arguments of its kernel.
static void addOperand(KernelPlan &plan, KernelOperand operand,
                       const RoleValue &value, bool isResult) {
  using Place = KernelOperand::Place;
  if (operand.place == Place::Microbatch || operand.place == Place::Step)
    return;
  auto *found = llvm::find_if(plan.arguments, [&](KernelArgument &argument) {
    return argument.operand.place == operand.place &&
           argument.operand.index == operand.index;
  });
  if (found == plan.arguments.end()) {
    plan.arguments.push_back(
        {operand, typeOfPlace(*plan.kernel, operand, value)});
    found = &plan.arguments.back();
  }
  if (isResult)
    found->isWritten = true;
  if (operand.place == Place::Gradient || (!isResult && !found->isWritten))
    found->isRead = true;
}

static PersistentKind kindOf(KernelOperand::Place place) {
  switch (place) {
  case KernelOperand::Place::Param:
    return PersistentKind::Param;
  case KernelOperand::Place::State:
    return PersistentKind::State;
  case KernelOperand::Place::Gradient:
    return PersistentKind::Gradient;
  default:
    llvm_unreachable("not in the part of a stage");
  }
}

/// Where the tensors of a stage begin in the block of a worker; 0 if it has
/// none.
static int64_t beginOfStage(const PersistentLayout &layout, int64_t stage) {
  for (const PersistentTensor &tensor : layout.tensors)
    if (tensor.stage == stage && tensor.kind != PersistentKind::Loss)
      return tensor.offset;
  return 0;
}

KernelNumbers::KernelNumbers(StepPlan &plan) : plan(plan) {}

/// What two kernels must have in common to be one function: the functions that
/// they call and the places of all operands.
static std::vector<int64_t> keyOf(const KernelPlan &plan) {
  std::vector<int64_t> key;
  for (const KernelCall &call : plan.kernel->calls) {
    func::FuncOp function = call.function->op;
    key.push_back(reinterpret_cast<int64_t>(function.getOperation()));
    for (const auto &operands : {call.arguments, call.results})
      for (KernelOperand operand : operands) {
        key.push_back(static_cast<int64_t>(operand.place));
        key.push_back(operand.index);
      }
  }
  for (const KernelArgument &argument : plan.arguments)
    key.push_back(argument.offset);
  return key;
}

uint32_t KernelNumbers::numberOf(const StageKernel &kernel,
                                 const PersistentLayout &layout) {
  auto [known, isNew] = byKernel.try_emplace(&kernel, 0);
  if (!isNew)
    return known->second;
  int64_t stage = kernel.stage->number;
  KernelPlan added{
      &kernel, std::to_string(stage) + phaseLetter(kernel.phase), {}};
  for (const KernelCall &call : kernel.calls) {
    for (auto [operand, value] :
         llvm::zip_equal(call.arguments, call.function->arguments))
      addOperand(added, operand, value, /*isResult=*/false);
    for (auto [operand, value] :
         llvm::zip_equal(call.results, call.function->results))
      addOperand(added, operand, value, /*isResult=*/true);
  }
  int64_t begin = beginOfStage(layout, stage);
  for (KernelArgument &argument : added.arguments)
    if (argument.operand.place != KernelOperand::Place::Buffer &&
        argument.operand.place != KernelOperand::Place::Loss)
      argument.offset = layout
                            .find(kindOf(argument.operand.place), stage,
                                  argument.operand.index)
                            ->offset -
                        begin;
  auto [same, isFirst] =
      byKey.try_emplace(keyOf(added), kFirstKernel + plan.kernels.size());
  if (isFirst)
    plan.kernels.push_back(std::move(added));
  return known->second = same->second;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

void WorkerPlanner::put(int64_t word) {
  assert(llvm::isUInt<32>(word) && "blocks are at most 256 GiB");
  plan.words.push_back(word);
}

void WorkerPlanner::putSize(int64_t size) {
  plan.words.push_back(static_cast<uint32_t>(size));
  plan.words.push_back(static_cast<uint32_t>(size >> 32));
}

void WorkerPlanner::putWaits(Operation *instruction) {
  auto open = openRequests.find(instruction);
  if (open == openRequests.end())
    return;
  for (uint32_t request : open->second) {
    put(kWait);
    put(request);
    freeRequests.push_back(request);
  }
  openRequests.erase(open);
}

uint32_t WorkerPlanner::startRequest(Operation *instruction) {
  if (freeRequests.empty())
    freeRequests.push_back(plan.numRequests++);
  uint32_t request = freeRequests.pop_back_val();
  openRequests[instruction].push_back(request);
  return request;
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

static InFlightDiagnostic emitNoBuffers(Operation *op, const Twine &what) {
  return pipe::emitTableError(op)
         << "has no " << what << "; run exec-assign-buffers first";
}

LogicalResult WorkerPlanner::verifySlot(Operation *op, int64_t offset,
                                        int64_t bytes, int64_t blockBytes,
                                        StringRef block) {
  if (offset < 0 || offset % kSlotAlignment != 0)
    return pipe::emitTableError(op)
           << "has a buffer at " << offset << "; expected a multiple of "
           << kSlotAlignment;
  if (offset + bytes > blockBytes)
    return pipe::emitTableError(op)
           << "has a buffer of " << bytes << " bytes at " << offset
           << ", but the " << block << " of worker " << worker.getWorker()
           << " has " << blockBytes << " bytes";
  return success();
}

/// A kernel reads and writes its buffers in any order, so they must be apart.
LogicalResult WorkerPlanner::verifyBuffers(Operation *op,
                                           const StageKernel &kernel,
                                           ArrayRef<int64_t> offsets) {
  for (auto [i, offset] : llvm::enumerate(offsets)) {
    int64_t end = offset + bytesOf(kernel.buffers[i].type);
    if (failed(verifySlot(op, offset, end - offset, plan.arenaBytes, "arena")))
      return failure();
    for (size_t j = 0; j < i; ++j)
      if (offsets[j] < end &&
          offset < offsets[j] + bytesOf(kernel.buffers[j].type) &&
          (kernel.buffers[i].isWritten || kernel.buffers[j].isWritten))
        return pipe::emitTableError(op)
               << "has buffers " << j << " and " << i
               << ", of which it writes one, at overlapping bytes";
  }
  return success();
}

/// Plans one cell with as many of `offsets` as it has buffers, and drops these.
LogicalResult WorkerPlanner::planCell(exec::ComputeOp op, Cell cell,
                                      ArrayRef<int64_t> &offsets) {
  const StageKernel *kernel =
      step.stageKernels->find(cell.getStage(), cell.getPhase());
  if (!kernel)
    return pipe::emitTableError(op)
           << "runs " << cell.str() << ", but stage " << cell.getStage()
           << " names no function for phase " << phaseLetter(cell.getPhase());
  if (offsets.size() < kernel->buffers.size())
    return pipe::emitTableError(op)
           << "has too few buffers for " << cell.str() << ", which needs "
           << kernel->buffers.size() << "; run exec-assign-buffers again";
  ArrayRef<int64_t> own = offsets.take_front(kernel->buffers.size());
  offsets = offsets.drop_front(own.size());
  if (failed(verifyBuffers(op, *kernel, own)))
    return failure();
  const PersistentTensor *losses =
      layout.find(PersistentKind::Loss, step.functions.stages.back().number);
  put(kernels.numberOf(*kernel, layout));
  putSlot(beginOfStage(layout, cell.getStage()));
  putSlot(losses ? losses->offset : 0);
  put(cell.getMicrobatch());
  for (int64_t offset : own)
    putSlot(offset);
  return success();
}

LogicalResult WorkerPlanner::planCompute(exec::ComputeOp op) {
  ArrayRef<int64_t> offsets;
  if (op.getBuffers())
    offsets = *op.getBuffers();
  if (failed(planCell(op, op.getCell(), offsets)) ||
      (op.getOverlapped() &&
       failed(planCell(op, *op.getOverlapped(), offsets))))
    return failure();
  if (!offsets.empty())
    return pipe::emitTableError(op)
           << "has " << op.getBuffers()->size() << " buffers, but needs "
           << op.getBuffers()->size() - offsets.size()
           << "; run exec-assign-buffers again";
  return success();
}

/// What a message carries: an output (F), or a gradient of the stage's input.
static RankedTensorType typeOfMessage(const Stage &stage, Cell cell) {
  return cell.is(Phase::Forward) ? stage.output : stage.inputGradient;
}

template <typename MessageOp>
LogicalResult WorkerPlanner::planMessage(MessageOp op, Opcode opcode) {
  Cell cell = op.getCell();
  RankedTensorType type =
      typeOfMessage(step.functions.stages[cell.getStage()], cell);
  if (!type)
    return pipe::emitTableError(op)
           << "carries the gradient of the input of stage " << cell.getStage()
           << ", which none of its functions gives";
  if (!op.getBuffers() || op.getBuffers()->size() != 1)
    return emitNoBuffers(op, "buffer (at [offset])");
  if (!op.getTag())
    return emitNoBuffers(op, "tag");
  int64_t offset = op.getBuffers()->front();
  if (failed(verifySlot(op, offset, bytesOf(type), plan.arenaBytes, "arena")))
    return failure();
  put(opcode);
  putSlot(offset);
  putSize(bytesOf(type));
  put(op.getPeer());
  put(*op.getTag());
  put(startRequest(op));
  return success();
}

template <typename CopyOp>
LogicalResult WorkerPlanner::planCopy(CopyOp op, Opcode opcode) {
  if (!op.getBuffers() || op.getBuffers()->size() % 3 != 0)
    return emitNoBuffers(op,
                         "buffers (at [arena offset, host offset, bytes, ..])");
  ArrayRef<int64_t> rest = *op.getBuffers();
  for (; !rest.empty(); rest = rest.drop_front(3)) {
    if (failed(verifySlot(op, rest[0], rest[2], plan.arenaBytes, "arena")) ||
        failed(verifySlot(op, rest[1], rest[2], plan.hostBytes, "host memory")))
      return failure();
    put(opcode);
    putSlot(rest[1]);
    putSlot(rest[0]);
    putSize(rest[2]);
    put(startRequest(op));
  }
  return success();
}

/// The number of an element type in the interface of the runtime.
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

LogicalResult WorkerPlanner::planAllReduce(exec::AllReduceOp op) {
  const Group &group =
      groups.at({op.getGroupBlocks().begin, op.getGroupBlocks().end});
  if (group.numMembers == 1)
    return success();
  for (const GradientRun &run : layout.runsOf(op.getCell().getStage())) {
    std::optional<int64_t> type = elementTypeNumber(run.elementType);
    if (!type)
      return pipe::emitTableError(op)
             << "sums gradients of " << run.elementType
             << "; the runtime sums f32, f64, f16, bf16, i32 and i64";
    put(kAllReduce);
    putSlot(run.offset);
    putSize(run.bytes * 8 / run.elementType.getIntOrFloatBitWidth());
    put(*type);
    put(group.number);
    put(group.firstMember);
    put(group.numMembers);
    put(startRequest(op));
  }
  return success();
}

LogicalResult WorkerPlanner::planInstruction(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](exec::ComputeOp op) { return planCompute(op); })
      .Case([&](exec::SendOp op) { return planMessage(op, kSend); })
      .Case([&](exec::RecvOp op) { return planMessage(op, kRecv); })
      .Case([&](exec::OffloadOp op) { return planCopy(op, kOffload); })
      .Case([&](exec::ReloadOp op) { return planCopy(op, kReload); })
      .Case([&](exec::AllReduceOp op) { return planAllReduce(op); })
      .Default([&](Operation *op) {
        return op->emitError() << "is no instruction of exec, so that "
                                  "convert-exec-to-func cannot lower it";
      });
}

/// "0F0", "0F1+0B0", "send 0F0 to 1", "all_reduce 0G0".
static std::string describe(exec::InstructionOpInterface op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  InstructionKind kind = op.getInstructionKind();
  if (kind != InstructionKind::Compute)
    os << enumName(kind) << ' ';
  os << *op.getInstructionCell();
  if (std::optional<Cell> overlapped = op.getOverlappedCell())
    os << '+' << *overlapped;
  if (op.getPeer() >= 0)
    os << (kind == InstructionKind::Send ? " to " : " from ") << op.getPeer();
  return text;
}

/// Begin and end enclose the instruction itself, not what it waits for.
LogicalResult WorkerPlanner::planNext(exec::InstructionOpInterface op) {
  InstructionKind kind = op.getInstructionKind();
  if (kind == InstructionKind::Wait) {
    for (Value token : op.getWaits())
      joined.push_back(token.getDefiningOp());
    return success();
  }
  if (kind == InstructionKind::Compute || kind == InstructionKind::Reload)
    for (Operation *waited : std::exchange(joined, {}))
      putWaits(waited);
  for (Value token : op.getWaits())
    putWaits(token.getDefiningOp());
  put(kBegin);
  if (failed(planInstruction(op)))
    return failure();
  put(kEnd);
  plan.instructions.push_back(describe(op));
  return success();
}

/// Gradients of neighbouring runs and the losses are zero at first.
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
    put(kZero);
    putSlot(spans[i].first);
    putSize(spans[next - 1].second - spans[i].first);
  }
}

LogicalResult WorkerPlanner::run() {
  if (!worker.getArena())
    return emitNoBuffers(worker, "arena");
  plan.arenaBytes = *worker.getArena();
  plan.hostBytes = worker.getHost().value_or(0);
  constexpr int64_t kMaxBytes = kSlotAlignment << 32;
  for (int64_t bytes : {plan.arenaBytes, plan.hostBytes, layout.bytes})
    if (bytes < 0 || bytes > kMaxBytes)
      return pipe::emitTableError(worker)
             << "has a block of " << bytes << " bytes; expected 0 to "
             << kMaxBytes;
  putZeros();
  SmallVector<Operation *> starts;
  for (auto instruction :
       worker.getBody()->getOps<exec::InstructionOpInterface>()) {
    if (failed(planNext(instruction)))
      return failure();
    if (openRequests.contains(instruction))
      starts.push_back(instruction);
  }
  for (Operation *start : starts)
    putWaits(start);
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Numbers the groups in the order of their blocks; members ascend.
static GroupMap collectGroups(const LoadedProgram &loaded,
                              std::vector<uint32_t> &members) {
  std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> byBlocks;
  const Program &program = loaded.program;
  for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker)
    for (uint32_t i = program.rowBegins[worker];
         i != program.rowBegins[worker + 1]; ++i)
      if (program.instructions[i].is(InstructionKind::AllReduce)) {
        BlockSpan blocks = program.blocks[program.instructions[i].peer];
        byBlocks[{blocks.begin, blocks.end}].push_back(worker);
      }
  GroupMap groups;
  for (auto &[blocks, workers] : byBlocks) {
    uint32_t number = groups.size();
    groups[blocks] = {number, static_cast<uint32_t>(members.size()),
                      static_cast<uint32_t>(workers.size())};
    llvm::append_range(members, workers);
  }
  return groups;
}

FailureOr<std::unique_ptr<StepPlan>>
pipesched::planSteps(exec::ProgramOp program) {
  FailureOr<StageFunctions> functions = loadStageFunctions(program);
  if (failed(functions))
    return failure();
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  auto plan = std::make_unique<StepPlan>();
  plan->functions = std::move(*functions);
  plan->stageKernels = std::make_unique<StageKernels>(plan->functions);
  plan->layouts = layOutPersistent(plan->functions, loaded->placement);
  GroupMap groups = collectGroups(*loaded, plan->members);
  std::vector<exec::WorkerOp> workers(program.getNumWorkers());
  for (exec::WorkerOp worker : program.getWorkerOps())
    workers[worker.getWorker()] = worker;
  KernelNumbers kernels(*plan);
  for (exec::WorkerOp worker : workers) {
    plan->workers.emplace_back();
    if (failed(WorkerPlanner(*plan, kernels, groups, worker).run()))
      return failure();
  }
  return plan;
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

static void writeWorker(llvm::json::OStream &json, const WorkerPlan &worker,
                        const PersistentLayout &layout) {
  json.object([&] {
    json.attribute("persistent", layout.bytes);
    json.attribute("arena", worker.arenaBytes);
    json.attribute("host", worker.hostBytes);
    json.attribute("requests", worker.numRequests);
    json.attributeBegin("tensors");
    writeTensors(json, layout);
    json.attributeEnd();
    json.attributeArray("instructions", [&] {
      for (const std::string &instruction : worker.instructions)
        json.value(instruction);
    });
  });
}

std::string pipesched::describeLayout(exec::ProgramOp program,
                                      const StepPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os);
  json.object([&] {
    json.attribute("program", program.getSymName());
    json.attribute("microbatches", program.getNumMicrobatches());
    json.attributeArray("workers", [&] {
      for (size_t i = 0; i < plan.workers.size(); ++i)
        writeWorker(json, plan.workers[i], plan.layouts[i]);
    });
  });
  return text;
}
