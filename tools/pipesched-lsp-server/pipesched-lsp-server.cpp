//===- pipesched-lsp-server.cpp - Language server -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's language server with PipeSched's dialects, for editors.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/InitAll.h"
#include "PipeSched/Support/StandardStreams.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

int main(int argc, char **argv) {
  pipesched::openStandardStreams();
  mlir::DialectRegistry registry;
  pipesched::registerAllDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
