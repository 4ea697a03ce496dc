//===- FindKernel.h - Kernels of a layer by name ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For tests of the expansion of a description.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_COSTMODEL_FINDKERNEL_H
#define PIPESCHED_UNITTESTS_COSTMODEL_FINDKERNEL_H

#include "PipeSched/Facts/Facts.h"
#include "llvm/Support/ErrorHandling.h"

namespace pipesched {

/// Null if the block has none of that name.
inline const Kernel *findKernel(const BlockFacts &block, llvm::StringRef name) {
  for (const Kernel &kernel : block.kernels)
    if (kernel.name == name)
      return &kernel;
  return nullptr;
}

/// Ends the process if there is none.
inline const Kernel &kernelOf(const BlockFacts &block, llvm::StringRef name) {
  const Kernel *kernel = findKernel(block, name);
  if (!kernel)
    llvm::report_fatal_error("no kernel " + name);
  return *kernel;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_COSTMODEL_FINDKERNEL_H
