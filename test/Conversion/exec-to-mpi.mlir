// RUN: split-file %s %t
// RUN: pipesched-opt %t/chain.mlir --exec-assign-buffers --convert-exec-to-mpi > %t/blocking.mlir
// RUN: FileCheck %t/chain.mlir < %t/blocking.mlir
// RUN: pipesched-opt %t/chain.mlir --exec-assign-buffers --convert-exec-to-mpi=nonblocking=true > %t/nonblocking.mlir
// RUN: FileCheck %t/chain.mlir --check-prefix=REQUESTS < %t/nonblocking.mlir
// RUN: pipesched-opt %t/chain.mlir --exec-assign-buffers --convert-exec-to-mpi --mlir-print-debuginfo --mlir-print-local-scope \
// RUN:   | FileCheck %t/chain.mlir --check-prefix=PLACES

// Stock MLIR accepts them.
// RUN: mlir-opt %t/blocking.mlir -o /dev/null
// RUN: mlir-opt %t/nonblocking.mlir -o /dev/null

// RUN: pipesched-opt %t/tied.mlir --exec-assign-buffers --convert-exec-to-mpi | FileCheck %t/tied.mlir
// RUN: pipesched-opt %t/exchange.mlir --exec-assign-buffers --convert-exec-to-mpi=nonblocking=true \
// RUN:   | FileCheck %t/exchange.mlir

//--- chain.mlir

// Numbers of 16 bits are sent as integers; the module's implementation of MPI stays. A message
// has one dimension. Worker 1 needs the larger persistent block, and both types say so.

// CHECK: module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI", "mine" = 1 : i32>}
// CHECK-LABEL: func.func private @p_0F(
// CHECK-SAME:    memref<2x4xf16> {llvm.noalias}, %{{.*}}: i64, %{{.*}}: i64) attributes
// CHECK:         return{{$}}
// CHECK-LABEL: func.func @p_worker_0(%arg0: memref<128xi8>, %arg1: memref<{{[0-9]+}}xi8>, %arg2: i64) {
// CHECK:         %[[WORLD:.*]] = mpi.comm_world : !mpi.comm
// CHECK:         call @p_0F({{.*}}, %arg2) {instruction = "0F0"}
// CHECK:         %[[MESSAGE:.*]] = memref.view %arg1[{{.*}}][] : memref<{{.*}}xi8> to memref<8xi16>
// CHECK:         %[[TO:.*]] = arith.constant 1 : i32
// CHECK:         %[[TAG:.*]] = arith.constant 0 : i32
// CHECK:         mpi.send(%[[MESSAGE]], %[[TAG]], %[[TO]], %[[WORLD]]) {instruction = "send 0F0 to 1"} : memref<8xi16>, i32, i32
// CHECK:         call @p_0F({{.*}}) {instruction = "0F1"}
// CHECK:         %[[TAG:.*]] = arith.constant 1 : i32
// CHECK:         mpi.send(%{{.*}}, %[[TAG]], {{.*}} {instruction = "send 0F1 to 1"}
// CHECK-NOT:     mpi.
// CHECK:         return{{$}}
// CHECK-LABEL: func.func @p_worker_1(
// CHECK:         mpi.recv({{.*}}) {instruction = "recv 0F0 from 0"} : memref<8xi16>, i32, i32
// CHECK-NEXT:    arith.constant
// CHECK:         call @p_1F({{.*}}) {instruction = "1F0"}
// CHECK-LABEL: func.func @p_begin() -> i32 {
// CHECK-NEXT:    mpi.init
// CHECK-NEXT:    %[[WORLD:.*]] = mpi.comm_world : !mpi.comm
// CHECK-NEXT:    %[[RANK:.*]] = mpi.comm_rank(%[[WORLD]]) : i32
// CHECK-NEXT:    return %[[RANK]] : i32
// CHECK-LABEL: func.func @p_end() {
// CHECK-NEXT:    mpi.finalize
// CHECK-LABEL: func.func @p_step(%arg0: i32, %arg1: memref<128xi8>, %arg2: memref<{{.*}}xi8>, %arg3: i64) -> i32 {
// CHECK:         case 1 {
// CHECK-NEXT:      func.call @p_worker_1(%arg1, %arg2, %arg3)
// CHECK-LABEL: func.func @p_size(
// CHECK-LABEL: func.func @p_layout(

// The sends end at the end of the step, and the receives at the cell that needs them.
// REQUESTS-LABEL: func.func @p_worker_0(
// REQUESTS:         %[[SEND0:.*]] = mpi.isend({{.*}}) {instruction = "send 0F0 to 1"} : memref<8xi16>, i32, i32 -> !mpi.request
// REQUESTS:         call @p_0F({{.*}}) {instruction = "0F1"}
// REQUESTS:         %[[SEND1:.*]] = mpi.isend({{.*}}) {instruction = "send 0F1 to 1"}
// REQUESTS-DAG:     mpi.wait(%[[SEND0]]) : !mpi.request
// REQUESTS-DAG:     mpi.wait(%[[SEND1]]) : !mpi.request
// REQUESTS-NEXT:    return
// REQUESTS-LABEL: func.func @p_worker_1(
// REQUESTS:         %[[RECV0:.*]] = mpi.irecv({{.*}}) {instruction = "recv 0F0 from 0"} : memref<8xi16>, i32, i32 -> !mpi.request
// REQUESTS:         %[[RECV1:.*]] = mpi.irecv({{.*}}) {instruction = "recv 0F1 from 0"}
// REQUESTS:         mpi.wait(%[[RECV0]])
// REQUESTS-NOT:     mpi.wait
// REQUESTS:         call @p_1F({{.*}}) {instruction = "1F0"}
// REQUESTS:         mpi.wait(%[[RECV1]])
// REQUESTS:         call @p_1F({{.*}}) {instruction = "1F1"}

