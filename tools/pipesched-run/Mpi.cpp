//===- Mpi.cpp - Runs compiled schedules under MPI ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All files are in a temporary folder, which is removed at the end:
//
//   main.c schedule.o libpipesched_rt_mpi.a -> program
//   mpirun program -> after.<worker>, log.<worker>, and the losses
//
//===----------------------------------------------------------------------===//

#include "Backend.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableText.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace pipesched;
using namespace pipesched::run;
using llvm::StringRef;
using llvm::Twine;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

static llvm::Expected<std::string> findProgram(StringRef option, StringRef name,
                                               StringRef advice) {
  llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(name);
  if (found)
    return *found;
  return makeError("--" + option + ": '" + name + "' is not found; " + advice);
}

static constexpr char kMpiAdvice[] =
    "install an MPI (Debian: mpich, or openmpi-bin and libopenmpi-dev), name "
    "its program here, or take --backend=loopback";

/// The process group of the running program, or 0.
static std::atomic<pid_t> runningGroup = 0;

/// The end of a pipe from which a shell reads the numbers of these groups, or
/// -1.
static int guardPipe = -1;

static void setRunningGroup(pid_t leader) {
  runningGroup = leader;
  if (guardPipe >= 0)
    dprintf(guardPipe, leader ? "%d\n" : "\n", static_cast<int>(leader));
}

static std::atomic<bool> isInterrupted = false;

/// Ends a program and all processes that it has started, such as the passes of
/// a compiler or the ranks of a launcher, which ends them when it receives a
/// signal. Also signals its own number, because it may not lead its group yet.
static void endGroup(pid_t leader) {
  kill(-leader, SIGTERM);
  kill(leader, SIGTERM);
}

/// Called by a signal that would end this process. The process then continues
/// and fails in the usual way. The next signal ends it.
static void interrupt() {
  isInterrupted = true;
  if (pid_t leader = runningGroup)
    endGroup(leader);
}

static llvm::Error checkInterrupted() {
  return isInterrupted ? makeError("interrupted by a signal")
                       : llvm::Error::success();
}

/// Returns the ranks on this machine that are stopped, by signals or a
/// debugger: "2".
static std::string stoppedRanks(StringRef program) {
  std::string stopped;
  std::error_code code;
  for (fs::directory_iterator entry("/proc", code), end; entry != end && !code;
       entry.increment(code)) {
    llvm::SmallString<256> file;
    if (fs::real_path(entry->path() + "/exe", file) || file != program)
      continue;
    auto state = llvm::MemoryBuffer::getFileAsStream(entry->path() + "/stat");
    auto environment =
        llvm::MemoryBuffer::getFileAsStream(entry->path() + "/environ");
    if (!state || !environment ||
        !(*state)
             ->getBuffer()
             .rsplit(')')
             .second.ltrim()
             .starts_with_insensitive("t"))
      continue;
    for (StringRef word : llvm::split((*environment)->getBuffer(), '\0'))
      if (word.consume_front("PMI_RANK=") ||
          word.consume_front("OMPI_COMM_WORLD_RANK="))
        stopped += (stopped.empty() ? "" : ", ") + word.str();
  }
  return stopped;
}

namespace {
/// Ends a program and all processes that it has started when its time is over.
class Deadline {
public:
  Deadline(pid_t leader, int64_t seconds, StringRef folder) {
    if (seconds > 0)
      thread = std::thread([this, leader, seconds, folder] {
        constexpr int64_t kPatience = 2; // for a launcher to remove its files
        if (waitFor(seconds))
          return;
        hasPassed = true;
        stopped = stoppedRanks((folder + "/program").str());
        endGroup(leader);
        waitFor(kPatience);
        kill(-leader, SIGKILL); // also ends stopped processes
      });
  }
  /// Joins the thread. Returns whether the time was over.
  bool end() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      hasEnded = true;
    }
    ended.notify_all();
    if (thread.joinable())
      thread.join();
    return hasPassed;
  }

  std::string stopped; ///< the ranks that were stopped at the timeout

private:
  bool waitFor(int64_t seconds) {
    std::unique_lock<std::mutex> lock(mutex);
    return ended.wait_for(lock, std::chrono::seconds(seconds),
                          [this] { return hasEnded; });
  }

  std::mutex mutex;
  std::condition_variable ended;
  bool hasEnded = false, hasPassed = false;
  std::thread thread;
};
} // namespace

