//===- Loopback.cpp - Runs compiled schedules on threads ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Steps run one by one, so that the losses can be read between them.
//
//===----------------------------------------------------------------------===//

#include "Backend.h"
#include "PipeSched-rt/World.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/WithColor.h"
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unistd.h>

using namespace pipesched;
using namespace pipesched::run;
using llvm::StringRef;

namespace {

class World {
public:
  World(PipeschedSizeFunction size, const Options &options) {
    PipeschedWorldOptions given = {options.messages == Messages::Buffered
                                       ? PIPESCHED_RT_BUFFERED
                                       : PIPESCHED_RT_RENDEZVOUS,
                                   options.blocking, /*log=*/1};
    world = pipesched_rt_world_create(size, &given);
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;
  ~World() { pipesched_rt_world_destroy(world); }

  llvm::Error error() const {
    if (!world)
      return makeError("no memory for the workers");
    StringRef text = pipesched_rt_world_error(world);
    return text.empty() ? llvm::Error::success() : makeError(text);
  }
  llvm::Error run(PipeschedStepFunction step, int64_t number) {
    pipesched_rt_world_run(world, step, number, 1);
    return error();
  }
  /// Ends a run of another thread.
  void stop(const std::string &why) {
    pipesched_rt_world_stop(world, why.c_str());
  }
  llvm::Error pace(int64_t worker, llvm::ArrayRef<int64_t> ns) {
    return pipesched_rt_world_pace(world, worker, ns.data()) == PIPESCHED_RT_OK
               ? llvm::Error::success()
               : makeError("no memory for the paces of instructions");
  }
  char *blockOf(int64_t worker) {
    return static_cast<char *>(
        pipesched_rt_world_block(world, worker, PIPESCHED_RT_PERSISTENT));
  }
  /// Appends the entries since the last call; linear in their number.
  void extendLog(int64_t worker, WorkerLog &log) const;

private:
  PipeschedWorld *world;
};

} // namespace

void World::extendLog(int64_t worker, WorkerLog &log) const {
  int64_t steps = 0;
  const int64_t *instructions =
      pipesched_rt_world_log(world, worker, &steps, &log.numInstructions);
  const int64_t *whole = pipesched_rt_world_steps(world, worker, &steps);
  auto extend = [](const int64_t *from, int64_t count, std::vector<Span> &to) {
    for (int64_t i = to.size(); i < count; ++i)
      to.push_back({from[2 * i], from[2 * i + 1]});
  };
  extend(instructions, steps * log.numInstructions, log.instructions);
  extend(whole, steps, log.steps);
}

/// Returns " (send 0F4 to 1)" for the instruction with this number in the log
/// of a worker, or "".
static std::string describeInstruction(const PreparedProgram &program,
                                       int64_t worker, int64_t number) {
  const Program &rows = program.loaded.program;
  mlir::Operation *last = nullptr;
  for (uint32_t i = rows.rowBegins[worker]; i < rows.rowBegins[worker + 1];
       ++i) {
    const Instruction &instruction = rows.instructions[i];
    // Both halves of a pair are one op, and waits have no number.
    if (instruction.is(InstructionKind::Wait) || program.loaded.ops[i] == last)
      continue;
    last = program.loaded.ops[i];
    if (number-- > 0)
      continue;
    std::string text = " (";
    if (!instruction.is(InstructionKind::Compute))
      text += (enumName(instruction.kind) + " ").str();
    text += rows.nameOf(instruction.cell).str();
    if (instruction.is(InstructionRole::Message))
      text += (instruction.is(InstructionKind::Send) ? " to " : " from ") +
              std::to_string(instruction.peer);
    return text + ")";
  }
  return "";
}

/// Adds the names of the instructions to a text of the runtime:
///
///   worker 0, instruction 11: waits ..
///   worker 0, instruction 11 (send 0F4 to 1): waits ..
static std::string nameInstructions(const PreparedProgram &program,
                                    StringRef text) {
  const Program &rows = program.loaded.program;
  llvm::Regex place("worker ([0-9]+), instruction ([0-9]+)");
  llvm::SmallVector<StringRef> parts;
  std::string result;
  while (place.match(text, &parts)) {
    size_t end = parts[0].end() - text.begin();
    result += text.take_front(end);
    int64_t worker = 0, number = 0;
    bool isNumber = !parts[1].getAsInteger(10, worker) &&
                    !parts[2].getAsInteger(10, number);
    if (isNumber && worker < rows.getNumWorkers())
      result += describeInstruction(program, worker, number);
    text = text.drop_front(end);
  }
  return result + text.str();
}

/// The blocks of the workers at the start.
static std::vector<Memory> startOf(const Training &training) {
  std::vector<Memory> blocks;
  for (const PersistentLayout &worker : training.layouts)
    blocks.emplace_back(worker.bytes);
  scatter(training.model, training.start, training.layouts, blocks,
          {PersistentKind::Param});
  return blocks;
}

static void printStep(int64_t step, double loss, Span span) {
  llvm::outs() << llvm::format("step %lld: loss %.6g, %.3f ms\n",
                               static_cast<long long>(step), loss,
                               double(span.end - span.begin) / 1e6);
  llvm::outs().flush();
}

namespace {
/// Ends the run, and this process if a worker keeps computing, because a thread
/// cannot be ended from outside.
class Watchdog {
public:
  Watchdog(World &world, int64_t seconds) {
    if (seconds > 0)
      thread = std::thread([this, &world, seconds] { watch(world, seconds); });
  }
  ~Watchdog() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      hasEnded = true;
    }
    ended.notify_all();
    if (thread.joinable())
      thread.join();
  }

private:
  bool waitFor(int64_t seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    return ended.wait_for(lock, std::chrono::seconds(seconds),
                          [this] { return hasEnded; });
  }
  void watch(World &world, int64_t seconds) {
    constexpr int64_t kPatience = 1;
    if (waitFor(seconds))
      return;
    world.stop("the run has not ended after " + std::to_string(seconds) +
               " s (--timeout)");
    if (waitFor(kPatience))
      return;
    llvm::WithColor::error() << llvm::toString(world.error()) << "\n";
    llvm::sys::RunInterruptHandlers(); // removes incomplete files
    _exit(1);
  }

