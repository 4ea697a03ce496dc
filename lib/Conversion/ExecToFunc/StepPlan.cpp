//===- StepPlan.cpp - Plans of steps --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads a program with assigned buffers, and numbers kernels and groups.
//
//===----------------------------------------------------------------------===//

#include "StepPlan.h"
#include "PipeSched/Adapter/LoadProgram.h"
#include "PipeSched/Support/WordSections.h"
#include "WorkerPlanner.h"

#include <set>

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
  case kClear:
    return 4;
  case kSend:
  case kRecv:
    return 7;
  case kOffload:
  case kReload:
  case kAdd:
    return 6;
  case kCopy:
    return 5;
  case kAllReduce:
  case kSumShards:
  case kBroadcast:
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
  return operand.kind == KernelOperand::Kind::Buffer
             ? kernel.buffers[operand.index].type
             : value.getTensorType();
}

static void addOperand(KernelPlan &plan, KernelOperand operand,
                       const RoleValue &value, bool isResult) {
  using Kind = KernelOperand::Kind;
  if (operand.kind == Kind::Microbatch || operand.kind == Kind::Slice ||
      operand.kind == Kind::Step || operand.kind == Kind::Shard)
    return;
  auto *found = llvm::find_if(plan.arguments, [&](KernelArgument &argument) {
    return argument.operand.kind == operand.kind &&
           argument.operand.index == operand.index;
  });
  if (found == plan.arguments.end()) {
    plan.arguments.push_back(
        {operand, typeOfPlace(*plan.kernel, operand, value)});
    found = &plan.arguments.back();
  }
  if (isResult)
    found->isWritten = true;
  if (operand.kind == Kind::Gradient || (!isResult && !found->isWritten))
    found->isRead = true;
}

/// Adds shared buffers of slices that no call refers to, and records that parts
/// of them are kept.
static void addShared(KernelPlan &plan) {
  for (auto [number, buffer] : llvm::enumerate(plan.kernel->buffers)) {
    if (!buffer.name.isShared())
      continue;
    auto place = static_cast<unsigned>(number);
    auto *found = llvm::find_if(plan.arguments, [&](KernelArgument &argument) {
      return argument.operand.kind == KernelOperand::Kind::Buffer &&
             argument.operand.index == place;
    });
    if (found == plan.arguments.end()) {
      KernelOperand operand{KernelOperand::Kind::Buffer, place};
      plan.arguments.push_back({operand, buffer.type});
      found = &plan.arguments.back();
    }
    found->isRead = true;
    found->isWritten = buffer.isWritten;
  }
}

static PersistentKind kindOf(KernelOperand::Kind kind) {
  switch (kind) {
  case KernelOperand::Kind::Param:
    return PersistentKind::Param;
  case KernelOperand::Kind::State:
    return PersistentKind::State;
  case KernelOperand::Kind::Gradient:
    return PersistentKind::Gradient;
  default:
    llvm_unreachable("not in the part of a stage");
  }
}

KernelNumbers::KernelNumbers(StepPlan &plan)
    : plan(plan), byStageAndPhase(plan.functions.stages.size() * kNumPhases) {}

/// Returns the properties that two kernels must share to become one function:
/// the functions that they call, the places of all operands, and the number of
/// buffers of their instructions.
static std::vector<int64_t> keyOf(const KernelPlan &plan) {
  std::vector<int64_t> key;
  key.push_back(plan.kernel->buffers.size());
  for (const KernelCall &call : plan.kernel->calls) {
    func::FuncOp function = call.function->op;
    key.push_back(reinterpret_cast<int64_t>(function.getOperation()));
    for (const auto &operands : {call.arguments, call.results})
      for (KernelOperand operand : operands) {
        key.push_back(static_cast<int64_t>(operand.kind));
        key.push_back(operand.index);
      }
  }
  for (KernelCopy copy : plan.kernel->copies)
    llvm::append_values(key, copy.residual, copy.earlier);
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
      &kernel, std::to_string(stage) + phaseLetter(kernel.phase), {}, {}};
  for (const KernelCall &call : kernel.calls) {
    for (auto [operand, value] :
         llvm::zip_equal(call.arguments, call.function->arguments))
      addOperand(added, operand, value, /*isResult=*/false);
    for (auto [operand, value] :
         llvm::zip_equal(call.results, call.function->results))
      addOperand(added, operand, value, /*isResult=*/true);
  }
  addShared(added);
  int64_t begin = layout.beginOf(stage);
  for (KernelArgument &argument : added.arguments)
    if (argument.operand.kind != KernelOperand::Kind::Buffer &&
        argument.operand.kind != KernelOperand::Kind::Loss)
      argument.offset = layout
                            .find(kindOf(argument.operand.kind), stage,
                                  argument.operand.index)
                            ->offset -
                        begin;
  auto [same, isFirst] =
      byKey.try_emplace(keyOf(added), kFirstKernel + plan.kernels.size());
  if (isFirst)
    plan.kernels.push_back(std::move(added));
  plan.kernels[same->second - kFirstKernel].cells.push_back(
      {stage, kernel.phase});
  return known = same->second;
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// Returns the workers that hold a stage of the tie on any path.
static std::vector<uint32_t> workersOf(const Tie &tie,
                                       const Placement &placement) {
  std::set<uint32_t> workers;
  for (const Path &path : placement.getPaths())
    for (auto [stage, worker] : llvm::enumerate(path.workers))
      if (tie.has(stage))
        workers.insert(worker);
  return {workers.begin(), workers.end()};
}

