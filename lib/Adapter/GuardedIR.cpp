//===- GuardedIR.cpp - IR from untrusted sources --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The child answers with one letter, the size of a text, and the text: the
// bytecode that it has written, or the reason why there is none. An incomplete
// answer means that the child has crashed.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/Nesting.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/thread.h"
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mlir;
using namespace pipesched;
using llvm::Expected;
using llvm::MemoryBuffer;
using llvm::MemoryBufferRef;

//===----------------------------------------------------------------------===//
// Depth
//===----------------------------------------------------------------------===//

namespace {
/// Finds how deeply operations, attributes and types are nested.
class DepthFinder {
public:
  size_t depthOf(Attribute attribute) { return partDepth(attribute); }
  size_t depthOf(Type type) { return partDepth(type); }
  size_t depthOf(Operation &op);

private:
  template <typename Part>
  size_t partDepth(Part part);
  size_t partsDepth(Operation &op);

  llvm::DenseMap<const void *, size_t> known;
};
} // namespace

template <typename Part>
size_t DepthFinder::partDepth(Part part) {
  if (!part)
    return 0;
  const void *key = part.getAsOpaquePointer();
  auto [entry, isNew] = known.try_emplace(key, 0);
  if (!isNew)
    return entry->second;
  size_t deepest = 0;
  part.walkImmediateSubElements(
      [&](Attribute inner) { deepest = std::max(deepest, depthOf(inner)); },
      [&](Type inner) { deepest = std::max(deepest, depthOf(inner)); });
  return known[key] = deepest + 1;
}

/// The depth of the attributes, types and locations of one operation.
size_t DepthFinder::partsDepth(Operation &op) {
  size_t deepest =
      std::max(depthOf(op.getAttrDictionary()), depthOf(op.getLoc()));
  for (Type type : op.getResultTypes())
    deepest = std::max(deepest, depthOf(type));
  for (Region &region : op.getRegions())
    for (Block &block : region)
      for (BlockArgument argument : block.getArguments())
        deepest = std::max(
            {deepest, depthOf(argument.getType()), depthOf(argument.getLoc())});
  return deepest;
}

size_t DepthFinder::depthOf(Operation &op) {
  size_t deepest = partsDepth(op);
  for (Region &region : op.getRegions())
    for (Operation &inner : region.getOps())
      deepest = std::max(deepest, depthOf(inner));
  return deepest + 1;
}

//===----------------------------------------------------------------------===//
// The child
//===----------------------------------------------------------------------===//

/// A wait may last this many times the limit on computing, because other
/// processes compute too.
static constexpr unsigned kPatience = 6;

namespace {
constexpr char kWritten = 'w', kRefused = 'r';

struct Answer {
  char kind = kRefused;
  std::string text;
};
} // namespace

static Answer rewrite(MemoryBufferRef bytecode,
                      const DialectRegistry &registry) {
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.allowUnregisteredDialects();
  Answer answer;
  context.getDiagEngine().registerHandler([&](Diagnostic &diagnostic) {
    bool isError = diagnostic.getSeverity() == DiagnosticSeverity::Error;
    if (isError && answer.text.empty())
      answer.text = diagnostic.str();
    return success();
  });
  FallbackAsmResourceMap resources;
  ParserConfig config(&context, /*verifyAfterParse=*/false, &resources);
  Block block;
  if (failed(readBytecodeFile(bytecode, &block, config)))
    return answer;
  if (!llvm::hasSingleElement(block))
    return {kRefused, "expected one operation at the top"};
  if (DepthFinder().depthOf(block.front()) > kMaxIRDepth)
    return {kRefused, ("more than " + Twine(kMaxIRDepth) +
                       " operations or values are inside each other")
                          .str()};
  BytecodeWriterConfig writer(resources);
  llvm::raw_string_ostream os(answer.text);
  if (succeeded(writeBytecodeToFile(&block.front(), os, writer)))
    answer.kind = kWritten;
  return answer;
}

/// Sets a limit of the child, unless the process already has a lower one.
static void limit(__rlimit_resource resource, rlim_t most) {
  rlimit limits;
  if (getrlimit(resource, &limits) != 0)
    return;
  limits.rlim_cur = std::min(limits.rlim_cur, most);
  setrlimit(resource, &limits);
}

/// The bytes of address space that the process uses.
static rlim_t addressSpace() {
  auto file = MemoryBuffer::getFileAsStream("/proc/self/statm");
  uint64_t pages = 0;
  if (!file || (*file)->getBuffer().split(' ').first.getAsInteger(10, pages))
    return RLIM_INFINITY;
  return pages * sysconf(_SC_PAGESIZE);
}

/// Prepares for a crash, which must end only this process: handlers of the
/// parent would print stacks and delete the files that it writes.
static void prepareToCrash(size_t size, unsigned seconds) {
  for (int signal : {SIGABRT, SIGALRM, SIGBUS, SIGFPE, SIGHUP, SIGILL, SIGINT,
                     SIGQUIT, SIGSEGV, SIGTERM, SIGTRAP, SIGXCPU})
    ::signal(signal, SIG_DFL);
  int nowhere = open("/dev/null", O_WRONLY);
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  alarm(kPatience * seconds); // if the parent is gone
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, seconds);
  constexpr rlim_t kOwn = rlim_t(1) << 30, kPerByte = 64;
  rlim_t now = addressSpace();
  if (now != RLIM_INFINITY)
    limit(RLIMIT_AS, now + kOwn + kPerByte * size);
}

