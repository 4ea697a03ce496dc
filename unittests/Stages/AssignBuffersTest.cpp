//===- AssignBuffersTest.cpp - Nothing is overwritten while it is read ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Walks programs with their buffers as the slowest machine would: a message or
// copy lasts until its worker waits for it. Whatever reads a tensor must find
// it, and nothing may write where a message or copy still reads or writes. The
// same walk catches programs with damaged buffers.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/AssignBuffers.h"
#include "BufferPrograms.h"
#include "PipeSched/Stages/Kernels.h"
#include "gmock/gmock.h"
#include <map>

using namespace mlir;
using namespace pipesched;
using pipe::StageRole;

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

namespace {
/// The memory of a worker: the tensor at each place, and transfers in progress.
class Memory {
public:
  struct Range {
    int64_t begin, end;
    bool overlaps(Range other) const {
      return begin < other.end && other.begin < end;
    }
  };

  /// Errors of the walk, empty if there are none.
  std::string errors;

  void write(Range range, const std::string &what, Value token) {
    for (const auto &[other, flight] : flights)
      if (flight.range.overlaps(range))
        errors += what + " overwrites " + flight.what + " under way\n";
    for (auto tensor = tensors.begin(); tensor != tensors.end();)
      tensor = tensor->first.overlaps(range) ? tensors.erase(tensor)
                                             : std::next(tensor);
    if (token)
      flights.push_back({token, {range, what, /*isWrite=*/true}});
    else
      tensors.emplace_back(range, what);
  }

  void read(Range range, const std::string &what, Value token) {
    auto holds = [&](const auto &tensor) {
      return tensor.first.begin == range.begin &&
             tensor.first.end == range.end && tensor.second == what;
    };
    if (llvm::none_of(tensors, holds))
      errors += what + " is not where it is read\n";
    if (token)
      flights.push_back({token, {range, what, /*isWrite=*/false}});
  }

  void wait(Value token) {
    llvm::erase_if(flights, [&](const auto &entry) {
      if (entry.first != token)
        return false;
      if (entry.second.isWrite)
        tensors.emplace_back(entry.second.range, entry.second.what);
      return true;
    });
  }

private:
  struct Flight {
    Range range;
    std::string what;
    bool isWrite;
  };
  std::vector<std::pair<Range, std::string>> tensors;
  std::vector<std::pair<Value, Flight>> flights;
};

/// Walks one worker. A tensor is named by its contents, not by its place: the
/// input of stage 2 and the output of stage 1 are both "activation 2".
class Walk {
public:
  Walk(const StageFunctions &functions, const StageKernels &kernels,
       exec::WorkerOp worker)
      : functions(functions), kernels(kernels), worker(worker) {}

  std::string run() {
    for (auto op : worker.getBody()->getOps<exec::InstructionOpInterface>())
      step(op);
    return arena.errors + host.errors;
  }

private:
  std::string nameOf(Cell cell, ActivationName name) const {
    int64_t stage = cell.getStage();
    std::string text;
    switch (name.role) {
    case StageRole::Input:
      text = "activation " + std::to_string(stage);
      break;
    case StageRole::Output:
      text = "activation " + std::to_string(stage + 1);
      break;
    case StageRole::InputGradient:
      text = "gradient " + std::to_string(stage);
      break;
    case StageRole::OutputGradient:
      text = "gradient " + std::to_string(stage + 1);
      break;
    default:
      text = "tensor " + std::to_string(stage) + "." +
             std::to_string(static_cast<int>(name.role)) + "." +
             std::to_string(name.index);
    }
    return text + " of " + std::to_string(cell.getUnit());
  }
  Memory::Range rangeOf(int64_t offset, RankedTensorType type) const {
    EXPECT_EQ(offset % 64, 0);
    int64_t end =
        offset + type.getNumElements() * type.getElementTypeBitWidth() / 8;
    EXPECT_LE(end, worker.getArena().value_or(0));
    return {offset, end};
  }
  void waitFor(Value token) {
    arena.wait(token);
    host.wait(token);
  }
  void step(exec::InstructionOpInterface op);
  void compute(Cell cell, ArrayRef<int64_t> &offsets);
  void message(exec::InstructionOpInterface op, int64_t offset);
  void copy(exec::InstructionOpInterface op, ArrayRef<int64_t> offsets);

  const StageFunctions &functions;
  const StageKernels &kernels;
  mutable exec::WorkerOp worker; // getters are not const
  Memory arena, host;
  std::map<std::string, std::vector<std::pair<int64_t, std::string>>> moved;
  SmallVector<Value> joins;
};
} // namespace

