//===- OutputFile.cpp - Files that are replaced as a whole ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rename replaces a file in one step. It would also replace a link or a
// device, so these are handled first.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/WithColor.h"
#include <filesystem>
#include <unistd.h>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::SmallString;
using llvm::StringRef;
namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// Paths
//===----------------------------------------------------------------------===//

/// Returns the inherited descriptor to which a path refers, or -1. Opening such
/// a path would truncate a file to which the shell has redirected the
/// descriptor.
static int descriptorOf(StringRef path) {
  if (path == "/dev/stdout")
    return STDOUT_FILENO;
  if (path == "/dev/stderr")
    return STDERR_FILENO;
  int number = -1;
  for (StringRef folder : {"/dev/fd/", "/proc/self/fd/"})
    if (StringRef rest = path;
        rest.consume_front(folder) && !rest.getAsInteger(10, number))
      return number;
  return -1;
}

/// Follows a symbolic link, through at most 40 links as in Linux, even if its
/// target does not exist yet. Stops at a path that refers to a descriptor.
static std::error_code followLinks(SmallString<128> &path) {
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks; ++i) {
    if (descriptorOf(path) >= 0 || !fs::is_symlink_file(path))
      return {};
    std::error_code code;
    std::filesystem::path link =
        std::filesystem::read_symlink(path.str().str(), code);
    if (code)
      return code;
    if (link.is_absolute())
      path.clear();
    else
      llvm::sys::path::remove_filename(path);
    llvm::sys::path::append(path, link.string());
  }
  return std::make_error_code(std::errc::too_many_symbolic_link_levels);
}