static void sendAll(int to, StringRef bytes) {
  while (!bytes.empty()) {
    ssize_t count = write(to, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      return;
    bytes = bytes.drop_front(std::max<ssize_t>(count, 0));
  }
}

/// Computes the answer on a thread with half of the parent's stack. An
/// exception, such as of an allocation, ends the process there and does not
/// reach a handler of the parent.
static Answer rewriteOnThread(MemoryBufferRef bytecode,
                              const DialectRegistry &registry) {
  constexpr unsigned kStackBytes = 4 << 20;
  Answer answer;
  llvm::thread reader(std::optional<unsigned>(kStackBytes),
                      [&] { answer = rewrite(bytecode, registry); });
  reader.join();
  return answer;
}

[[noreturn]] static void runChild(int to, MemoryBufferRef bytecode,
                                  const DialectRegistry &registry,
                                  unsigned seconds) {
  prepareToCrash(bytecode.getBufferSize(), seconds);
  Answer answer = rewriteOnThread(bytecode, registry);
  uint64_t size = answer.text.size();
  sendAll(to, StringRef(&answer.kind, 1));
  sendAll(to, StringRef(reinterpret_cast<const char *>(&size), sizeof(size)));
  sendAll(to, answer.text);
  _exit(0);
}

//===----------------------------------------------------------------------===//
// The parent
//===----------------------------------------------------------------------===//

/// Reads to the end. Returns false if the end does not come in time.
static bool receiveAll(int from, unsigned seconds, std::string &bytes) {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + std::chrono::seconds(seconds);
  char block[1 << 16];
  while (Clock::now() < end) {
    pollfd wanted = {from, POLLIN, 0};
    if (poll(&wanted, 1, /*timeout=*/100) <= 0)
      continue;
    ssize_t count = read(from, block, sizeof(block));
    if (count == 0)
      return true;
    if (count > 0)
      bytes.append(block, count);
    else if (errno != EINTR)
      return true;
  }
  return false;
}

/// Returns the answer in these bytes; nothing if it is incomplete.
static std::optional<Answer> readAnswer(StringRef bytes) {
  uint64_t size = 0;
  if (bytes.size() < 1 + sizeof(size))
    return std::nullopt;
  std::memcpy(&size, bytes.data() + 1, sizeof(size));
  StringRef text = bytes.drop_front(1 + sizeof(size));
  if (text.size() != size)
    return std::nullopt;
  return Answer{bytes.front(), text.str()};
}

static std::string describeEnd(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  do
    ended = waitpid(child, &status, 0);
  while (ended < 0 && errno == EINTR);
  if (ended == child && WIFSIGNALED(status))
    return std::string("crashes MLIR's reader (") +
           strsignal(WTERMSIG(status)) + ")";
  return "crashes MLIR's reader";
}

/// Reads the bytecode in a child process. Returns its output.
static Expected<Answer> rewriteInChild(MemoryBufferRef bytecode,
                                       const DialectRegistry &registry) {
  constexpr unsigned kSeconds = 10, kBytesPerSecond = 1 << 20;
  unsigned seconds = kSeconds + bytecode.getBufferSize() / kBytesPerSecond;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return makeError(Twine("cannot be checked: ") + strerror(errno));
  pid_t child = fork();
  int code = errno;
  if (child == 0)
    runChild(ends[1], bytecode, registry, seconds);
  close(ends[1]);
  std::string bytes;
  bool hasEnded = child > 0 && receiveAll(ends[0], kPatience * seconds, bytes);
  close(ends[0]);
  if (child < 0)
    return makeError(Twine("cannot be checked: ") + strerror(code));
  if (!hasEnded)
    kill(child, SIGKILL);
  std::string end = describeEnd(child);
  if (!hasEnded)
    return makeError("is not read within " + Twine(kPatience * seconds) +
                     " seconds");
  if (std::optional<Answer> answer = readAnswer(bytes))
    return std::move(*answer);
  return makeError("is not valid bytecode: it " + end);
}

Expected<std::unique_ptr<MemoryBuffer>>
pipesched::guardIR(MemoryBufferRef ir, const DialectRegistry &registry) {
  StringRef name = ir.getBufferIdentifier(), text = ir.getBuffer();
  if (!isBytecode(ir)) {
    if (std::optional<DeepPlace> deep = findDeepIR(text))
      return makeError(placeInFile(name, text, deep->offset) + deep->message);
    return nullptr;
  }
  Expected<Answer> answer = rewriteInChild(ir, registry);
  if (!answer)
    return makeError(name + ": the file " + llvm::toString(answer.takeError()));
  if (answer->kind == kWritten)
    return MemoryBuffer::getMemBufferCopy(answer->text, name);
  return makeError(
      name + ": " +
      (answer->text.empty() ? "is not valid bytecode" : answer->text));
}