void Walk::compute(Cell cell, ArrayRef<int64_t> &offsets) {
  if (cell.isPerPath())
    return;
  const StageKernel &kernel = *kernels.find(cell.getStage(), cell.getPhase());
  for (auto [buffer, offset] : llvm::zip(kernel.buffers, offsets))
    if (buffer.isRead)
      arena.read(rangeOf(offset, buffer.type), nameOf(cell, buffer.name), {});
  for (auto [buffer, offset] : llvm::zip(kernel.buffers, offsets))
    if (buffer.isWritten)
      arena.write(rangeOf(offset, buffer.type), nameOf(cell, buffer.name), {});
  // Results of one kernel must not overlap each other: all are still there.
  for (auto [buffer, offset] : llvm::zip(kernel.buffers, offsets))
    arena.read(rangeOf(offset, buffer.type), nameOf(cell, buffer.name), {});
  offsets = offsets.drop_front(kernel.buffers.size());
}

void Walk::message(exec::InstructionOpInterface op, int64_t offset) {
  Cell cell = *op.getInstructionCell();
  ActivationName name{cell.is(Phase::Forward) ? StageRole::Output
                                              : StageRole::InputGradient};
  Memory::Range range = rangeOf(
      offset, typeOf(functions, functions.stages[cell.getStage()], name));
  if (op.getInstructionKind() == InstructionKind::Send)
    arena.read(range, nameOf(cell, name), op.getDone());
  else
    arena.write(range, nameOf(cell, name), op.getDone());
}

/// The host keeps the tensor of the arena under the name that it had there.
void Walk::copy(exec::InstructionOpInterface op, ArrayRef<int64_t> offsets) {
  Cell cell = *op.getInstructionCell();
  const Stage &stage = functions.stages[cell.getStage()];
  bool isOffload = op.getInstructionKind() == InstructionKind::Offload;
  SmallVector<ActivationName> names{{StageRole::Input}, {StageRole::Output}};
  for (unsigned i = 0; i < stage.residuals.size(); ++i)
    names.push_back({StageRole::Residual, i});
  for (; !offsets.empty(); offsets = offsets.drop_front(3)) {
    Memory::Range there{offsets[0], offsets[0] + offsets[2]};
    Memory::Range inHost{offsets[1], offsets[1] + offsets[2]};
    EXPECT_LE(inHost.end, worker.getHost().value_or(0));
    // Which tensor it is: the one that is in the source.
    bool isFound = false;
    for (ActivationName name : names) {
      std::string text = nameOf(cell, name);
      Memory probe = isOffload ? arena : host;
      probe.errors.clear();
      probe.read(isOffload ? there : inHost, text, {});
      if (!probe.errors.empty())
        continue;
      isFound = true;
      (isOffload ? arena : host)
          .read(isOffload ? there : inHost, text, op.getDone());
      (isOffload ? host : arena)
          .write(isOffload ? inHost : there, text, op.getDone());
      break;
    }
    if (!isFound)
      arena.errors += "a copy moves what is not there\n";
  }
}

void Walk::step(exec::InstructionOpInterface op) {
  InstructionKind kind = op.getInstructionKind();
  if (kind == InstructionKind::Wait) {
    llvm::append_range(joins, op.getWaits());
    return;
  }
  for (Value token : op.getWaits())
    waitFor(token);
  if (kind == InstructionKind::Compute || kind == InstructionKind::Reload) {
    for (Value token : joins)
      waitFor(token);
    joins.clear();
  }
  auto buffers = op->getAttrOfType<DenseI64ArrayAttr>("buffers");
  ArrayRef<int64_t> offsets =
      buffers ? buffers.asArrayRef() : ArrayRef<int64_t>();
  switch (traitsOf(kind).role) {
  case InstructionRole::Compute:
    compute(*op.getInstructionCell(), offsets);
    if (std::optional<Cell> second = op.getOverlappedCell())
      compute(*second, offsets);
    return;
  case InstructionRole::Message:
    return message(op, offsets.front());
  case InstructionRole::Copy:
    return copy(op, offsets);
  default:
    return;
  }
}

//===----------------------------------------------------------------------===//
// Programs to walk
//===----------------------------------------------------------------------===//

namespace {
using Case = BufferCase;

class AssignBuffers : public BufferPrograms {
protected:
  std::string walk(ModuleOp module);
};
} // namespace

std::string AssignBuffers::walk(ModuleOp module) {
  exec::ProgramOp program = *module.getOps<exec::ProgramOp>().begin();
  FailureOr<StageFunctions> functions = loadStageFunctions(program);
  EXPECT_TRUE(succeeded(functions)) << errors;
  StageKernels kernels(*functions);
  std::string found;
  for (exec::WorkerOp worker : program.getWorkerOps())
    found += Walk(*functions, kernels, worker).run();
  return found;
}

TEST_P(AssignBuffers, KeepsWhatIsRead) {
  for (const char *assign :
       {"exec-assign-buffers", "exec-assign-buffers{in-flight=1}",
        "exec-assign-buffers{in-flight=8 sends=buffered}"}) {
    OwningOpRef<ModuleOp> module = build(GetParam(), assign);
    EXPECT_EQ(walk(*module), "") << assign;
  }
}

