//===- InputFile.cpp - Reading of whole files -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM continues reading after a signal. This reader polls instead, so that it
// sees the flag of a signal handler even if the signal came just before the
// wait.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/Interrupt.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

using namespace pipesched;
using llvm::Expected;
using llvm::MemoryBuffer;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

static llvm::Error failToRead(StringRef path, std::error_code code) {
  return llvm::createStringError(code, "cannot read '" + path +
                                           "': " + code.message());
}

/// Opens without waiting for the writer of a FIFO. The flags of standard input
/// are not changed, because other processes share them.
static int openToPoll(StringRef path) {
  if (path == "-")
    return dup(STDIN_FILENO);
  return ::open(path.str().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

/// Waits for data or until the writer has closed its end. Returns an error
/// code, ECANCELED after an interrupt.
static int waitForData(int descriptor,
                       llvm::function_ref<bool()> isInterrupted) {
  constexpr int kPatienceMs = 100;
  while (!isInterrupted()) {
    pollfd wanted = {descriptor, POLLIN, 0};
    int found = poll(&wanted, 1, kPatienceMs);
    if (found > 0)
      return 0;
    if (found < 0 && errno != EINTR)
      return errno;
  }
  return ECANCELED;
}

/// Returns the limit on bytes for the file of a descriptor.
static uint64_t mostBytesOf(int descriptor) {
  fs::file_status status;
  bool isDevice = !fs::status(descriptor, status) &&
                  (status.type() == fs::file_type::character_file ||
                   status.type() == fs::file_type::block_file);
  return isDevice ? kMostDeviceBytes : kMostFileBytes;
}

static llvm::Error failForSize(StringRef name, uint64_t most) {
  return makeError("cannot read '" + name + "': it has more than the " +
                   llvm::Twine(most >> 20) + " MiB that are read of a " +
                   (most == kMostDeviceBytes ? "device" : "file"));
}

/// Appends everything up to the end. Returns an error code, EFBIG after more
/// than `most` bytes.
static int readAll(int descriptor, uint64_t most, std::string &text,
                   llvm::function_ref<bool()> isInterrupted) {
  char block[1 << 16];
  while (true) {
    if (int code = waitForData(descriptor, isInterrupted))
      return code;
    ssize_t count = read(descriptor, block, sizeof block);
    if (count == 0)
      return 0;
    if (count > 0 && text.size() + count > most)
      return EFBIG;
    if (count > 0)
      text.append(block, count);
    else if (errno != EINTR && errno != EAGAIN)
      return errno;
  }
}

/// Whether a file has a known size, unlike files of /proc. A file that does not
/// exist counts as having one, so that it is reported like other files.
static bool hasKnownSize(StringRef path, uint64_t &size) {
  fs::file_status status;
  if (fs::status(path, status))
    return true;
  size = status.getSize();
  return status.type() == fs::file_type::regular_file && size != 0;
}

Expected<std::unique_ptr<MemoryBuffer>>
pipesched::readWholeFile(StringRef path, const std::atomic<bool> *interrupted) {
  uint64_t size = 0;
  if (path != "-" && hasKnownSize(path, size)) {
    if (size > kMostFileBytes)
      return failForSize(path, kMostFileBytes);
    auto buffer = MemoryBuffer::getFile(path, /*IsText=*/true);
    if (!buffer)
      return failToRead(path, buffer.getError());
    return std::move(*buffer);
  }
  InterruptWatch watch;
  auto isInterrupted = [&] {
    return *watch.flag() || (interrupted && *interrupted);
  };
  int descriptor = openToPoll(path);
  if (descriptor < 0)
    return failToRead(path, std::error_code(errno, std::generic_category()));
  llvm::scope_exit closer([&] { close(descriptor); });
  StringRef name = path == "-" ? "<stdin>" : path;
  std::string text;
  uint64_t most = mostBytesOf(descriptor);
  int code = readAll(descriptor, most, text, isInterrupted);
  if (code == ECANCELED)
    return makeError("interrupted while reading '" + name + "'");
  if (code == EFBIG)
    return failForSize(name, most);
  if (code)
    return failToRead(name, std::error_code(code, std::generic_category()));
  return MemoryBuffer::getMemBufferCopy(text, name);
}
