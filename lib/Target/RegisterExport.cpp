//===- RegisterExport.cpp - Exports that read IR --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Needed because MLIR's own registration parses the text before we can change
// it.
//
//===----------------------------------------------------------------------===//

#include "RegisterExport.h"
#include "PipeSched/Adapter/GuardedIR.h"
#include "PipeSched/Adapter/PrintableDiagnostics.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Tools/ParseUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace pipesched;

/// Registers the dialects of schedules and programs, and of the functions of
/// their stages.
static void insertDialects(DialectRegistry &registry) {
  registry.insert<DLTIDialect, exec::ExecDialect, pipe::PipeDialect>();
  registry.insert<arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                  math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
}

/// Whether MLIR's option `--no-implicit-module` is given.
static bool wantsExplicitModule() {
  auto &known = llvm::cl::getRegisteredOptions();
  auto found = known.find("no-implicit-module");
  return found != known.end() && found->second->getNumOccurrences() > 0;
}

/// Returns the sources to parse: the given sources, or equivalent IR. Null
/// after an error.
static std::shared_ptr<llvm::SourceMgr>
readableSources(const std::shared_ptr<llvm::SourceMgr> &sources,
                MLIRContext *context) {
  llvm::MemoryBufferRef given =
      sources->getMemoryBuffer(sources->getMainFileID())->getMemBufferRef();
  auto readable = guardIR(given, context->getDialectRegistry());
  if (!readable) {
    emitError(UnknownLoc::get(context)) << llvm::toString(readable.takeError());
    return nullptr;
  }
  if (!*readable)
    *readable = makePrintableIR(given);
  if (!*readable)
    return sources;
  auto made = std::make_shared<llvm::SourceMgr>();
  made->AddNewSourceBuffer(std::move(*readable), llvm::SMLoc());
  return made;
}

void pipesched::registerExport(StringRef name, StringRef description,
                               TranslateFromMLIRFunction write) {
  TranslateRegistration(name, description,
                        [write = std::move(write)](
                            const std::shared_ptr<llvm::SourceMgr> &sources,
                            raw_ostream &os,
                            MLIRContext *context) -> LogicalResult {
                          DialectRegistry registry;
                          insertDialects(registry);
                          context->appendDialectRegistry(registry);
                          makeLinesPrintable(*sources);
                          makeDiagnosticsPrintable(*context);
                          auto readable = readableSources(sources, context);
                          if (!readable)
                            return failure();
                          OwningOpRef<Operation *> root =
                              parseSourceFileForTool(readable, context,
                                                     /*insertImplicitModule=*/
                                                     !wantsExplicitModule());
                          if (!root || failed(verify(*root)))
                            return failure();
                          return write(root.get(), os);
                        });
}
