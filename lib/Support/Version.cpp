//===- Version.cpp - Versions of PipeSched and of LLVM --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CMake gives the version of the project.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Version.h"
#include "llvm/Support/raw_ostream.h"

const char *pipesched::version() { return PIPESCHED_VERSION; }

void pipesched::printVersion(llvm::raw_ostream &os) {
  os << "PipeSched version " << version() << "\nLLVM version "
     << LLVM_VERSION_STRING << "\n";
}