  std::mutex mutex;
  std::condition_variable ended;
  bool hasEnded = false;
  std::thread thread;
};
} // namespace

static const NativeSymbol kRuntime[] = {
    {"pipesched_rt_send", reinterpret_cast<void *>(&pipesched_rt_send)},
    {"pipesched_rt_recv", reinterpret_cast<void *>(&pipesched_rt_recv)},
    {"pipesched_rt_offload", reinterpret_cast<void *>(&pipesched_rt_offload)},
    {"pipesched_rt_reload", reinterpret_cast<void *>(&pipesched_rt_reload)},
    {"pipesched_rt_all_reduce",
     reinterpret_cast<void *>(&pipesched_rt_all_reduce)},
    {"pipesched_rt_broadcast",
     reinterpret_cast<void *>(&pipesched_rt_broadcast)},
    {"pipesched_rt_add", reinterpret_cast<void *>(&pipesched_rt_add)},
    {"pipesched_rt_matmul", reinterpret_cast<void *>(&pipesched_rt_matmul)},
    {"pipesched_rt_wait", reinterpret_cast<void *>(&pipesched_rt_wait)},
    {"pipesched_rt_fail", reinterpret_cast<void *>(&pipesched_rt_fail)},
    {"pipesched_rt_fail_index",
     reinterpret_cast<void *>(&pipesched_rt_fail_index)},
    {"pipesched_rt_fail_status",
     reinterpret_cast<void *>(&pipesched_rt_fail_status)},
    {"pipesched_rt_begin", reinterpret_cast<void *>(&pipesched_rt_begin)},
    {"pipesched_rt_end", reinterpret_cast<void *>(&pipesched_rt_end)},
};

llvm::Expected<RunResult> run::runLoopback(const PreparedProgram &program,
                                           const llvm::MemoryBuffer &object,
                                           const Training &training,
                                           const Options &options) {
  llvm::Expected<LoadedObject> code =
      LoadedObject::load(object, kRuntime, program.libraries);
  if (!code)
    return code.takeError();
  StringRef name = program.getName();
  auto step = code->find<std::remove_pointer_t<PipeschedStepFunction>>(
      (name + "_step").str());
  if (!step)
    return step.takeError();
  auto size = code->find<std::remove_pointer_t<PipeschedSizeFunction>>(
      (name + "_size").str());
  if (!size)
    return size.takeError();
  World world(*size, options);
  if (llvm::Error error = world.error())
    return std::move(error);
  std::vector<Memory> blocks = startOf(training);
  for (auto [worker, block] : llvm::enumerate(blocks))
    std::copy_n(block.data(), block.size(), world.blockOf(worker));
  for (auto [worker, ns] : llvm::enumerate(training.paces))
    if (llvm::Error error = world.pace(worker, ns))
      return std::move(error);
  RunResult result;
  result.logs.resize(blocks.size());
  Watchdog watchdog(world, options.timeout);
  for (int64_t number = 0; number < training.steps; ++number) {
    if (llvm::Error error = world.run(*step, number))
      return makeError(
          nameInstructions(program, llvm::toString(std::move(error))));
    for (auto [worker, block] : llvm::enumerate(blocks)) {
      std::copy_n(world.blockOf(worker), block.size(), block.data());
      world.extendLog(worker, result.logs[worker]);
    }
    printStep(number, lossOf(program, blocks), result.spanOf(number));
  }
  result.blocks = std::move(blocks);
  return result;
}
