//===- Passes.h - Conversions between levels --------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
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

/// How convert-exec-to-func writes what a worker runs.
enum class ProgramForm { Table, Straight };

template <>
struct EnumNames<ProgramForm> {
  static constexpr EnumName<ProgramForm> values[] = {
      {ProgramForm::Table, "table",
       "A constant table, which one loop walks; code of constant size"},
      {ProgramForm::Straight, "straight", "One call behind the other"}};
};

/// Who multiplies matrices.
enum class Matmul { Runtime, Loops };

template <>
struct EnumNames<Matmul> {
  static constexpr EnumName<Matmul> values[] = {
      {Matmul::Runtime, "runtime", "The runtime; each summand by fma"},
      {Matmul::Loops, "loops", "Loops; each product is rounded"}};
};

/// Who computes exp, erf and tanh of f32.
enum class MathFunctions { Inline, Libm };

template <>
struct EnumNames<MathFunctions> {
  static constexpr EnumName<MathFunctions> values[] = {
      {MathFunctions::Inline, "inline",
       "Arithmetic in the loops, which become vector instructions"},
      {MathFunctions::Libm, "libm", "The C library, element by element"}};
};

/// What lower-matmuls makes of products of matrices.
enum class MatmulCode { Calls, Loops };

template <>
struct EnumNames<MatmulCode> {
  static constexpr EnumName<MatmulCode> values[] = {
      {MatmulCode::Calls, "calls", "Calls of the runtime"},
      {MatmulCode::Loops, "loops", "Loops that give the same bits"}};
};

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "PipeSched/Conversion/Passes.h.inc"

} // namespace pipesched

#endif // PIPESCHED_CONVERSION_PASSES_H
