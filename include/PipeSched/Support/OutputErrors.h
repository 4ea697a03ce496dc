//===- OutputErrors.h - Standard output that cannot be written --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reports a failure to write standard output. LLVM's streams report failures
// themselves, but do not name the file.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_OUTPUTERRORS_H
#define PIPESCHED_SUPPORT_OUTPUTERRORS_H

namespace pipesched {

/// At the end of a tool, reports on standard error if llvm::outs() could not be
/// written, and makes the exit status 1. Reports nothing if a reader has closed
/// a pipe. Should be static in main, before all other objects, because options
/// such as --help call exit().
class OutputErrors {
public:
  OutputErrors();
  ~OutputErrors();
  OutputErrors(const OutputErrors &) = delete;
  OutputErrors &operator=(const OutputErrors &) = delete;
};

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_OUTPUTERRORS_H
