//===- pipesched-translate.cpp - Import and export driver -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's translation driver with PipeSched's imports and exports. The output
// file appears only if the translation succeeds.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/InitAll.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/OutputErrors.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableErrors.h"
#include "PipeSched/Support/StandardStreams.h"
#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/WithColor.h"
#include <cstdio>
#include <unistd.h>

/// MLIR's driver reads its input to the end, which a device such as /dev/zero
/// does not have. Replaces standard input by its contents if it is a device but
/// not a terminal. Errors: more bytes than the limit for devices.
static llvm::Error readStandardDevice() {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(STDIN_FILENO, status) ||
      status.type() != llvm::sys::fs::file_type::character_file ||
      isatty(STDIN_FILENO))
    return llvm::Error::success();
  auto read = pipesched::readWholeFile("-");
  if (!read || (*read)->getBufferSize() == 0)
    return read.takeError();
  std::FILE *file = std::tmpfile();
  llvm::StringRef contents = (*read)->getBuffer();
  if (!file ||
      std::fwrite(contents.data(), 1, contents.size(), file) != contents.size())
    return llvm::createStringError("cannot keep what standard input has");
  std::rewind(file);
  dup2(fileno(file), STDIN_FILENO);
  std::fclose(file);
  return llvm::Error::success();
}

/// The same for arguments, and for standard input if none of them may be the
/// input. Errors: a device with more bytes.
static llvm::Error checkDevices(llvm::ArrayRef<char *> arguments) {
  llvm::sys::fs::file_status status;
  bool isGiven = false;
  for (size_t i = 1; i < arguments.size(); ++i) {
    llvm::StringRef path = arguments[i];
    bool isOutput = llvm::StringRef(arguments[i - 1]).ltrim('-') == "o";
    isGiven |= !isOutput && !path.starts_with("-");
    if (isOutput || path.starts_with("-") ||
        llvm::sys::fs::status(path, status) ||
        status.type() != llvm::sys::fs::file_type::character_file ||
        path.starts_with("/dev/tty") || path == "/dev/stdin")
      continue;
    if (auto read = pipesched::readWholeFile(path); !read)
      return read.takeError();
  }
  return isGiven ? llvm::Error::success() : readStandardDevice();
}

int main(int argc, char **argv) {
  pipesched::openStandardStreams();
  static pipesched::OutputErrors outputErrors;
  static pipesched::PrintableErrors errors(argc, argv);
  pipesched::registerAllTranslations();
  llvm::cl::SetVersionPrinter(pipesched::printVersion);
  if (llvm::Error error = checkDevices({argv, size_t(argc)})) {
    llvm::WithColor::error() << llvm::toString(std::move(error)) << "\n";
    return 1;
  }
  return pipesched::runWithWholeOutput(argc, argv, [](int argc, char **argv) {
    return int(mlir::failed(
        mlir::mlirTranslateMain(argc, argv, "PipeSched translation driver")));
  });
}