/// Describes why a run was ended after its time, with the workers without a
/// result; each writes its result when it ends.
static std::string describeTimeout(int64_t seconds, StringRef folder,
                                   size_t numWorkers, StringRef stopped) {
  std::string missing;
  for (size_t worker = 0; worker < numWorkers; ++worker)
    if (!fs::exists(folder + "/after." + Twine(worker)))
      missing += (missing.empty() ? "" : ", ") + std::to_string(worker);
  std::string text = "the run has not ended after " + std::to_string(seconds) +
                     " s (--timeout); no result from rank " + missing;
  if (!stopped.empty())
    text += "; stopped: rank " + stopped.str();
  return text;
}

/// Runs a program in a separate process group, and returns its standard output.
/// Errors contain all its output. `seconds` limits its time; 0: no limit.
static llvm::Expected<std::string> execute(llvm::ArrayRef<std::string> command,
                                           StringRef folder,
                                           int64_t seconds = 0,
                                           size_t numWorkers = 0) {
  if (llvm::Error error = checkInterrupted())
    return std::move(error);
  std::string output = (folder + "/output").str();
  std::string errors = (folder + "/errors").str();
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(output),
                                          StringRef(errors)};
  std::vector<StringRef> arguments(command.begin(), command.end());
  llvm::outs().flush();
  std::string message;
  std::string late;
  llvm::sys::ProcessInfo process = llvm::sys::ExecuteNoWait(
      arguments.front(), arguments, std::nullopt, redirects, /*MemoryLimit=*/0,
      &message, /*ExecutionFailed=*/nullptr, /*AffinityMask=*/nullptr,
      /*DetachProcess=*/true);
  if (process.Pid != llvm::sys::ProcessInfo::InvalidPid) {
    setRunningGroup(process.Pid);
    if (isInterrupted) // before the number was known
      endGroup(process.Pid);
    Deadline deadline(process.Pid, seconds, folder);
    process = llvm::sys::Wait(process, std::nullopt, &message);
    if (deadline.end())
      late = describeTimeout(seconds, folder, numWorkers, deadline.stopped);
    setRunningGroup(0);
  } else {
    process.ReturnCode = -1;
  }
  if (llvm::Error error = checkInterrupted())
    return std::move(error);
  auto printed = [](StringRef file) {
    auto text = llvm::MemoryBuffer::getFile(file);
    return text ? (*text)->getBuffer().str() : std::string();
  };
  if (process.ReturnCode == 0)
    return printed(output);
  if (!late.empty())
    return makeError(late + "\n" +
                     StringRef(printed(output) + printed(errors)).rtrim());
  std::string text = "'" + llvm::join(command, " ") + "' failed";
  if (!message.empty())
    text += ": " + message;
  else
    text += " with status " + std::to_string(process.ReturnCode);
  text += "\n" + printed(output) + printed(errors);
  return makeError(StringRef(text).rtrim());
}

/// Returns the folder with include/, lib/ and build-mpi.sh: next to the tool,
/// in an installation or a build.
static llvm::Expected<std::string> findRuntime(const Options &options) {
  static int anchor; // in the executable
  llvm::SmallString<128> folder(StringRef(options.runtime.getValue()));
  if (folder.empty()) {
    folder = path::parent_path(
        path::parent_path(fs::getMainExecutable(nullptr, &anchor)));
    path::append(folder, "share", "PipeSched", "runtime");
  }
  if (fs::exists(folder + "/build-mpi.sh"))
    return folder.str().str();
  return makeError("the sources of the runtime are not in '" + folder +
                   "'; name their folder by --runtime=<folder>");
}

//===----------------------------------------------------------------------===//
// Linking
//===----------------------------------------------------------------------===//

/// The source of every program. It uses aliases for the schedule's functions,
/// because the name of a schedule may be any text, even C code.
static constexpr char kMain[] = R"(#include "PipeSched-rt/Runtime.h"
int32_t pipesched_schedule_step(int32_t, void *, void *, void *, void *,
                                int64_t);
int64_t pipesched_schedule_size(int32_t, int32_t);
const char *pipesched_schedule_layout(void);
extern const PipeschedTraining pipesched_schedule_training;
int main(int argc, char **argv) {
  return pipesched_rt_train(argc, argv, pipesched_schedule_step,
                            pipesched_schedule_size, pipesched_schedule_layout,
                            &pipesched_schedule_training);
}
)";

NativeEntries run::entriesOf(const PreparedProgram &program,
                             const Training &training) {
  NativeEntries entries{{}, training, "pipesched_schedule_training"};
  for (StringRef function : {"_step", "_size", "_layout"})
    entries.aliases.push_back({("pipesched_schedule" + function).str(),
                               (program.getName() + function).str()});
  return entries;
}

