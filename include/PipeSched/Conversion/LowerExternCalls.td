//===- LowerExternCalls.td - Functions compiled elsewhere --*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Defines the pass that calls C functions.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_LOWEREXTERNCALLS_TD
#define PIPESCHED_CONVERSION_LOWEREXTERNCALLS_TD

include "mlir/Pass/PassBase.td"

def LowerExternCallsPass : Pass<"lower-extern-calls", "::mlir::ModuleOp"> {
  let summary = "Call extern functions by their interface of C";
  let description = [{
    After bufferization, `exec.call_extern` on memrefs becomes a call of its
    function with a pointer and the sizes for each tensor, and a check that the
    status is 0, which `lower-stage-checks` replaces (docs/Stages.md, "Extern
    functions"). A memref whose elements have gaps is copied to one without, and
    back where the function writes it.

    Errors: a symbol that the module already uses otherwise.

    ```mlir
    func.func @step(%w: memref<8xf32>, %g: memref<8xf32>) {
      exec.call_extern "sgd" ins(%g : memref<8xf32>)
          outs(%w : memref<8xf32>) in_place [0]
      return
    }
    ```

    After `lower-extern-calls`:

    ```mlir
    func.func private @pipesched_rt_check_status(i32)
    func.func private @sgd(!llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr) -> i32
    func.func @step(%w: memref<8xf32>, %g: memref<8xf32>) {
      %wi = memref.extract_aligned_pointer_as_index %w : memref<8xf32> -> index
      %wn = arith.index_cast %wi : index to i64
      %wp = llvm.inttoptr %wn : i64 to !llvm.ptr
      %ws = arith.constant 8 : i64
      %gi = memref.extract_aligned_pointer_as_index %g : memref<8xf32> -> index
      %gn = arith.index_cast %gi : index to i64
      %gp = llvm.inttoptr %gn : i64 to !llvm.ptr
      %gs = arith.constant 8 : i64
      %stream = llvm.mlir.zero : !llvm.ptr
      %status = call @sgd(%wp, %ws, %gp, %gs, %stream)
          : (!llvm.ptr, i64, !llvm.ptr, i64, !llvm.ptr) -> i32
      call @pipesched_rt_check_status(%status)
          {check = "extern function 'sgd'"} : (i32) -> ()
      return
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect"
  ];
}

#endif // PIPESCHED_CONVERSION_LOWEREXTERNCALLS_TD
