//===- PrintableErrors.h - Arguments in errors of tools ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM's parser of options and MLIR's drivers quote arguments verbatim, and a
// shell may pass file names with any characters as arguments.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_PRINTABLEERRORS_H
#define PIPESCHED_SUPPORT_PRINTABLEERRORS_H

#include <thread>

namespace pipesched {

/// While an object of this class exists, the standard error of the process is
/// made printable line by line. Lines arrive a little later, so it is used only
/// if an argument needs it.
class PrintableErrors {
public:
  explicit PrintableErrors(bool isNeeded = true);
  /// Starts if any of the arguments is not printable. Should be static in main,
  /// because wrong options call exit().
  PrintableErrors(int argc, const char *const *argv);
  ~PrintableErrors();
  PrintableErrors(const PrintableErrors &) = delete;
  PrintableErrors &operator=(const PrintableErrors &) = delete;

private:
  int standardError = -1; ///< a copy of the descriptor
  std::thread copier;
};

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_PRINTABLEERRORS_H