/// Returns the sources of the loopback runtime to compile with the program; the
/// MPI runtime has a script.
static std::vector<std::string> loopbackSources(StringRef runtime) {
  std::vector<std::string> files;
  for (StringRef name :
       {"Blas", "Copies", "Deadlock", "Files", "Log", "Loopback",
        "LoopbackMain", "Options", "Reduce", "Training", "Worker", "World"})
    files.push_back((runtime + "/lib/" + name + ".c").str());
  return files;
}

/// Returns the arguments of the linker for these files. Shared libraries are
/// found at their present place when the program starts.
static std::vector<std::string>
libraryArguments(llvm::ArrayRef<ExternLibrary> libraries) {
  std::vector<std::string> arguments;
  for (const ExternLibrary &library : libraries) {
    arguments.push_back(library.path);
    if (library.kind == ExternLibrary::Kind::Shared)
      llvm::append_values(arguments, std::string("-Xlinker"),
                          std::string("-rpath"), std::string("-Xlinker"),
                          path::parent_path(library.path).str());
  }
  return arguments;
}

static llvm::Error link(const llvm::MemoryBuffer &object,
                        llvm::ArrayRef<ExternLibrary> libraries,
                        const Options &options, StringRef folder,
                        StringRef output) {
  bool isMpi = options.backend == Backend::Mpi;
  llvm::Expected<std::string> runtime = findRuntime(options);
  if (!runtime)
    return runtime.takeError();
  llvm::Expected<std::string> compiler =
      isMpi ? findProgram("mpicc", options.mpicc, kMpiAdvice)
            : findProgram("cc", options.cc, "name a C compiler");
  if (!compiler)
    return compiler.takeError();
  auto in = [&](const Twine &name) { return (folder + "/" + name).str(); };
  if (llvm::Error error = writeWholeFile(in("schedule.o"), object.getBuffer()))
    return error;
  if (llvm::Error error = writeWholeFile(in("main.c"), kMain))
    return error;
  std::vector<std::string> command = {
      *compiler,    "-std=gnu11",    "-O2", "-I" + *runtime + "/include",
      in("main.c"), in("schedule.o")};
  llvm::append_range(command, libraryArguments(libraries));
  if (isMpi) {
    auto built = execute({"/bin/sh", *runtime + "/build-mpi.sh", *compiler,
                          in("libpipesched_rt_mpi.a")},
                         folder);
    if (!built)
      return built.takeError();
    command.push_back(in("libpipesched_rt_mpi.a"));
  } else {
    llvm::append_range(command, loopbackSources(*runtime));
  }
  for (StringRef last : {"-lm", "-lpthread", "-ldl", "-o"})
    command.push_back(last.str());
  command.push_back(output.str());
  return execute(command, folder).takeError();
}

namespace {
/// A folder that exists as long as this object; it is also removed if a signal
/// ends the process.
struct TemporaryFolder {
  llvm::SmallString<128> name;

  /// Starts a shell that notices through a pipe when this process ends, even by
  /// SIGKILL. It then ends the running program and removes the folder, which
  /// would otherwise remain after SIGKILL.
  void guard() {
    static constexpr char kGuard[] = R"(
while read -r leader; do group=$leader; done
[ -z "$group" ] || {
  kill -s TERM -- -"$group"
  sleep 2
  kill -s KILL -- -"$group"
} 2>/dev/null
rm -rf "$0")";
    std::string pipe = (name + "/alive").str();
    if (mkfifo(pipe.c_str(), 0600))
      return;
    // Opened for both, so that it opens before the shell does.
    guardPipe = open(pipe.c_str(), O_RDWR | O_CLOEXEC);
    std::optional<StringRef> redirects[] = {StringRef(pipe), StringRef(""),
                                            StringRef("")};
    if (guardPipe >= 0)
      llvm::sys::ExecuteNoWait("/bin/sh", {"sh", "-c", kGuard, name.str()},
                               std::nullopt, redirects, /*MemoryLimit=*/0,
                               /*ErrMsg=*/nullptr, /*ExecutionFailed=*/nullptr,
                               /*AffinityMask=*/nullptr,
                               /*DetachProcess=*/true);
  }

  static llvm::Expected<std::unique_ptr<TemporaryFolder>> make() {
    auto folder = std::make_unique<TemporaryFolder>();
    llvm::sys::SetInterruptFunction(interrupt);
    if (std::error_code code =
            fs::createUniqueDirectory("pipesched-run", folder->name))
      return makeError("cannot make a folder for temporary files: " +
                       code.message());
    folder->guard();
    return folder;
  }
  ~TemporaryFolder() {
    llvm::sys::SetInterruptFunction(nullptr);
    if (!name.empty())
      fs::remove_directories(name);
    if (guardPipe >= 0)
      close(guardPipe);
    guardPipe = -1;
  }
};
} // namespace

