//===- Passes.h - Conversions between levels --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Declares and registers the passes of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_PASSES_H
#define PIPESCHED_CONVERSION_PASSES_H

#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"
#include "PipeSched/Support/EnumOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace pipesched {

/// The form of the functions that convert-exec-to-func creates.
enum class ProgramForm { Table, Straight };

template <>
struct EnumNames<ProgramForm> {
  static constexpr EnumName<ProgramForm> values[] = {
      {ProgramForm::Table, "table",
       "A constant table, which one loop walks; code of constant size"},
      {ProgramForm::Straight, "straight", "One call behind the other"}};
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "PipeSched/Conversion/Passes.h.inc"

} // namespace pipesched

#endif // PIPESCHED_CONVERSION_PASSES_H
