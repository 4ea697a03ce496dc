//===- DeallocateBuffers.td - deallocate-buffers -----------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_DEALLOCATEBUFFERS_TD
#define PIPESCHED_CONVERSION_DEALLOCATEBUFFERS_TD

include "mlir/Pass/PassBase.td"

def DeallocateBuffersPass : Pass<"deallocate-buffers", "::mlir::ModuleOp"> {
  let summary = "Free the buffers of functions that upstream can read";
  let description = [{
    Runs upstream's `ownership-based-buffer-deallocation` on the functions of a
    module, except functions that free memory themselves or contain an operation
    with unknown effects on memory. Upstream refuses the whole module if it has
    one of these. With this pass a module of schedules can also have a function
    that calls MPI, which frees its own allocations.

    In the kernels of `convert-exec-to-func`, such an operation is an error.

    ```mlir
    func.func @freed(%x: memref<4xf32>) {
      memref.dealloc %x : memref<4xf32>
      return
    }
    ```

    After `deallocate-buffers`:

    ```mlir
    func.func @freed(%x: memref<4xf32>) {
      memref.dealloc %x : memref<4xf32>
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::bufferization::BufferizationDialect",
                           "::mlir::memref::MemRefDialect",
                           "::mlir::scf::SCFDialect"];
}

#endif // PIPESCHED_CONVERSION_DEALLOCATEBUFFERS_TD
