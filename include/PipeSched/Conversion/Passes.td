//===- Passes.td - Conversions between levels -*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From tables to the programs of their workers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_CONVERSION_PASSES_TD
#define PIPESCHED_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertPipeToExecPass
    : Pass<"convert-pipe-to-exec", "::mlir::ModuleOp"> {
  let summary = "Turn schedules into programs of their workers";
  let description = [{
    Replaces each `pipe.schedule` by an `exec.program` of the same name, with
    its paths, family, gradient rule, model and profile. Cells become `compute`,
    `offload` and `reload`; joins become `wait`. If the next stage is on another
    worker, a `send` follows the cell, and a `recv` is placed in the row of its
    consumer. A G becomes an `all_reduce` of the blocks of its stage, or several
    if other paths cut these blocks into pieces. A worker that holds blocks more
    than once reduces them once, at the last of its G cells that cover them.

    A receive is placed at the unit slot in which its message arrives, after the
    cells that start there and after the sends of cells that end there
    (`receive-placement=arrival`), or right before the cell that needs it
    (`receive-placement=consumer`). The location of an instruction is its cell
    (docs/Dialects/RationaleExec.md, "Locations").

    ```mlir
    pipe.schedule @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `convert-pipe-to-exec`:

    ```mlir
    exec.program @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      pipe.path on [0, 1]
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
        %g1 = recv 1B1 from 1
        %b1 = compute 0B1 after %f1, %g1
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %act1 = recv 0F1 from 0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %f1 = compute 1F1 after %act1
        %b1 = compute 1B1 after %f1
        %sg1 = send 1B1 to 0 after %b1
      }
    }
    ```

    After `convert-pipe-to-exec{receive-placement=consumer}`:

    ```mlir
    exec.program @one_f_one_b workers 2 microbatches 2 family "1f1b" {
      pipe.path on [0, 1]
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
        %g1 = recv 1B1 from 1
        %b1 = compute 0B1 after %f1, %g1
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %act1 = recv 0F1 from 0
        %f1 = compute 1F1 after %act1
        %b1 = compute 1B1 after %f1
        %sg1 = send 1B1 to 0 after %b1
      }
    }
    ```

    Errors: a schedule without rows; one that `pipe-verify` rejects, with the
    same diagnostics. If there is an error, no schedule is replaced.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
  let options = [
    Option<"schedule", "schedule", "std::string", /*default=*/"",
           "Name of the schedule to treat; all where there is none">,
    Option<"receivePlacement", "receive-placement",
           "::pipesched::ReceivePlacement",
           /*default=*/"::pipesched::ReceivePlacement::Arrival",
           "Where a receive stands among the instructions of its worker",
           [{::pipesched::enumOptionValues<::pipesched::ReceivePlacement>()}]>,
    Option<"keepSchedule", "keep-schedule", "bool", /*default=*/"false",
           "Keep the schedule and call the program <name>_exec">
  ];
}

def ConvertExecToFuncPass
    : Pass<"convert-exec-to-func", "::mlir::ModuleOp"> {
  let summary = "Turn programs with buffers into functions";
  let description = [{
    Replaces each `exec.program` by functions of upstream dialects, of which
    three are public: `<program>_step` runs one step of the given worker,
    `<program>_size` returns the bytes of memory that a worker needs, and
    `<program>_layout` describes that memory and the instructions. They call the
    runtime library for messages, copies and sums (docs/Lowering.md).

    Each stage and phase becomes a kernel: a function in destination style that
    calls the functions of the stage. Stages that name the same functions share
    it. With `form=table` the instructions of all workers become one constant,
    which one loop walks; with `form=straight` they become a sequence of calls,
    which is easier to read but slow to compile.

    Here a worker runs one cell; the other two public functions are left out:

    ```mlir
    func.func private @scale(%w: tensor<8xf32> {pipe.param = "w"},
        %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %y = arith.mulf %w, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    func.func private @twos() -> (tensor<8xf32> {pipe.input}) {
      %twos = arith.constant dense<2.0> : tensor<8xf32>
      return %twos : tensor<8xf32>
    }
    exec.program @p workers 1 microbatches 1 {
      pipe.path on [0]
      pipe.stage 0 forward @scale
      pipe.data @twos
      worker 0 arena 128 {
        %f0 = compute 0F0 at [0, 64]
      }
    }
    ```

    After `convert-exec-to-func{form=straight},
    symbol-privatize{exclude=p_step}, symbol-dce`:

    ```mlir
    func.func private @pipesched_rt_end(!llvm.ptr, i32)
    func.func private @pipesched_rt_begin(!llvm.ptr, i32)
    func.func private @scale(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) ->
        tensor<8xf32> attributes {stages = "F of stage 0"} {
      %0 = arith.mulf %arg0, %arg1 : tensor<8xf32>
      return %0 : tensor<8xf32>
    }
    func.func private @twos() -> tensor<8xf32> attributes
        {stages = "F of stage 0"} {
      %cst = arith.constant dense<2.000000e+00> : tensor<8xf32>
      return %cst : tensor<8xf32>
    }
    func.func private @p_0F(%arg0: memref<8xf32> {llvm.noalias}, %arg1:
        memref<8xf32> {llvm.noalias}, %arg2: memref<8xf32> {llvm.noalias},
        %arg3: i64, %arg4: i64, %arg5: !llvm.ptr) -> i32 attributes
        {llvm.linkage = #llvm.linkage<internal>, no_inline,
        stages = "F of stage 0"} {
      %0 = bufferization.to_tensor %arg0 restrict writable : memref<8xf32> to
          tensor<8xf32>
      %1 = bufferization.to_tensor %arg1 restrict : memref<8xf32> to
          tensor<8xf32>
      %2 = bufferization.to_tensor %arg2 restrict writable : memref<8xf32> to
          tensor<8xf32>
      %3 = call @twos() : () -> tensor<8xf32>
      %4 = linalg.copy ins(%3 : tensor<8xf32>) outs(%0 : tensor<8xf32>) ->
          tensor<8xf32>
      %5 = call @scale(%1, %4) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      %6 = linalg.copy ins(%5 : tensor<8xf32>) outs(%2 : tensor<8xf32>) ->
          tensor<8xf32>
      bufferization.materialize_in_destination %4 in restrict writable %arg0 :
          (tensor<8xf32>, memref<8xf32>) -> ()
      bufferization.materialize_in_destination %6 in restrict writable %arg2 :
          (tensor<8xf32>, memref<8xf32>) -> ()
      %c0_i32 = arith.constant 0 : i32
      return %c0_i32 : i32
    }
    func.func private @p_worker_0(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2:
        !llvm.ptr, %arg3: !llvm.ptr, %arg4: i64) -> i32 attributes
        {llvm.linkage = #llvm.linkage<internal>, no_inline} {
      %0 = llvm.mlir.constant(0 : i64) : i64
      %1 = llvm.mlir.constant(1 : i64) : i64
      %2 = llvm.mlir.constant(9223372036854775807 : i64) : i64
      %3 = llvm.mlir.poison : !llvm.struct<(ptr, ptr, i64, array<1 x i64>,
          array<1 x i64>)>
      %4 = llvm.insertvalue %arg1, %3[0] : !llvm.struct<(ptr, ptr, i64, array<1
          x i64>, array<1 x i64>)>
      %5 = llvm.insertvalue %arg1, %4[1] : !llvm.struct<(ptr, ptr, i64, array<1
          x i64>, array<1 x i64>)>
      %6 = llvm.insertvalue %0, %5[2] : !llvm.struct<(ptr, ptr, i64, array<1 x
          i64>, array<1 x i64>)>
      %7 = llvm.insertvalue %2, %6[3, 0] : !llvm.struct<(ptr, ptr, i64, array<1
          x i64>, array<1 x i64>)>
      %8 = llvm.insertvalue %1, %7[4, 0] : !llvm.struct<(ptr, ptr, i64, array<1
          x i64>, array<1 x i64>)>
      %9 = builtin.unrealized_conversion_cast %8 : !llvm.struct<(ptr, ptr, i64,
          array<1 x i64>, array<1 x i64>)> to memref<?xi8>
      %10 = llvm.mlir.constant(0 : i64) : i64
      %11 = llvm.mlir.constant(1 : i64) : i64
      %12 = llvm.mlir.constant(9223372036854775807 : i64) : i64
      %13 = llvm.mlir.poison : !llvm.struct<(ptr, ptr, i64, array<1 x i64>,
          array<1 x i64>)>
      %14 = llvm.insertvalue %arg2, %13[0] : !llvm.struct<(ptr, ptr, i64,
          array<1 x i64>, array<1 x i64>)>
      %15 = llvm.insertvalue %arg2, %14[1] : !llvm.struct<(ptr, ptr, i64,
          array<1 x i64>, array<1 x i64>)>
      %16 = llvm.insertvalue %10, %15[2] : !llvm.struct<(ptr, ptr, i64, array<1
          x i64>, array<1 x i64>)>
      %17 = llvm.insertvalue %12, %16[3, 0] : !llvm.struct<(ptr, ptr, i64,
          array<1 x i64>, array<1 x i64>)>
      %18 = llvm.insertvalue %11, %17[4, 0] : !llvm.struct<(ptr, ptr, i64,
          array<1 x i64>, array<1 x i64>)>
      %19 = builtin.unrealized_conversion_cast %18 : !llvm.struct<(ptr, ptr,
          i64, array<1 x i64>, array<1 x i64>)> to memref<?xi8>
      %c0_i32 = arith.constant 0 : i32
      %c0_i32_0 = arith.constant 0 : i32
      call @pipesched_rt_begin(%arg0, %c0_i32_0) {instruction = "0F0"} :
          (!llvm.ptr, i32) -> ()
      %c0 = arith.constant 0 : index
      %view = memref.view %19[%c0][] : memref<?xi8> to memref<8xf32>
      %c0_1 = arith.constant 0 : index
      %c0_2 = arith.constant 0 : index
      %view_3 = memref.view %9[%c0_2][] : memref<?xi8> to memref<8xf32>
      %c64 = arith.constant 64 : index
      %view_4 = memref.view %19[%c64][] : memref<?xi8> to memref<8xf32>
      %c0_i64 = arith.constant 0 : i64
      %20 = call @p_0F(%view, %view_3, %view_4, %c0_i64, %arg4, %arg0) :
          (memref<8xf32>, memref<8xf32>, memref<8xf32>, i64, i64, !llvm.ptr) ->
          i32
      %21 = arith.ori %c0_i32, %20 : i32
      %c0_i32_5 = arith.constant 0 : i32
      call @pipesched_rt_end(%arg0, %c0_i32_5) : (!llvm.ptr, i32) -> ()
      return %21 : i32
    }
    func.func @p_step(%arg0: i32, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3:
        !llvm.ptr, %arg4: !llvm.ptr, %arg5: i64) -> i32 {
      %0 = arith.index_castui %arg0 : i32 to index
      %1 = scf.index_switch %0 -> i32
      case 0 {
        %2 = func.call @p_worker_0(%arg1, %arg2, %arg3, %arg4, %arg5) :
            (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> i32
        scf.yield %2 : i32
      }
      default {
        %c1_i32 = arith.constant 1 : i32
        scf.yield %c1_i32 : i32
      }
      return %1 : i32
    }
    ```

    The roles of arguments, models and descriptions of systems are removed as
    well if no schedule is left. Functions of stages become private.

    Errors: no program; a program without functions of stages, with functions
    that `pipe-verify-stages` refuses, or without buffers (`exec-assign-buffers`
    assigns them); buffers that lie outside of the arena or overlap in one
    kernel; a sum of elements that the runtime cannot add; an instruction of
    another dialect; a symbol that the module has already. If there is an error,
    no program is replaced.
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"
  ];
  let options = [
    Option<"form", "form", "::pipesched::ProgramForm",
           /*default=*/"::pipesched::ProgramForm::Table",
           "How the instructions of a worker are written",
           [{::pipesched::enumOptionValues<::pipesched::ProgramForm>()}]>
  ];
}

def ConvertPipeToFuncPass
    : Pass<"convert-pipe-to-func", "::mlir::ModuleOp"> {
  let summary = "Turn schedules into functions";
  let description = [{
    Replaces each `pipe.schedule` by the functions that `convert-pipe-to-exec`,
    `exec-assign-buffers` and `convert-exec-to-func`, run in this order, make of
    it, with the same errors. Programs stay arrays and never become ops, which
    takes a tenth of the time for a step with thousands of microbatches.

    Any `exec.program` of the module gets buffers and becomes functions, too. If
    there is an error, nothing is replaced.

    Of the functions, the example shows only the one that returns the memory of
    a worker:

    ```mlir
    func.func private @scale(%w: tensor<8xf32> {pipe.param = "w"},
        %x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
      %y = arith.mulf %w, %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    func.func private @scale_back(%x: tensor<8xf32> {pipe.input}) ->
        (tensor<8xf32> {pipe.gradient = "w"}) {
      return %x : tensor<8xf32>
    }
    func.func private @twos() -> (tensor<8xf32> {pipe.input}) {
      %twos = arith.constant dense<2.0> : tensor<8xf32>
      return %twos : tensor<8xf32>
    }
    pipe.schedule @p workers 1 microbatches 1 {
      path on [0]
      stage 0 forward @scale backward @scale_back
      data @twos
      worker 0 runs [0F0 0B0]
    }
    ```

    After `convert-pipe-to-func, symbol-privatize{exclude=p_size}, symbol-dce`:

    ```mlir
    memref.global "private" constant @p_sizes : memref<6xi64> =
        dense<[1, 128, 128, 0, 0, 2]>
    func.func @p_size(%arg0: i32, %arg1: i32) -> i64 {
      %0 = arith.index_castui %arg0 : i32 to index
      %1 = arith.index_castui %arg1 : i32 to index
      %c0 = arith.constant 0 : index
      %c6 = arith.constant 6 : index
      %2 = arith.muli %0, %c6 : index
      %3 = arith.addi %2, %1 : index
      %4 = arith.cmpi eq, %1, %c0 : index
      %5 = arith.select %4, %c0, %3 : index
      %6 = memref.get_global @p_sizes : memref<6xi64>
      %7 = memref.load %6[%5] : memref<6xi64>
      return %7 : i64
    }
    ```
  }];
  let dependentDialects = [
    "::pipesched::exec::ExecDialect", "::mlir::arith::ArithDialect",
    "::mlir::bufferization::BufferizationDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::LLVM::LLVMDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect"
  ];
  let options = [
    Option<"form", "form", "::pipesched::ProgramForm",
           /*default=*/"::pipesched::ProgramForm::Table",
           "How the instructions of a worker are written",
           [{::pipesched::enumOptionValues<::pipesched::ProgramForm>()}]>,
    Option<"receivePlacement", "receive-placement",
           "::pipesched::ReceivePlacement",
           /*default=*/"::pipesched::ReceivePlacement::Arrival",
           "Where a receive stands among the instructions of its worker",
           [{::pipesched::enumOptionValues<::pipesched::ReceivePlacement>()}]>,
    Option<"sends", "sends", "::pipesched::SendMode",
           /*default=*/"::pipesched::SendMode::Rendezvous",
           "When a send ends, for the proof (exec-assign-buffers)",
           [{::pipesched::enumOptionValues<::pipesched::SendMode>()}]>,
    Option<"inFlight", "in-flight", "int64_t", /*default=*/"2",
           "Sends posted before a place is used again (exec-assign-buffers)">,
    Option<"hostMemory", "host-memory", "int64_t", /*default=*/"-1",
           "Bytes of host memory of each worker, without limit where negative "
           "(exec-assign-buffers)">
  ];
}

def LowerStageOpsPass : Pass<"lower-stage-ops", "::mlir::ModuleOp"> {
  let summary = "Replace ops that have no bufferization or wrong numbers";
  let description = [{
    `linalg.softmax` and `tensor.concat` become ops that one-shot bufferization
    takes. So do calls of functions with `pipe.extern`, which become
    `exec.call_extern`.

    Replaces ops that upstream lowers to wrong numbers: sums of bf16 and f16 are
    added up in f32, f64 is rounded to bf16 once, clamps apply the lower bound
    first, negative powers are quotients, negative padding removes elements.

    An op whose operands are data that could make it read or write outside of a
    tensor, divide by 0 or loop forever gets a check in front of it: a
    `cf.assert`, or for an index a call of `pipesched_rt_check_index`, which
    `lower-stage-checks` replaces. An index that is known to be inside, such as
    that of a loop over the tensor, gets no check.

    A function that nothing calls and that has an op of a dialect that is not
    registered is removed, with a warning.

    Errors: another op on tensors that has no bufferization; floats of eight
    bits and less; an index that is known to be outside of its tensor. The error
    names the op, its function and, as far as they are known, its stages.

    ```mlir
    func.func @swap(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = tensor.extract_slice %x[0] [2] [1]
          : tensor<4xf32> to tensor<2xf32>
      %b = tensor.extract_slice %x[2] [2] [1]
          : tensor<4xf32> to tensor<2xf32>
      %y = tensor.concat dim(0) %b, %a
          : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```

    After `lower-stage-ops`:

    ```mlir
    func.func @swap(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = tensor.extract_slice %x[0] [2] [1]
          : tensor<4xf32> to tensor<2xf32>
      %b = tensor.extract_slice %x[2] [2] [1]
          : tensor<4xf32> to tensor<2xf32>
      %empty = tensor.empty() : tensor<4xf32>
      %half = tensor.insert_slice %b into %empty[0] [2] [1]
          : tensor<2xf32> into tensor<4xf32>
      %y = tensor.insert_slice %a into %half[2] [2] [1]
          : tensor<2xf32> into tensor<4xf32>
      return %y : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
    "::mlir::scf::SCFDialect", "::mlir::tensor::TensorDialect",
    "::pipesched::exec::ExecDialect"
  ];
}

def LowerStageChecksPass : Pass<"lower-stage-checks", "::mlir::ModuleOp"> {
  let summary = "Make branches of the checks of stage functions";
  let description = [{
    After the conversion of loops to branches, replaces each check of
    `lower-stage-ops`. When a check fails, a kernel of `convert-exec-to-func`
    frees its allocations, reports to the runtime the failure, the function and
    its stages, and returns the runtime's status. Other functions abort, or call
    the function that `handler` names with the text, the index and the size,
    which must not return.

    Removes the texts about stages, which are then no longer needed.

    Errors: a check in a region that is not a function; one in a function that a
    kernel calls, because it could not be inlined.

    ```mlir
    func.func private @pipesched_rt_check_index(index, index)
    func.func private @kernel(%x: memref<4xf32>, %i: index, %context: !llvm.ptr)
        -> i32 {
      %ok = arith.constant 0 : i32
      %size = arith.constant 4 : index
      call @pipesched_rt_check_index(%i, %size)
          {check = "'tensor.extract' op in function 'f', dimension 0"}
          : (index, index) -> ()
      %number = memref.load %x[%i] : memref<4xf32>
      return %ok : i32
    }
    ```

    After `lower-stage-checks`:

    ```mlir
    func.func private @pipesched_rt_fail_index(!llvm.ptr, !llvm.ptr, i64, i64)
        -> i32
    llvm.mlir.global internal constant @pipesched_check_0(
        "'tensor.extract' op in function 'f', dimension 0\00")
        {addr_space = 0 : i32}
    func.func private @kernel(%x: memref<4xf32>, %i: index, %context: !llvm.ptr)
        -> i32 {
      %ok = arith.constant 0 : i32
      %size = arith.constant 4 : index
      %inside = arith.cmpi ult, %i, %size : index
      cf.cond_br %inside, ^rest, ^failed
    ^failed:
      %text = llvm.mlir.addressof @pipesched_check_0 : !llvm.ptr
      %index64 = arith.index_cast %i : index to i64
      %size64 = arith.index_cast %size : index to i64
      %status = call @pipesched_rt_fail_index(%context, %text, %index64,
          %size64) : (!llvm.ptr, !llvm.ptr, i64, i64) -> i32
      return %status : i32
    ^rest:
      %number = memref.load %x[%i] : memref<4xf32>
      return %ok : i32
    }
    ```
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::cf::ControlFlowDialect",
    "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect"
  ];
  let options = [
    Option<"handler", "handler", "std::string", /*default=*/"",
           "Function that ends other functions than kernels">
  ];
}

def LowerMemRefCopiesPass : Pass<"lower-memref-copies", "::mlir::ModuleOp"> {
  let summary = "Turn copies of non-contiguous memrefs into linalg.generic";
  let description = [{
    Upstream lowers a `memref.copy` between memrefs with a layout, such as
    columns of a matrix, to a call of a library function, `memrefCopy`.

    ```mlir
    func.func @column(%x: memref<4xf32>, %y: memref<4xf32, strided<[6]>>) {
      memref.copy %x, %y : memref<4xf32> to memref<4xf32, strided<[6]>>
      return
    }
    ```

    After `lower-memref-copies`:

    ```mlir
    #map = affine_map<(d0) -> (d0)>
    func.func @column(%x: memref<4xf32>, %y: memref<4xf32, strided<[6]>>) {
      linalg.generic {indexing_maps = [#map, #map],
                      iterator_types = ["parallel"]}
          ins(%x : memref<4xf32>) outs(%y : memref<4xf32, strided<[6]>>) {
      ^bb0(%in: f32, %out: f32):
        linalg.yield %in : f32
      }
      return
    }
    ```
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect"];
}

include "PipeSched/Conversion/CallBlas.td"
include "PipeSched/Conversion/DeallocateBuffers.td"
include "PipeSched/Conversion/ExecToMpi.td"
include "PipeSched/Conversion/LowerExternCalls.td"

def CallLibmPass : Pass<"call-libm", "::mlir::ModuleOp"> {
  let summary = "Call the C library for expm1 and log1p";
  let description = [{
    `convert-math-to-llvm` turns `math.expm1` and `math.log1p` into `exp(x) - 1`
    and `log(1 + x)`, which have no correct digit near 0. So they become calls
    of the C library before it; for vectors, a call for each number.

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

def VerifyKernelStoresPass : Pass<"verify-kernel-stores", "::mlir::ModuleOp"> {
  let summary = "Verify that stores overwrite nothing that is read later";
  let description = [{
    One-shot bufferization treats each `bufferization.to_tensor ... restrict` as
    separate memory, and does not see that
    `bufferization.materialize_in_destination` writes a memref. This pass runs
    before it, and verifies what makes both right. A memref that a function
    writes

    - is an argument of it;
    - is used by one `to_tensor`, which has `restrict`, by one store, and by
      nothing else;
    - is stored to after all ops that read tensors or memory;
    - gets a tensor in that memref, in new memory, or in a memref that no store
      in front of this one writes, wherever bufferization may put it.

    Kernels of `convert-exec-to-func` have this form. A pass between it and
    bufferization may break it: `eliminate-empty-tensors` itself does if there
    are stores between other ops.

    It changes nothing. Errors: an op that breaks one of these rules, named with
    its function.

    ```mlir
    func.func @double(%x: memref<4xf32>) {
      %old = bufferization.to_tensor %x restrict writable
          : memref<4xf32> to tensor<4xf32>
      %new = linalg.add ins(%old, %old : tensor<4xf32>, tensor<4xf32>)
          outs(%old : tensor<4xf32>) -> tensor<4xf32>
      bufferization.materialize_in_destination %new in restrict writable %x
          : (tensor<4xf32>, memref<4xf32>) -> ()
      return
    }
    ```

    After `verify-kernel-stores`:

    ```mlir
    func.func @double(%x: memref<4xf32>) {
      %old = bufferization.to_tensor %x restrict writable
          : memref<4xf32> to tensor<4xf32>
      %new = linalg.add ins(%old, %old : tensor<4xf32>, tensor<4xf32>)
          outs(%old : tensor<4xf32>) -> tensor<4xf32>
      bufferization.materialize_in_destination %new in restrict writable %x
          : (tensor<4xf32>, memref<4xf32>) -> ()
      return
    }
    ```
  }];
}

#endif // PIPESCHED_CONVERSION_PASSES_TD
