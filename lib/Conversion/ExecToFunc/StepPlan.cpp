//===- StepPlan.cpp - What the workers of a program do --------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads a program with its places, numbers kernels and groups, and describes
// the plan.
//
//===----------------------------------------------------------------------===//

#include "StepPlan.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "WorkerPlanner.h"
#include "llvm/ADT/StringExtras.h"
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

KernelNumbers::KernelNumbers(StepPlan &plan)
    : plan(plan), byStageAndPhase(plan.functions.stages.size() * kNumPhases) {}

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
  int64_t stage = kernel.stage->number;
  uint32_t &known =
      byStageAndPhase[stage * kNumPhases + static_cast<unsigned>(kernel.phase)];
  if (known != 0)
    return known;
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
  int64_t begin = layout.beginOf(stage);
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
  return known = same->second;
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
pipesched::planSteps(Operation *owner, StageFunctions functions,
                     PlacedProgram placed) {
  auto plan = std::make_unique<StepPlan>();
  plan->functions = std::move(functions);
  plan->placed = std::move(placed);
  const LoadedProgram &loaded = plan->placed.loaded;
  plan->stageKernels = std::make_unique<StageKernels>(plan->functions);
  plan->layouts = layOutPersistent(plan->functions, loaded.placement);
  GroupMap groups = collectGroups(loaded, plan->members);
  plan->workers.resize(loaded.program.getNumWorkers());
  plan->words.reserve(12 * loaded.program.instructions.size()); // about as many
  KernelNumbers kernels(*plan);
  for (size_t worker = 0; worker < plan->workers.size(); ++worker)
    if (failed(WorkerPlanner(*plan, kernels, groups, owner, worker).run()))
      return failure();
  return plan;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

static LogicalResult readInstruction(Operation *op, BufferAssignment &buffers) {
  if (!isa<exec::ExecDialect>(op->getDialect()))
    return op->emitError() << "is no instruction of exec, so that "
                              "convert-exec-to-func cannot lower it";
  if (auto offsets = op->getAttrOfType<DenseI64ArrayAttr>("buffers"))
    llvm::append_range(buffers.offsets, offsets.asArrayRef());
  if (auto send = dyn_cast<exec::SendOp>(op))
    buffers.tags.back() = send.getTag().value_or(-1);
  if (auto recv = dyn_cast<exec::RecvOp>(op))
    buffers.tags.back() = recv.getTag().value_or(-1);
  return success();
}

/// What exec-assign-buffers has written into the ops.
static FailureOr<BufferAssignment> readBuffers(exec::ProgramOp program,
                                               const LoadedProgram &loaded) {
  BufferAssignment buffers;
  buffers.uses.resize(program.getNumWorkers());
  for (exec::WorkerOp worker : program.getWorkerOps()) {
    if (!worker.getArena())
      return pipe::emitTableError(worker)
             << "has no arena; run exec-assign-buffers first";
    ArenaUse &use = buffers.uses[worker.getWorker()];
    use.arena = *worker.getArena();
    use.host = worker.getHost().value_or(0);
  }
  buffers.offsetBegins.push_back(0);
  for (auto [i, op] : llvm::enumerate(loaded.ops)) {
    buffers.tags.push_back(-1);
    bool isSecond = i > 0 && loaded.ops[i - 1] == op;
    if (!isSecond && failed(readInstruction(op, buffers)))
      return failure();
    buffers.offsetBegins.push_back(buffers.offsets.size());
  }
  buffers.operandBegins = loaded.program.operandBegins;
  buffers.operands = loaded.program.operands;
  return std::move(buffers);
}

FailureOr<std::unique_ptr<StepPlan>>
pipesched::planSteps(exec::ProgramOp program) {
  FailureOr<StageFunctions> functions = loadStageFunctions(program);
  if (failed(functions))
    return failure();
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  FailureOr<BufferAssignment> buffers = readBuffers(program, *loaded);
  if (failed(buffers))
    return failure();
  return planSteps(program, std::move(*functions),
                   {std::move(*loaded), std::move(*buffers)});
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

void StepPlan::describe(uint32_t instruction, std::string &text) const {
  auto [cell, peer, kind] = placed.loaded.program.instructions[instruction];
  auto addCell = [&](Cell added) {
    text += llvm::utostr(added.getStage());
    text += phaseLetter(added.getPhase());
    text += llvm::utostr(added.getMicrobatch());
  };
  if (kind != InstructionKind::Compute) {
    text += enumName(kind);
    text += ' ';
  }
  addCell(cell);
  if (kind == InstructionKind::Compute && cell.overlapsNext()) {
    text += '+';
    addCell(placed.loaded.program.instructions[instruction + 1].cell);
  }
  if (kind != InstructionKind::Send && kind != InstructionKind::Recv)
    return;
  text += kind == InstructionKind::Send ? " to " : " from ";
  text += llvm::utostr(peer);
}

/// The names of instructions need no escapes, so that they are written as they
/// are.
static void writeInstructions(llvm::json::OStream &json, const StepPlan &plan,
                              const WorkerPlan &worker) {
  std::string text = "[";
  for (uint32_t instruction : worker.instructions) {
    text += text.size() == 1 ? "\"" : ",\"";
    plan.describe(instruction, text);
    text += '"';
  }
  text += ']';
  json.rawValue(text);
}

static void writeWorker(llvm::json::OStream &json, const StepPlan &plan,
                        const WorkerPlan &worker,
                        const PersistentLayout &layout) {
  json.object([&] {
    json.attribute("persistent", layout.bytes);
    json.attribute("arena", worker.arenaBytes);
    json.attribute("host", worker.hostBytes);
    json.attribute("requests", worker.numRequests);
    json.attributeBegin("tensors");
    writeTensors(json, layout);
    json.attributeEnd();
    json.attributeBegin("instructions");
    writeInstructions(json, plan, worker);
    json.attributeEnd();
  });
}

std::string pipesched::describeLayout(StringRef name, const StepPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os);
  json.object([&] {
    json.attribute("program", name);
    json.attribute("microbatches",
                   plan.placed.loaded.placement.getNumMicrobatches());
    json.attributeArray("workers", [&] {
      for (size_t i = 0; i < plan.workers.size(); ++i)
        writeWorker(json, plan, plan.workers[i], plan.layouts[i]);
    });
  });
  return text;
}