static std::vector<uint32_t> workersOf(const StageFunctions &functions,
                                       const Path &path) {
  std::set<uint32_t> workers;
  for (int64_t stage : functions.shards)
    workers.insert(path.workers[stage]);
  return {workers.begin(), workers.end()};
}

/// Numbers the groups: first by blocks, then the groups of ties, then two
/// groups for the shards of each path. Broadcasts and sums have separate
/// groups, because workers may start them in different orders. Members ascend.
static ReduceGroups collectGroups(const LoadedProgram &loaded,
                                  const StageFunctions &functions,
                                  std::vector<uint32_t> &members) {
  std::map<std::pair<int64_t, int64_t>, std::vector<uint32_t>> byBlocks;
  const Program &program = loaded.program;
  for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker)
    for (uint32_t i = program.rowBegins[worker];
         i != program.rowBegins[worker + 1]; ++i)
      if (program.instructions[i].is(InstructionKind::AllReduce)) {
        BlockSpan blocks = program.groups[program.instructions[i].peer].blocks;
        byBlocks[{blocks.begin, blocks.end}].push_back(worker);
      }
  ReduceGroups groups;
  uint32_t number = 0;
  auto add = [&](ArrayRef<uint32_t> workers) {
    Group group = {number++, static_cast<uint32_t>(members.size()),
                   static_cast<uint32_t>(workers.size())};
    llvm::append_range(members, workers);
    return group;
  };
  for (auto &[blocks, workers] : byBlocks)
    groups.byBlocks[blocks] = add(workers);
  for (const Tie &tie : functions.ties)
    groups.byTie.push_back(add(workersOf(tie, loaded.placement)));
  if (functions.shards.empty())
    return groups;
  for (const Path &path : loaded.placement.getPaths()) {
    std::vector<uint32_t> workers = workersOf(functions, path);
    Group broadcasts = add(workers);
    groups.byPath.push_back({broadcasts, add(workers)});
  }
  return groups;
}

/// Appends the sections of a worker to the table, after the entries that they
/// refer to. A row of words is an action with the waits, begins and ends that
/// follow it, so that equal rows do the same.
static void writeTable(StepPlan &plan, WorkerPlan &worker,
                       ArrayRef<uint32_t> words) {
  ActionTable &table = plan.table;
  table.usedOpcodes.resize(kFirstKernel + plan.kernels.size());
  std::vector<uint32_t> begins;
  begins.reserve(words.size() / 4);
  for (size_t i = 0; i < words.size(); i += plan.getNumWords(words[i])) {
    bool isBetween =
        words[i] == kWait || words[i] == kBegin || words[i] == kEnd;
    if (i == 0 || !isBetween)
      begins.push_back(i);
    table.usedOpcodes[words[i]] = true;
  }
  std::vector<WordSection> sections = writeSections(words, begins, table.words);
  worker.sectionsBegin = table.words.size();
  for (auto [position, length, times] : sections) {
    llvm::append_values(table.words, position, length, times);
    table.longestSection = std::max<size_t>(table.longestSection, length);
  }
  worker.sectionsEnd = table.words.size();
}

