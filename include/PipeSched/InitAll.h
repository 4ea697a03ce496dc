//===- InitAll.h - Registration of all parts --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers PipeSched's dialects, passes and translations. The tools, the
// plugin and other embedders call these functions, so that all offer the same
// features.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_INITALL_H
#define PIPESCHED_INITALL_H

#include "PipeSched/Support/Version.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace pipesched {

/// The dialects of PipeSched; DLTI, in which `pipe` states the system; dialects
/// in which functions of stages are written; the transform dialect, with ops
/// for schedules; and dialects of messages and devices, which other functions
/// of a module may have.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers all passes in MLIR's global registry.
void registerAllPasses();

/// Registers all imports and exports in MLIR's global registry.
void registerAllTranslations();

/// Whether this build compiles schedules (PIPESCHED_ENABLE_COMPILE of CMake).
bool hasCompiler();

} // namespace pipesched

#endif // PIPESCHED_INITALL_H