static const Case kCases[] = {
    {"4", "8", 4, "pipe-schedule-gpipe"},
    {"4", "8", 4, "pipe-schedule-1f1b"},
    {"1", "3", 1, "pipe-schedule-1f1b"},
    {"4", "8", 4, "pipe-schedule-1f1b,pipe-split-backward"},
    {"4", "8", 4, "pipe-schedule-eager-1f1b"},
    {"4", "8", 8, "pipe-schedule-interleaved-1f1b{chunks=2}"},
    {"4", "8", 8, "pipe-schedule-interleaved-zb{chunks=2}"},
    {"4", "8", 8, "pipe-schedule-looped-bfs{chunks=2}"},
    {"4", "12", 4, "pipe-schedule-zb-h1"},
    {"4", "12", 4, "pipe-schedule-zb-h2"},
    {"4", "8", 8, "pipe-schedule-zb-v"},
    {"4", "8", 8, "pipe-schedule-v-half"},
    {"4", "8", 8, "pipe-schedule-v-min"},
    {"4", "8", 16, "pipe-schedule-hanayo{waves=2}"},
    {"4", "16", 4, "pipe-schedule-chimera,pipe-add-optimizer"},
    {"4", "16", 4, "pipe-schedule-dualpipe,pipe-add-optimizer"},
    {"4", "16", 8, "pipe-schedule-dualpipe-v"},
    {"8", "32", 8, "pipe-schedule-1f1b,pipe-add-recompute"},
    {"4", "16", 4, "pipe-schedule-1f1b,pipe-add-offload"},
    {"4", "16", 4, "pipe-schedule-gpipe,pipe-add-offload"},
    {"4", "16", 4, "pipe-schedule-zb-h1,pipe-add-offload"},
    {"4", "8", 4, "pipe-schedule-greedy"},
};

INSTANTIATE_TEST_SUITE_P(Schedules, AssignBuffers, testing::ValuesIn(kCases),
                         nameOfCase);

//===----------------------------------------------------------------------===//
// Damage
//===----------------------------------------------------------------------===//

namespace {
using DamagedBuffers = AssignBuffers;
} // namespace

/// Each wait that the pass added is needed: without it the walk fails.
TEST_F(DamagedBuffers, EachAddedWaitIsNeeded) {
  Case given{"4", "8", 4, "pipe-schedule-1f1b"};
  OwningOpRef<ModuleOp> module = build(given, "exec-assign-buffers");
  OwningOpRef<ModuleOp> plain = build(given, "exec-verify");
  int64_t numAdded = 0;
  auto collect = [](ModuleOp module) {
    std::vector<Operation *> ops;
    module.walk([&](exec::InstructionOpInterface op) { ops.push_back(op); });
    return ops;
  };
  for (auto [op, before] : llvm::zip(collect(*module), collect(*plain)))
    while (op->getNumOperands() > before->getNumOperands()) {
      ++numAdded;
      Value token = op->getOperands().back();
      op->eraseOperand(op->getNumOperands() - 1);
      EXPECT_THAT(walk(*module), testing::HasSubstr("under way"));
      // After the walk the instruction continues without it: one at a time.
      op->insertOperands(op->getNumOperands(), token);
      break;
    }
  EXPECT_GT(numAdded, 0);
}

/// Both ends of a message have one tag, and no two messages of a channel that
/// are in flight at once have the same.
TEST_P(AssignBuffers, TagsTellMessagesApart) {
  OwningOpRef<ModuleOp> module = build(GetParam());
  std::map<std::pair<int64_t, uint64_t>, int64_t> sent, received;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> channels;
  module->walk([&](exec::WorkerOp worker) {
    for (auto send : worker.getBody()->getOps<exec::SendOp>()) {
      sent[{send.getPeer(), send.getCell().getRaw()}] = *send.getTag();
      channels[{worker.getWorker(), send.getPeer()}].push_back(*send.getTag());
    }
    for (auto recv : worker.getBody()->getOps<exec::RecvOp>())
      received[{worker.getWorker(), recv.getCell().getRaw()}] = *recv.getTag();
  });
  EXPECT_EQ(sent, received);
  for (auto &[channel, tags] : channels)
    for (auto [number, tag] : llvm::enumerate(tags))
      EXPECT_EQ(tag, int64_t(number)) << "dense, in the order of the sends";
}

/// Two tensors of one place.
TEST_F(DamagedBuffers, SharedPlacesAreFound) {
  OwningOpRef<ModuleOp> module =
      build({"4", "8", 4, "pipe-schedule-1f1b"}, "exec-assign-buffers");
  exec::ProgramOp program = *module->getOps<exec::ProgramOp>().begin();
  exec::WorkerOp worker = *program.getWorkerOps().begin();
  for (auto compute : worker.getBody()->getOps<exec::ComputeOp>()) {
    SmallVector<int64_t> offsets(*compute.getBuffers());
    if (offsets.size() < 2)
      continue;
    offsets[1] = offsets[0];
    compute.setBuffers(offsets);
    break;
  }
  EXPECT_NE(walk(*module), "");
}