// PLACES: mpi.send({{.*}}"send 0F0 to 1"{{.*}} loc("{{.*}}chain.mlir":[[# @LINE + 21]]:
module attributes {dlti.map = #dlti.map<"MPI:Implementation" = "OpenMPI", "mine" = 1 : i32>} {
func.func private @first(%x: tensor<2x4xf16> {pipe.input}) -> (tensor<2x4xf16> {pipe.output}) {
  %y = arith.addf %x, %x : tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}
func.func private @last(%w: tensor<2x32xf16> {pipe.param = "w"}, %x: tensor<2x4xf16> {pipe.input})
    -> (tensor<2x4xf16> {pipe.output}) {
  return %x : tensor<2x4xf16>
}
func.func private @data() -> (tensor<2x4xf16> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<2x4xf16>
  return %ones : tensor<2x4xf16>
}
exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @first
  pipe.stage 1 forward @last
  pipe.data @data
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %act1 = recv 0F1 from 0
    %f0 = compute 1F0 after %act0
    %f1 = compute 1F1 after %act1
  }
}
}

//--- tied.mlir

// Gradients start at zero. Before the first step of the optimizer, both gradients of a tied
// parameter become their sum.

// CHECK-LABEL: func.func @p_worker_0(%arg0: memref<{{.*}}xi8>
// CHECK:         linalg.fill ins(%{{.*}} : i8) outs(%{{.*}} : memref<{{.*}}xi8>)
// CHECK:         call @p_0B({{.*}}) {instruction = "0B0"}
// CHECK:         linalg.add ins(%[[SUM:.*]], %{{.*}} : memref<1xf32>, memref<1xf32>) outs(%[[SUM]] : memref<1xf32>)
// CHECK:         memref.copy %{{.*}}, %{{.*}} : memref<4xi8> to memref<4xi8>
// CHECK:         call @p_{{.*}} {instruction = "0O0"}
func.func private @f(%w: tensor<f32> {pipe.param = "w", pipe.tied = "w"}, %x: tensor<f32> {pipe.input})
    -> (tensor<f32> {pipe.output}) {
  %y = arith.mulf %w, %x : tensor<f32>
  return %y : tensor<f32>
}
func.func private @b(%w: tensor<f32> {pipe.param = "w"}, %x: tensor<f32> {pipe.input},
                     %dy: tensor<f32> {pipe.output_gradient})
    -> (tensor<f32> {pipe.gradient = "w"}, tensor<f32> {pipe.input_gradient}) {
  %dw = arith.mulf %x, %dy : tensor<f32>
  %dx = arith.mulf %w, %dy : tensor<f32>
  return %dw, %dx : tensor<f32>, tensor<f32>
}
func.func private @o(%w: tensor<f32> {pipe.param = "w"}, %dw: tensor<f32> {pipe.gradient = "w"})
    -> (tensor<f32> {pipe.param = "w"}) {
  %new = arith.subf %w, %dw : tensor<f32>
  return %new : tensor<f32>
}
func.func private @data() -> (tensor<f32> {pipe.input}) {
  %one = arith.constant dense<1.0> : tensor<f32>
  return %one : tensor<f32>
}
func.func private @loss(%y: tensor<f32> {pipe.output}) -> (tensor<f32> {pipe.loss}, tensor<f32> {pipe.output_gradient}) {
  return %y, %y : tensor<f32>, tensor<f32>
}
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0, 0]
  pipe.stage 0 forward @f backward @b update @o
  pipe.stage 1 forward @f backward @b update @o
  pipe.data @data
  pipe.loss @loss
  worker 0 {
    %f0 = compute 0F0
    %f0_1 = compute 1F0 after %f0
    %b0_1 = compute 1B0 after %f0_1
    %b0 = compute 0B0 after %f0, %b0_1
    %o0 = compute 0O0 after %b0
    %o0_1 = compute 1O0 after %b0_1
  }
}

//--- exchange.mlir

// Two workers that send to each other first may do so by calls that do not block.

// CHECK-LABEL: func.func @p_worker_0(
// CHECK:         mpi.isend
// CHECK:         mpi.irecv
// CHECK-LABEL: func.func @p_worker_1(
// CHECK:         mpi.isend
// CHECK:         mpi.irecv
func.func private @f(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
  return %x : tensor<4xf32>
}
func.func private @data() -> (tensor<4xf32> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %ones : tensor<4xf32>
}
exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @data
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %act1 = recv 0F1 from 1
    %f1 = compute 1F1 after %act1
  }
  worker 1 {
    %f1 = compute 0F1
    %s1 = send 0F1 to 0 after %f1
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
  }
}
