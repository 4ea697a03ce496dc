//===- ExecToMpi.td - convert-exec-to-mpi ------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A part of Passes.td.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_EXECTOMPI_TD
#define PIPESCHED_CONVERSION_EXECTOMPI_TD

include "mlir/Pass/PassBase.td"

def ConvertExecToMpiPass : Pass<"convert-exec-to-mpi", "::mlir::ModuleOp"> {
  let summary = "Turn programs with buffers into functions with MPI ops";
  let description = [{
    Replaces each `exec.program` by functions whose messages are ops of
    upstream's `mpi` dialect, so that passes of others see and lower them:

    - `<program>_begin` starts MPI and returns the rank of the process, which is
      its worker;
    - `<program>_worker_<w>` runs one step of a worker, `<program>_step` a step
      of the given one. Their arguments are the persistent block, the arena
      (docs/Lowering.md) and the number of the step. All workers take blocks of
      the largest sizes;
    - `<program>_end` ends MPI;
    - `<program>_size` and `<program>_layout` are as of `convert-exec-to-func`.

    A cell is a call of its kernel, which calls the functions of its stage. A
    message is a memref of one dimension with all its numbers; f16 and bf16 are
    i16, since upstream has no type of MPI for them. Each call and message has
    the location and, as an attribute, the name of its instruction.

    By default messages are `mpi.send` and `mpi.recv`, which may hold their
    process until the other side has come. So the program must finish as
    `exec-verify{messages=rendezvous}` proves; `exec-order-messages`, before
    `exec-assign-buffers`, gives it such an order. With `nonblocking` they are
    `mpi.isend` and `mpi.irecv`, with an `mpi.wait` where the result is needed
    or the place is used again, which LLVM 22.1 does not lower.

    Upstream takes MPICH or Open MPI from the module's `dlti.map`; without an
    entry the pass writes MPICH.

    Of the functions, the example shows the ones that worker 1 needs:

    ```mlir
    func.func private @twos() -> (tensor<8xf32> {pipe.input}) {
      %twos = arith.constant dense<2.0> : tensor<8xf32>
      return %twos : tensor<8xf32>
    }
    func.func private @scale(%w: tensor<8xf32> {pipe.param = "w"},
        %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %y = arith.mulf %w, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    exec.program @p workers 2 microbatches 1 {
      pipe.path on [0, 1]
      pipe.stage 0 forward @scale
      pipe.stage 1 forward @scale
      pipe.data @twos
      worker 0 arena 128 {
        %f0 = compute 0F0 at [0, 64]
        %s0 = send 0F0 to 1 after %f0 tag 0 at [64]
      }
      worker 1 arena 128 {
        %act0 = recv 0F0 from 0 tag 0 at [0]
        %f0 = compute 1F0 after %act0 at [0, 64]
      }
    }
    ```

    After `convert-exec-to-mpi, symbol-privatize{exclude=p_worker_1,p_begin},
    symbol-dce, canonicalize`:

    ```mlir
    module attributes {
        dlti.map = #dlti.map<"MPI:Implementation" = "MPICH">} {
      func.func private @scale(%w: tensor<8xf32>, %x: tensor<8xf32>) ->
          tensor<8xf32> attributes {stages = "F of stages 0 and 1"} {
        %y = arith.mulf %w, %x : tensor<8xf32>
        return %y : tensor<8xf32>
      }
      func.func private @p_1F(%w: memref<8xf32> {llvm.noalias},
          %x: memref<8xf32> {llvm.noalias}, %y: memref<8xf32> {llvm.noalias},
          %unit: i64, %step: i64) attributes
          {llvm.linkage = #llvm.linkage<internal>, no_inline,
          stages = "F of stage 1"} {
        %0 = bufferization.to_tensor %w restrict : memref<8xf32> to
            tensor<8xf32>
        %1 = bufferization.to_tensor %x restrict : memref<8xf32> to
            tensor<8xf32>
        %2 = bufferization.to_tensor %y restrict writable : memref<8xf32> to
            tensor<8xf32>
        %3 = call @scale(%0, %1) : (tensor<8xf32>, tensor<8xf32>) ->
            tensor<8xf32>
        %4 = linalg.copy ins(%3 : tensor<8xf32>) outs(%2 : tensor<8xf32>) ->
            tensor<8xf32>
        bufferization.materialize_in_destination %4 in restrict writable %y :
            (tensor<8xf32>, memref<8xf32>) -> ()
        return
      }
      func.func @p_worker_1(%persistent: memref<64xi8>,
          %arena: memref<128xi8>, %step: i64) {
        %c0_i64 = arith.constant 0 : i64
        %c64 = arith.constant 64 : index
        %c0_i32 = arith.constant 0 : i32
        %c0 = arith.constant 0 : index
        %world = mpi.comm_world : !mpi.comm
        %message = memref.view %arena[%c0][] : memref<128xi8> to memref<8xf32>
        mpi.recv(%message, %c0_i32, %c0_i32, %world)
            {instruction = "recv 0F0 from 0"} : memref<8xf32>, i32, i32
        %w = memref.view %persistent[%c0][] : memref<64xi8> to memref<8xf32>
        %x = memref.view %arena[%c0][] : memref<128xi8> to memref<8xf32>
        %y = memref.view %arena[%c64][] : memref<128xi8> to memref<8xf32>
        call @p_1F(%w, %x, %y, %c0_i64, %step) {instruction = "1F0"} :
            (memref<8xf32>, memref<8xf32>, memref<8xf32>, i64, i64) -> ()
        return
      }
      func.func @p_begin() -> i32 {
        mpi.init
        %world = mpi.comm_world : !mpi.comm
        %rank = mpi.comm_rank(%world) : i32
        return %rank : i32
      }
    }
    ```

    Functions of stages become private. Roles, models and descriptions are
    removed as by `convert-exec-to-func`.

    Errors: as of `convert-exec-to-func`; a program that deadlocks with such
    calls, with the cycle of waits; an instruction that is not a compute, send
    or receive, unless it is a sum in a group of one worker; a message of more
    than 2,147,483,647 numbers. If there is an error, no program is replaced.
  }];
  let dependentDialects = [
    "::mlir::DLTIDialect",
    "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
    "::mlir::mpi::MPIDialect", "::mlir::scf::SCFDialect"
  ];
  let options = [
    Option<"nonblocking", "nonblocking", "bool", /*default=*/"false",
           "Start messages by isend and irecv, and wait for them later">
  ];
}

#endif // PIPESCHED_CONVERSION_EXECTOMPI_TD