llvm::Error run::linkExecutable(const llvm::MemoryBuffer &object,
                                const PreparedProgram &program,
                                const Options &options, StringRef output) {
  auto folder = TemporaryFolder::make();
  if (!folder)
    return folder.takeError();
  llvm::Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(output);
  if (!file)
    return file.takeError();
  if (llvm::Error error = link(object, program.libraries, options,
                               (*folder)->name, (*file)->getPart()))
    return error;
  return (*file)->keep();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static llvm::Expected<WorkerLog> readLog(const Twine &file) {
  auto buffer = readWholeFile(file.str());
  if (!buffer)
    return buffer.takeError();
  struct Header {
    char magic[8];
    int32_t worker, numWorkers;
    int64_t firstStep, numSteps, numInstructions;
  } header;
  StringRef data = (*buffer)->getBuffer();
  auto fail = [&] {
    return makeError("'" + file + "' is no log of a compiled schedule");
  };
  if (data.size() < sizeof(header) || !data.starts_with("PSRTLOG1"))
    return fail();
  std::memcpy(&header, data.data(), sizeof(header));
  WorkerLog log;
  log.numInstructions = header.numInstructions;
  log.instructions.resize(header.numSteps * header.numInstructions);
  log.steps.resize(header.numSteps);
  data = data.drop_front(sizeof(header));
  for (std::vector<Span> *spans : {&log.instructions, &log.steps}) {
    size_t bytes = spans->size() * sizeof(Span);
    if (data.size() < bytes)
      return fail();
    std::memcpy(spans->data(), data.data(), bytes);
    data = data.drop_front(bytes);
  }
  return log;
}

static std::vector<std::string> mpiCommand(StringRef mpirun,
                                           const Options &options,
                                           StringRef folder,
                                           size_t numWorkers) {
  std::vector<std::string> command;
  for (StringRef word : llvm::split(mpirun, ' '))
    if (!word.empty())
      command.push_back(word.str());
  auto in = [&](StringRef name) { return (folder + "/" + name).str(); };
  for (const std::string &word :
       {std::string("-n"), std::to_string(numWorkers), in("program"),
        "--state-out=" + in("after"), "--log=" + in("log")})
    command.push_back(word);
  if (options.messages != Messages::Default)
    command.push_back("--messages=" +
                      enumName(options.messages.getValue()).str());
  if (options.blocking)
    command.push_back("--blocking");
  // Early enough that a waiting rank can report ranks that do not answer, but
  // late enough for a slow start of MPI.
  constexpr int64_t kPatience = 3, kLeast = 30;
  if (int64_t wait = options.timeout / 2 - kPatience; wait >= kLeast)
    command.push_back("--timeout=" + std::to_string(wait));
  return command;
}

static llvm::Expected<RunResult>
readResult(StringRef folder, llvm::ArrayRef<PersistentLayout> layouts) {
  RunResult result;
  for (auto [worker, layout] : llvm::enumerate(layouts)) {
    Memory &block = result.blocks.emplace_back(layout.bytes);
    auto after = readWholeFile((folder + "/after." + Twine(worker)).str());
    if (!after)
      return after.takeError();
    if ((*after)->getBufferSize() != static_cast<size_t>(block.size()))
      return makeError("worker " + Twine(worker) + " wrote a state of " +
                       Twine((*after)->getBufferSize()) + " bytes, wanted " +
                       Twine(block.size()));
    llvm::copy((*after)->getBuffer(), block.data());
    llvm::Expected<WorkerLog> log = readLog(folder + "/log." + Twine(worker));
    if (!log)
      return log.takeError();
    result.logs.push_back(std::move(*log));
  }
  return result;
}

llvm::Expected<RunResult> run::runMpi(const PreparedProgram &program,
                                      const llvm::MemoryBuffer &object,
                                      const Options &options) {
  StringRef given = options.mpirun;
  llvm::Expected<std::string> mpirun =
      findProgram("mpirun", given.split(' ').first, kMpiAdvice);
  if (!mpirun)
    return mpirun.takeError();
  auto made = TemporaryFolder::make();
  if (!made)
    return made.takeError();
  StringRef folder = (*made)->name;
  if (llvm::Error error = link(object, program.libraries, options, folder,
                               (folder + "/program").str()))
    return std::move(error);
  std::string launcher = (*mpirun + " " + given.split(' ').second).str();
  size_t numWorkers = program.layouts.size();
  auto printed = execute(mpiCommand(launcher, options, folder, numWorkers),
                         folder, options.timeout, numWorkers);
  if (!printed)
    return printed.takeError();
  llvm::outs() << printableLines(*printed);
  return readResult(folder, program.layouts);
}
