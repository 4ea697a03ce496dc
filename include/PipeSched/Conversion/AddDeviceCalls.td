//===- AddDeviceCalls.td - Kernels on memory of a device ---*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass that tells the runtime where the processor uses the memory of a
// device, and gives streams to extern functions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_ADDDEVICECALLS_TD
#define PIPESCHED_CONVERSION_ADDDEVICECALLS_TD

include "mlir/Pass/PassBase.td"

def AddDeviceCallsPass : Pass<"add-device-calls", "::mlir::ModuleOp"> {
  let summary = "Prepare kernels for memory of a device";
  let description = [{
    Behind `lower-extern-calls`, each kernel of `convert-exec-to-func` begins
    with a call of `pipesched_rt_enter`, which says what its code does
    (docs/Devices.md):

    | | |
    |---|---|
    | 0 | it calls extern functions on its arguments, and does nothing else |
    | 1 | it reads or writes memory itself |
    | 2 | it does, and calls extern functions on temporaries |

    Extern functions are given the compute stream of the worker. Where the code
    is of kind 1 or 2 it waits for the stream behind each of these calls.

    Errors: a call of an extern function in a function that is not part of a
    kernel, and so has no worker.

    ```mlir
    func.func private @pipesched_rt_check_status(i32)
    func.func private @sgd(!llvm.ptr, i64, !llvm.ptr) -> i32
    func.func private @p_0O(%w: memref<8xf32>, %context: !llvm.ptr) -> i32 {
      %wi = memref.extract_aligned_pointer_as_index %w : memref<8xf32> -> index
      %wn = arith.index_cast %wi : index to i64
      %wp = llvm.inttoptr %wn : i64 to !llvm.ptr
      %ws = arith.constant 8 : i64
      %stream = llvm.mlir.zero : !llvm.ptr
      %status = call @sgd(%wp, %ws, %stream)
          : (!llvm.ptr, i64, !llvm.ptr) -> i32
      call @pipesched_rt_check_status(%status)
          {check = "extern function 'sgd'"} : (i32) -> ()
      %zero = arith.constant 0 : i32
      return %zero : i32
    }
    ```

    After `add-device-calls`:

    ```mlir
    func.func private @pipesched_rt_stream(!llvm.ptr) -> !llvm.ptr
    func.func private @pipesched_rt_enter(!llvm.ptr, i32, !llvm.ptr) -> i32
    llvm.mlir.global internal constant @pipesched_code_0("p_0O\00")
        {addr_space = 0 : i32}
    func.func private @pipesched_rt_check_status(i32)
    func.func private @sgd(!llvm.ptr, i64, !llvm.ptr) -> i32
    func.func private @p_0O(%w: memref<8xf32>, %context: !llvm.ptr) -> i32 {
      %code = arith.constant 0 : i32
      %text = llvm.mlir.addressof @pipesched_code_0 : !llvm.ptr
      %entered = call @pipesched_rt_enter(%context, %code, %text)
          : (!llvm.ptr, i32, !llvm.ptr) -> i32
      call @pipesched_rt_check_status(%entered) {check = "device"} : (i32) -> ()
      %wi = memref.extract_aligned_pointer_as_index %w : memref<8xf32> -> index
      %wn = arith.index_cast %wi : index to i64
      %wp = llvm.inttoptr %wn : i64 to !llvm.ptr
      %ws = arith.constant 8 : i64
      %stream = llvm.mlir.zero : !llvm.ptr
      %own = call @pipesched_rt_stream(%context) : (!llvm.ptr) -> !llvm.ptr
      %status = call @sgd(%wp, %ws, %own) : (!llvm.ptr, i64, !llvm.ptr) -> i32
      call @pipesched_rt_check_status(%status)
          {check = "extern function 'sgd'"} : (i32) -> ()
      %zero = arith.constant 0 : i32
      return %zero : i32
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect"
  ];
}

#endif // PIPESCHED_CONVERSION_ADDDEVICECALLS_TD
