//===- InlineMath.td - Functions of numbers ----------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The passes that compute functions without the C library, and with it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_INLINEMATH_TD
#define PIPESCHED_CONVERSION_INLINEMATH_TD

include "mlir/Pass/PassBase.td"

def InlineMathPass : Pass<"inline-math", "::mlir::ModuleOp"> {
  let summary = "Compute exp, erf and tanh of f32 by arithmetic";
  let description = [{
    `math.exp`, `math.erf` and `math.tanh` of f32, and of vectors of it, become
    polynomials and a power of 2, without branches: loops over them become
    vector instructions, where a call of the C library for each element would
    not. Results are within 1.5 units in the last place, denormal ones and
    overflows included, and have the same bits on every processor.

    ```mlir
    func.func @weight(%x: f32) -> f32 {
      %y = math.exp %x : f32
      return %y : f32
    }
    ```

    Other types stay.

    After `inline-math,canonicalize`:

    ```mlir
    func.func @weight(%arg0: f32) -> f32 {
      %c1262485504_i32 = arith.constant 1262485504 : i32
      %c23_i32 = arith.constant 23 : i32
      %c127_i32 = arith.constant 127 : i32
      %c1_i32 = arith.constant 1 : i32
      %cst = arith.constant 1.000000e+00 : f32
      %cst_0 = arith.constant 5.000000e-01 : f32
      %cst_1 = arith.constant 0.166665182 : f32
      %cst_2 = arith.constant 0.041666206 : f32
      %cst_3 = arith.constant 0.00836895406 : f32
      %cst_4 = arith.constant 1.395060e-03 : f32
      %cst_5 = arith.constant -1.42860677E-6 : f32
      %cst_6 = arith.constant -0.693145751 : f32
      %cst_7 = arith.constant 0x4B400000 : f32
      %cst_8 = arith.constant 1.44269502 : f32
      %cst_9 = arith.constant 0.000000e+00 : f32
      %cst_10 = arith.constant -1.040000e+02 : f32
      %cst_11 = arith.constant 8.900000e+01 : f32
      %0 = arith.cmpf ogt, %arg0, %cst_11 : f32
      %1 = arith.select %0, %cst_11, %arg0 : f32
      %2 = arith.cmpf olt, %1, %cst_10 : f32
      %3 = arith.select %2, %cst_9, %1 : f32
      %4 = math.fma %3, %cst_8, %cst_7 : f32
      %5 = arith.bitcast %4 : f32 to i32
      %6 = arith.subi %5, %c1262485504_i32 : i32
      %7 = arith.subf %4, %cst_7 : f32
      %8 = math.fma %7, %cst_6, %3 : f32
      %9 = math.fma %7, %cst_5, %8 : f32
      %10 = math.fma %cst_4, %9, %cst_3 : f32
      %11 = math.fma %10, %9, %cst_2 : f32
      %12 = math.fma %11, %9, %cst_1 : f32
      %13 = math.fma %12, %9, %cst_0 : f32
      %14 = arith.mulf %9, %9 : f32
      %15 = math.fma %14, %13, %9 : f32
      %16 = arith.addf %15, %cst : f32
      %17 = arith.shrsi %6, %c1_i32 : i32
      %18 = arith.subi %6, %17 : i32
      %19 = arith.addi %17, %c127_i32 : i32
      %20 = arith.shli %19, %c23_i32 : i32
      %21 = arith.bitcast %20 : i32 to f32
      %22 = arith.mulf %16, %21 : f32
      %23 = arith.addi %18, %c127_i32 : i32
      %24 = arith.shli %23, %c23_i32 : i32
      %25 = arith.bitcast %24 : i32 to f32
      %26 = arith.mulf %22, %25 : f32
      %27 = arith.select %2, %cst_9, %26 : f32
      return %27 : f32
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
}

def CallLibmPass : Pass<"call-libm", "::mlir::ModuleOp"> {
  let summary = "Call the C library for expm1 and log1p";
  let description = [{
    `convert-math-to-llvm` makes `exp(x) - 1` and `log(1 + x)` of `math.expm1`
    and `math.log1p`: near 0 no digit of these is right. So they become calls
    of the C library before it; vectors, of each of their numbers.

    ```mlir
    func.func @growth(%x: f32) -> f32 {
      %y = math.expm1 %x : f32
      return %y : f32
    }
    ```

    Other functions stay.

    After `call-libm`:

    ```mlir
    func.func private @expm1f(f32) -> f32 attributes {llvm.readnone}
    func.func @growth(%x: f32) -> f32 {
      %y = call @expm1f(%x) : (f32) -> f32
      return %y : f32
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::func::FuncDialect", "::mlir::vector::VectorDialect"
  ];
}

#endif // PIPESCHED_CONVERSION_INLINEMATH_TD
