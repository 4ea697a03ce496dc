//===- RegisterExport.h - Exports that read IR ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Like mlir::TranslateFromMLIRRegistration, but with our dialects, and for IR
// whose names contain any characters (Adapter/PrintableDiagnostics.h).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_REGISTEREXPORT_H
#define PIPESCHED_LIB_TARGET_REGISTEREXPORT_H

#include "mlir/Tools/mlir-translate/Translation.h"

namespace pipesched {

/// Registers the option `--name` of pipesched-translate.
void registerExport(llvm::StringRef name, llvm::StringRef description,
                    mlir::TranslateFromMLIRFunction write);

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_REGISTEREXPORT_H
