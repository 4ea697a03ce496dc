//===- PipeSchedPlugin.cpp - Plugin for stock mlir-opt --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dialect and pass plugin entry points. With them, a stock mlir-opt that
// links the same libMLIR offers the same as pipesched-opt.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/Compiler.h"

extern "C" LLVM_ATTRIBUTE_WEAK mlir::DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "PipeSched", LLVM_VERSION_STRING,
          [](mlir::DialectRegistry *registry) {
            pipesched::registerAllDialects(*registry);
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo
mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "PipeSched", LLVM_VERSION_STRING,
          []() { pipesched::registerAllPasses(); }};
}