Error OutputFile::fail(std::error_code code) const {
  return makeError("cannot write '" + path + "': " + code.message());
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

/// Gives a new file the owner and the permissions of the file that it replaces.
/// Only the superuser may change the owner, so a refusal is not an error.
static std::error_code copyAccess(StringRef from, int descriptor) {
  fs::file_status status;
  if (std::error_code code = fs::status(from, status))
    return code == std::errc::no_such_file_or_directory ? std::error_code()
                                                        : code;
  if (std::error_code code = fs::access(from, fs::AccessMode::Write))
    return code;
  (void)!fchown(descriptor, status.getUser(), status.getGroup());
  return fs::setPermissions(descriptor, status.permissions());
}

Error OutputFile::makePart(StringRef target) {
  this->target = target;
  // The name is short, so that it is valid wherever the name of the file is.
  SmallString<128> model = llvm::sys::path::parent_path(target);
  llvm::sys::path::append(model, ".pipesched-%%%%%%%%.tmp");
  int descriptor = -1;
  std::error_code code = fs::createUniqueFile(model, descriptor, part);
  if (code == std::errc::permission_denied && fs::exists(target))
    return makeError("cannot write '" + path +
                     "': its folder does not let a "
                     "new file replace it: " +
                     code.message());
  if (code)
    return fail(code);
  llvm::sys::RemoveFileOnSignal(part);
  code = copyAccess(target, descriptor);
  close(descriptor);
  return code ? fail(code) : Error::success();
}

Error OutputFile::openSpecial(StringRef target) {
  std::error_code code;
  if (int inherited = descriptorOf(target); inherited >= 0) {
    special = dup(inherited);
    if (special < 0)
      code = std::error_code(errno, std::generic_category());
  } else {
    code = fs::openFileForWrite(target, special, fs::CD_OpenExisting);
  }
  if (code)
    return fail(code);
  int descriptor = -1;
  code = fs::createTemporaryFile("pipesched", "tmp", descriptor, part);
  if (code)
    return makeError("cannot write a temporary file: " + code.message());
  llvm::sys::RemoveFileOnSignal(part);
  close(descriptor);
  return Error::success();
}

Expected<std::unique_ptr<OutputFile>> OutputFile::open(StringRef path) {
  std::unique_ptr<OutputFile> file(new OutputFile(path));
  SmallString<128> target = path;
  if (std::error_code code = followLinks(target))
    return file->fail(code);
  bool isSpecial = descriptorOf(target) >= 0 ||
                   (fs::exists(target) && !fs::is_regular_file(target));
  if (fs::is_directory(target))
    return file->fail(std::make_error_code(std::errc::is_a_directory));
  if (Error error =
          isSpecial ? file->openSpecial(target) : file->makePart(target))
    return std::move(error);
  return file;
}

OutputFile::~OutputFile() {
  if (special >= 0)
    close(special);
  if (part.empty())
    return;
  fs::remove(part);
  llvm::sys::DontRemoveFileOnSignal(part);
}

//===----------------------------------------------------------------------===//
// Keeping
//===----------------------------------------------------------------------===//

/// Writes and closes; the stream itself reports no errors.
static std::error_code writeAndClose(int descriptor, StringRef contents) {
  llvm::raw_fd_ostream os(descriptor, /*shouldClose=*/true);
  os << contents;
  os.close();
  std::error_code code = os.error();
  os.clear_error();
  return code;
}

Error OutputFile::copyToSpecial() {
  auto contents = llvm::MemoryBuffer::getFile(part);
  if (!contents)
    return fail(contents.getError());
  std::error_code code =
      writeAndClose(std::exchange(special, -1), (*contents)->getBuffer());
  return code ? fail(code) : Error::success();
}

Error OutputFile::write(StringRef contents) {
  int descriptor = -1;
  std::error_code code =
      fs::openFileForWrite(part, descriptor, fs::CD_OpenExisting);
  if (!code)
    code = writeAndClose(descriptor, contents);
  return code ? fail(code) : Error::success();
}

Error OutputFile::keep() {
  if (special >= 0)
    return copyToSpecial();
  if (std::error_code code = fs::rename(part, target))
    return fail(code);
  llvm::sys::DontRemoveFileOnSignal(part);
  part.clear();
  return Error::success();
}

/// Returns the path of a file with links in its folder resolved; empty if it is
/// not a regular file, or its folder does not exist.
static std::string realPath(StringRef path) {
  SmallString<128> target = path, folder;
  if (path.empty() || path == "-" || followLinks(target) ||
      descriptorOf(target) >= 0 ||
      (fs::exists(target) && !fs::is_regular_file(target)))
    return "";
  StringRef parent = llvm::sys::path::parent_path(target);
  if (fs::real_path(parent.empty() ? "." : parent, folder))
    return "";
  llvm::sys::path::append(folder, llvm::sys::path::filename(target));
  return folder.str().str();
}

bool pipesched::isSameFile(StringRef a, StringRef b) {
  std::string first = realPath(a), second = realPath(b);
  if (first.empty() || second.empty())
    return false;
  return first == second || fs::equivalent(first, second);
}

Error pipesched::writeWholeFile(StringRef path, StringRef contents) {
  if (path == "-") {
    std::error_code code = writeAndClose(dup(STDOUT_FILENO), contents);
    return code
               ? makeError("cannot write to standard output: " + code.message())
               : Error::success();
  }
  Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
  if (!file)
    return file.takeError();
  if (Error error = (*file)->write(contents))
    return error;
  return (*file)->keep();
}

//===----------------------------------------------------------------------===//
// Tools
//===----------------------------------------------------------------------===//

namespace {
/// The value of `-o` in the arguments: the argument that contains it, and the
/// offset of the value in it.
struct OutputArgument {
  size_t index = 0;
  size_t begin = 0;
};
} // namespace

/// The content of a temporary file until the tool opens it, which truncates it.
/// If a tool exits without opening it, as for `--show-dialects`, the file is
/// not changed.
static constexpr StringRef kUntouched = "pipesched: not written yet\n";

static bool isUntouched(StringRef part) {
  auto contents = llvm::MemoryBuffer::getFile(part);
  return !contents || (*contents)->getBuffer() == kUntouched;
}

static std::optional<OutputArgument>
findOutput(llvm::ArrayRef<const char *> arguments) {
  for (auto [index, text] : llvm::enumerate(arguments)) {
    StringRef argument = text;
    if (argument == "--")
      return std::nullopt;
    if (!argument.consume_front("--"))
      argument.consume_front("-");
    size_t dashes = StringRef(text).size() - argument.size();
    if (dashes > 0 && argument == "o" && index + 1 < arguments.size())
      return OutputArgument{index + 1, 0};
    if (dashes > 0 && argument.starts_with("o="))
      return OutputArgument{index, dashes + 2};
  }
  return std::nullopt;
}

/// Replaces LLVM's own message when a closed stream could not be written, for
/// example because the disk is full. LLVM then ends the process with status 1.
static void sayUnwritten(void *path, const char *reason, bool) {
  StringRef cause = reason;
  if (cause.consume_front("IO failure on output stream: "))
    llvm::errs() << "error: cannot write '" << *static_cast<StringRef *>(path)
                 << "': " << cause << "\n";
  else
    llvm::errs() << "LLVM ERROR: " << cause << "\n";
}

int pipesched::runWithWholeOutput(int argc, char **argv,
                                  llvm::function_ref<int(int, char **)> run) {
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  llvm::SmallVector<const char *> arguments(argv, argv + argc);
  llvm::cl::ExpandResponseFiles(saver, llvm::cl::TokenizeGNUCommandLine,
                                arguments);
  std::optional<OutputArgument> output = findOutput(arguments);
  StringRef path;
  if (output)
    path = StringRef(arguments[output->index]).substr(output->begin);
  if (path.empty() || path == "-")
    return run(argc, argv);
  Expected<std::unique_ptr<OutputFile>> file = OutputFile::open(path);
  // The parser of options may end the process. Then static objects are
  // destroyed, but objects on the stack are not.
  static std::unique_ptr<OutputFile> opened;
  auto report = [](Error error) {
    llvm::WithColor::error() << llvm::toString(std::move(error)) << "\n";
    return 1;
  };
  if (!file)
    return report(file.takeError());
  opened = std::move(*file);
  if (Error error = opened->write(kUntouched))
    return report(std::move(error));
  StringRef before =
      StringRef(arguments[output->index]).take_front(output->begin);
  arguments[output->index] = saver.save(before + opened->getPart()).data();
  llvm::ScopedFatalErrorHandler handler(sayUnwritten, &path);
  int status = run(static_cast<int>(arguments.size()),
                   const_cast<char **>(arguments.data()));
  if (status == 0 && !isUntouched(opened->getPart()))
    if (Error error = opened->keep())
      status = report(std::move(error));
  opened.reset();
  return status;
}
