//===- main.cpp - A project that embeds only the dialects -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parses standard input and prints it, as a compiler does that has the dialects
// of PipeSched among others.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

int main() {
  mlir::DialectRegistry registry;
  registry.insert<pipesched::exec::ExecDialect, pipesched::pipe::PipeDialect>();
  mlir::MLIRContext context(registry);
  mlir::ParserConfig config(&context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>("-", config);
  if (!module)
    return 1;
  module->print(llvm::outs());
  return 0;
}
