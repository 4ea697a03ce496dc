//===- OutputErrors.cpp - Standard output that cannot be written ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Static objects are destroyed in the reverse order of their construction.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/OutputErrors.h"
#include "llvm/Support/raw_ostream.h"
#include <unistd.h>

using namespace pipesched;

/// Create both streams first, so that they outlive this object.
OutputErrors::OutputErrors() {
  llvm::outs();
  llvm::errs();
}

OutputErrors::~OutputErrors() {
  llvm::raw_fd_ostream &os = llvm::outs();
  os.flush();
  std::error_code code = os.error();
  if (!code)
    return;
  os.clear_error();
  if (code != std::errc::broken_pipe) // such as by `| head`
    llvm::errs() << "error: cannot write to standard output: " << code.message()
                 << "\n";
  // The process is already exiting, so exit() must not be called again.
  _exit(1);
}