FailureOr<std::unique_ptr<StepPlan>>
pipesched::planSteps(Operation *owner, StageFunctions functions,
                     PlacedProgram placed, ProgramForm form) {
  auto plan = std::make_unique<StepPlan>();
  plan->functions = std::move(functions);
  plan->placed = std::move(placed);
  const LoadedProgram &loaded = plan->placed.loaded;
  plan->stageKernels = std::make_unique<StageKernels>(plan->functions);
  plan->layouts = layOutPersistent(plan->functions, loaded.placement);
  ReduceGroups groups = collectGroups(loaded, plan->functions, plan->members);
  plan->workers.resize(loaded.program.getNumWorkers());
  KernelNumbers kernels(*plan);
  // The words of one worker, kept outside of the loop to reuse their memory.
  std::vector<uint32_t> words;
  for (auto [number, worker] : llvm::enumerate(plan->workers)) {
    words.clear();
    WorkerPlanner planner(*plan, kernels, groups, owner, number, words);
    if (failed(planner.run()))
      return failure();
    if (form == ProgramForm::Table)
      writeTable(*plan, worker, words);
    else
      worker.words = words;
  }
  if (form == ProgramForm::Table && plan->table.words.empty())
    plan->table.words.push_back(0); // a constant needs at least one element
  return plan;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

/// Verifies that a worker has only instructions: other ops would be dropped
/// silently.
static LogicalResult verifyOnlyInstructions(exec::WorkerOp worker) {
  for (Operation &op : *worker.getBody())
    if (!isa<exec::ExecDialect>(op.getDialect()))
      return op.emitOpError() << "on worker " << worker.getWorker()
                              << " is not an exec instruction, so "
                                 "convert-exec-to-func cannot lower it";
  return success();
}

static void readInstruction(Operation *op, BufferAssignment &buffers) {
  if (auto offsets = op->getAttrOfType<DenseI64ArrayAttr>("buffers"))
    llvm::append_range(buffers.offsets, offsets.asArrayRef());
  if (auto send = dyn_cast<exec::SendOp>(op))
    buffers.tags.back() = send.getTag().value_or(-1);
  if (auto recv = dyn_cast<exec::RecvOp>(op))
    buffers.tags.back() = recv.getTag().value_or(-1);
}

/// Reads the attributes that exec-assign-buffers has put on the ops.
static FailureOr<BufferAssignment> readBuffers(exec::ProgramOp program,
                                               const LoadedProgram &loaded) {
  BufferAssignment buffers;
  buffers.uses.resize(program.getNumWorkers());
  for (exec::WorkerOp worker : program.getWorkerOps()) {
    if (failed(verifyOnlyInstructions(worker)))
      return failure();
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
    if (!isSecond)
      readInstruction(op, buffers);
    buffers.offsetBegins.push_back(buffers.offsets.size());
  }
  buffers.operandBegins = loaded.program.operandBegins;
  buffers.operands = loaded.program.operands;
  return std::move(buffers);
}

/// Returns "0F1 from worker 0".
static std::string describeMessage(const Program &program,
                                   const Instruction &recv) {
  return program.nameOf(recv.cell).str() + " from worker " +
         std::to_string(recv.peer);
}

/// Verifies the tag of a receive. A message arrives at the receive with its
/// tag; if several are open, at the first one.
static LogicalResult verifyTag(const LoadedProgram &loaded,
                               ArrayRef<int32_t> tags, uint32_t recv,
                               std::optional<uint32_t> before) {
  const Program &program = loaded.program;
  const Instruction &self = program.instructions[recv];
  uint32_t send = program.partner[recv];
  auto fail = [&](const Twine &text, uint32_t noted, StringRef note) {
    InFlightDiagnostic diagnostic = pipe::emitTableError(loaded.ops[recv])
                                    << text;
    diagnostic.attachNote(loaded.ops[noted]->getLoc()) << note;
    return diagnostic;
  };
  if (tags[recv] != tags[send])
    return fail("receives " + describeMessage(program, self) + " with tag " +
                    Twine(tags[recv]) + ", but it is sent with tag " +
                    Twine(tags[send]) + "; run exec-assign-buffers again",
                send, "sent here");
  if (before && program.partner[*before] > send)
    return fail("receives " + describeMessage(program, self) + " behind " +
                    program.nameOf(program.instructions[*before].cell).str() +
                    ", which has the same tag " + Twine(tags[recv]) +
                    " and is sent later; run exec-assign-buffers again",
                *before, "received here");
  return success();
}

/// Verifies that each message arrives at the receive that the program names.
static LogicalResult verifyTags(const LoadedProgram &loaded,
                                ArrayRef<int32_t> tags) {
  const Program &program = loaded.program;
  for (int64_t worker = 0; worker < program.getNumWorkers(); ++worker) {
    // The last receive of each peer and tag.
    llvm::DenseMap<std::pair<int64_t, int32_t>, uint32_t> last;
    for (uint32_t i = program.rowBegins[worker];
         i < program.rowBegins[worker + 1]; ++i) {
      if (!program.instructions[i].is(InstructionKind::Recv) || tags[i] < 0 ||
          tags[program.partner[i]] < 0)
        continue;
      auto [before, isFirst] =
          last.try_emplace({program.instructions[i].peer, tags[i]}, i);
      if (failed(verifyTag(loaded, tags, i,
                           isFirst ? std::nullopt
                                   : std::optional(before->second))))
        return failure();
      before->second = i;
    }
  }
  return success();
}

FailureOr<std::unique_ptr<StepPlan>>
pipesched::planSteps(exec::ProgramOp program, ProgramForm form) {
  FailureOr<StageFunctions> functions = loadStageFunctions(program);
  if (failed(functions))
    return failure();
  FailureOr<LoadedProgram> loaded = loadProgram(program);
  if (failed(loaded))
    return failure();
  FailureOr<BufferAssignment> buffers = readBuffers(program, *loaded);
  if (failed(buffers) || failed(verifyTags(*loaded, buffers->tags)))
    return failure();
  return planSteps(program, std::move(*functions),
                   {std::move(*loaded), std::move(*buffers)}, form);
}
