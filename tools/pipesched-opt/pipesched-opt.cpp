//===- pipesched-opt.cpp - Optimizer driver -------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's optimizer with PipeSched's dialects and passes, and the upstream
// passes that make sense on any IR (canonicalize, cse, view-op-graph, ...). The
// output file appears only if all passes succeed; it may be the input, which
// MLIR maps into memory.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/InitAll.h"
#include "PipeSched/Support/OutputFile.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  pipesched::registerAllDialects(registry);
  pipesched::registerAllPasses();
  mlir::registerTransformsPasses();
  return pipesched::runWithWholeOutput(argc, argv, [&](int argc, char **argv) {
    return mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, "PipeSched optimizer\n", registry));
  });
}
