//===- PrintableErrors.cpp - Arguments in errors of tools -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces standard error by a pipe, from which a thread copies lines.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/PrintableErrors.h"
#include "PipeSched/Support/PrintableText.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <unistd.h>

using namespace pipesched;
using llvm::StringRef;

static bool isPrintable(StringRef text) { return printableLines(text) == text; }

/// Copies until all writers have closed their end. Copies only whole lines,
/// because a character may be split between two reads.
static void copyLines(int from, int to) {
  llvm::raw_fd_ostream os(to, /*shouldClose=*/false, /*unbuffered=*/true);
  std::string kept;
  char block[1 << 12];
  while (ssize_t count = read(from, block, sizeof block)) {
    if (count < 0 && errno != EINTR)
      break;
    kept.append(block, std::max<ssize_t>(count, 0));
    size_t end = kept.rfind('\n') + 1; // 0: none
    os << printableLines(StringRef(kept).take_front(end));
    kept.erase(0, end);
  }
  os << printableLines(kept);
  os.clear_error();
  close(from);
}

PrintableErrors::PrintableErrors(int argc, const char *const *argv)
    : PrintableErrors(!llvm::all_of(llvm::ArrayRef(argv, argc), isPrintable)) {}

PrintableErrors::PrintableErrors(bool isNeeded) {
  int ends[2];
  if (!isNeeded || pipe(ends) != 0)
    return;
  standardError = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
  copier = std::thread(copyLines, ends[0], standardError);
}

PrintableErrors::~PrintableErrors() {
  if (!copier.joinable())
    return;
  dup2(standardError, STDERR_FILENO); // closes the end of the last writer
  copier.join();
  close(standardError);
}
