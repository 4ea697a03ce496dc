// RUN: pipesched-opt %s --convert-exec-to-func | FileCheck %s --check-prefixes=CHECK,TABLE
// RUN: pipesched-opt %s --convert-exec-to-func=form=straight | FileCheck %s --check-prefixes=CHECK,STRAIGHT
// RUN: pipesched-opt %s --convert-exec-to-func | mlir-opt --verify-each -o /dev/null

// Two workers hold both stages, in opposite directions. The stages call the same
// functions, so that they share kernels: "0F" serves stage 1 too, but for the
// first stage's data and the last stage's loss.

func.func private @forward(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %y = arith.mulf %w, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @backward(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input},
    %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  %dx = arith.mulf %w, %dy : tensor<4xf32>
  %dw = arith.mulf %x, %dy : tensor<4xf32>
  return %dx, %dw : tensor<4xf32>, tensor<4xf32>
}
func.func private @update(%w: tensor<4xf32> {pipe.param = "w"}, %dw: tensor<4xf32> {pipe.gradient = "w"},
    %step: i64 {pipe.step}) -> (tensor<4xf32> {pipe.param = "w"}) {
  %new = arith.subf %w, %dw : tensor<4xf32>
  return %new : tensor<4xf32>
}
func.func private @data(%m: i64 {pipe.microbatch}) -> (tensor<4xf32> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %ones : tensor<4xf32>
}
func.func private @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  return %zero, %y : tensor<f32>, tensor<4xf32>
}

exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1] takes [0:1]
  pipe.path on [1, 0] takes [1:2]
  pipe.stage 0 forward @forward backward @backward update @update
  pipe.stage 1 forward @forward backward @backward update @update
  pipe.data @data
  pipe.loss @loss
  worker 0 arena 640 host 128 {
    %f0 = compute 0F0 at [0, 64]
    %s0 = send 0F0 to 1 after %f0 tag 3 at [64]
    %act1 = recv 0F1 from 1 tag 5 at [128]
    %d = offload 0D0 after %f0, %s0 at [0, 64, 16]
    %f1 = compute 1F1 after %act1 at [128, 192]
    %u = reload 0U0 after %d at [512, 64, 16]
    wait after %u
    %b1 = compute 1B1 after %f1 at [192, 256, 128, 320]
    %sg1 = send 1B1 to 1 after %b1 tag 0 at [320]
    %g0 = recv 1B0 from 1 tag 0 at [384]
    %b0 = compute 0B0 after %g0 at [512, 384, 448]
    %ar1 = all_reduce 1G1 blocks 1 to 2 after %b1
    %ar0 = all_reduce 0G0 blocks 0 to 1 after %b0
    %o1 = compute 1O1 after %ar1
    %o0 = compute 0O0 after %ar0
  }
  worker 1 arena 640 {
    %f1 = compute 0F1 at [0, 64]
    %s1 = send 0F1 to 0 after %f1 tag 5 at [64]
    %act0 = recv 0F0 from 0 tag 3 at [128]
    %f0 = compute 1F0 after %act0 at [128, 192]
    %b0 = compute 1B0 after %f0 at [192, 256, 128, 320]
    %sg0 = send 1B0 to 0 after %b0 tag 0 at [320]
    %g1 = recv 1B1 from 0 tag 0 at [384]
    %b1 = compute 0B1 after %g1 at [0, 384, 448]
    %ar1 = all_reduce 1G0 blocks 1 to 2 after %b0
    %ar0 = all_reduce 0G1 blocks 0 to 1 after %b1
    %o1 = compute 1O0 after %ar1
    %o0 = compute 0O1 after %ar0
  }
}

// Roles are gone.
// CHECK-NOT:   pipe.param
// CHECK-NOT:   exec.

// F of the first stage: data writes x, which forward reads. Memrefs are written
// at the end, where nothing reads them any more.
// CHECK-LABEL: func.func private @p_0F(
// CHECK-SAME:    %[[X:[^:]*]]: memref<4xf32> {llvm.noalias}, %[[W:[^:]*]]: memref<4xf32> {llvm.noalias},
// CHECK-SAME:    %[[Y:[^:]*]]: memref<4xf32> {llvm.noalias}, %[[M:[^:]*]]: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) -> i32
// CHECK-SAME:    no_inline, stages = "F of stage 0"
// CHECK-NEXT:    %[[DX:.*]] = bufferization.to_tensor %[[X]] restrict writable
// CHECK-NEXT:    %[[TW:.*]] = bufferization.to_tensor %[[W]] restrict :
// CHECK-NEXT:    %[[DY:.*]] = bufferization.to_tensor %[[Y]] restrict writable
// CHECK-NEXT:    %[[TX:.*]] = call @data(%[[M]])
// CHECK-NEXT:    %[[PX:.*]] = linalg.copy ins(%[[TX]] : {{.*}}) outs(%[[DX]] :
// CHECK-NEXT:    %[[TY:.*]] = call @forward(%[[TW]], %[[PX]])
// CHECK-NEXT:    %[[PY:.*]] = linalg.copy ins(%[[TY]] : {{.*}}) outs(%[[DY]] :
// CHECK-NEXT:    bufferization.materialize_in_destination %[[PX]] in restrict writable %[[X]]
// CHECK-NEXT:    bufferization.materialize_in_destination %[[PY]] in restrict writable %[[Y]]
// CHECK-NEXT:    %[[FINE:.*]] = arith.constant 0 : i32
// CHECK-NEXT:    return %[[FINE]] : i32

// CHECK-LABEL: func.func private @p_1F(

// B of the last stage: the loss comes first; dw is added to the sum.
// CHECK-LABEL: func.func private @p_1B(
// CHECK:         call @loss(
// CHECK:         %[[B:.*]]:2 = call @backward(
// CHECK:         %[[NEW:.*]] = linalg.add ins(%[[SUM:.*]], %[[B]]#1 : {{.*}}) outs(%[[SUM]] :
// CHECK:         bufferization.materialize_in_destination %[[NEW]] in restrict writable %{{.*}}

// O reads and writes w: a copy of tensors keeps reads of the old w in front.
// CHECK-LABEL: func.func private @p_1O(
// CHECK:         %[[OLD:.*]] = bufferization.to_tensor %[[W:.*]] restrict writable
// CHECK:         %[[NEW:.*]] = call @update(%[[OLD]]
// CHECK-NEXT:    %[[COPY:.*]] = linalg.copy ins(%[[NEW]] : {{.*}}) outs(%[[OLD]] :
// CHECK-NEXT:    bufferization.materialize_in_destination %[[COPY]] in restrict writable %[[W]]

// O of stage 0 is the same kernel.
// CHECK-NOT:   @p_0O(

// The members of both groups, as bytes.
// CHECK:       memref.global "private" constant @p_members : memref<16xi8>
// CHECK-SAME:    dense<[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]>

// TABLE:       memref.global "private" constant @p_table
// A word of a section that repeats: base + r * step, or one of a list.
// TABLE-LABEL: func.func private @p_word(
// TABLE-SAME:    %[[POSITION:.*]]: index, %[[TIMES:.*]]: index, %[[PLACE:.*]]: index, %[[R:.*]]: i32) -> i32
// TABLE:         arith.cmpi eq, %[[TIMES]], %{{.*}} : index
// TABLE:         arith.cmpi eq, %[[CYCLE:.*]], %{{.*}} : i32
// TABLE:         arith.muli %[[R]], %[[STEP:.*]] : i32
// TABLE:         arith.remui %[[R]], %[[CYCLE]] : i32
// TABLE:         %[[ROUNDS:.*]] = arith.divui %[[R]], %[[CYCLE]] : i32
// TABLE:         arith.muli %[[ROUNDS]], %[[STEP]] : i32
// TABLE-LABEL: func.func private @p_walk(
// TABLE-SAME:    %[[BEGIN:.*]]: index, %[[END:.*]]: index,
// TABLE:         %[[WORDS:.*]] = memref.alloca() : memref<
// TABLE:         scf.while (%[[AT:.*]] = %[[BEGIN]], %[[STATUS:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// TABLE:           arith.cmpi ult, %[[AT]], %[[END]] : index
// TABLE:           arith.cmpi eq, %[[STATUS]], %{{.*}} : i32
// TABLE:           scf.for
// TABLE:             scf.for %[[I:.*]] = %c0{{.*}} to %[[LENGTH:[^ ]*]] step
// TABLE:               %[[WORD:.*]] = func.call @p_word(
// TABLE:               memref.store %[[WORD]], %[[WORDS]][%[[I]]]
// TABLE:             scf.while (%[[PLACE:.*]] = %{{.*}}, %[[STATUS:.*]] = %{{.*}}, %{{.*}} = %{{.*}})
// TABLE:               arith.cmpi ult, %[[PLACE]], %[[LENGTH]] : index
// TABLE:               memref.load %[[WORDS]]
// TABLE:           scf.index_switch
// TABLE:           case 0 {
// TABLE:             func.call @pipesched_rt_wait
// TABLE:           case 9 {
// TABLE:             func.call @pipesched_rt_all_reduce
// TABLE:           case 14 {
// TABLE:             %[[STATUS:.*]] = func.call @p_0F(
// TABLE:             scf.yield %{{.*}}, %[[STATUS]], %{{.*}} : index, i32, i32
// TABLE-LABEL: func.func private @p_worker_0(
// TABLE:         call @p_walk(

// The gradient of stage 0 (64 bytes at 64), then that of stage 1 and the losses
// (128 bytes at 192) are zero at first.
// STRAIGHT-LABEL: func.func private @p_worker_0(
// STRAIGHT-SAME:    %[[CONTEXT:[^:]*]]: !llvm.ptr, %[[PERSISTENT:[^:]*]]: !llvm.ptr, %[[ARENA:[^:]*]]: !llvm.ptr,
// STRAIGHT-SAME:    %[[HOST:[^:]*]]: !llvm.ptr, %{{.*}}: i64) -> i32
// STRAIGHT:         %[[AT:.*]] = llvm.getelementptr %[[PERSISTENT]][%c64
// STRAIGHT:         "llvm.intr.memset"(%[[AT]], %{{.*}}, %c64
// STRAIGHT:         %[[AT:.*]] = llvm.getelementptr %[[PERSISTENT]][%c192
// STRAIGHT:         "llvm.intr.memset"(%[[AT]], %{{.*}}, %c128
// STRAIGHT:         {instruction = "0F0"}
// STRAIGHT:         %[[STATUS:.*]] = call @p_0F({{.*}}, %[[CONTEXT]])
// STRAIGHT-NEXT:    arith.ori %{{.*}}, %[[STATUS]]
// STRAIGHT:         {instruction = "send 0F0 to 1"}
// STRAIGHT:         %[[AT:.*]] = llvm.getelementptr %[[ARENA]][%c64
// STRAIGHT:         call @pipesched_rt_send(%[[CONTEXT]], %[[AT]], %c16_i64{{[_0-9]*}}, %c1_i32{{[_0-9]*}}, %c3_i32{{[_0-9]*}}, %c0_i32
// STRAIGHT:         {instruction = "recv 0F1 from 1"}
// STRAIGHT:         call @pipesched_rt_recv(%[[CONTEXT]], %{{.*}}, %c16_i64{{[_0-9]*}}, %c1_i32{{[_0-9]*}}, %c5_i32{{[_0-9]*}}, %c1_i32
// The offload waits for the send (request 0), whose number is then free again.
// STRAIGHT:         call @pipesched_rt_wait(%[[CONTEXT]], %c0_i32
// STRAIGHT:         {instruction = "offload 0D0"}
// STRAIGHT:         %[[TO:.*]] = llvm.getelementptr %[[HOST]][%c64
// STRAIGHT:         %[[FROM:.*]] = llvm.getelementptr %[[ARENA]][%c0
// STRAIGHT:         call @pipesched_rt_offload(%[[CONTEXT]], %[[TO]], %[[FROM]], %c16_i64{{[_0-9]*}}, %c0_i32

// 1F1 waits for its receive (request 1), the reload for the offload.
// STRAIGHT:         call @pipesched_rt_wait(%[[CONTEXT]], %c1_i32
// STRAIGHT:         {instruction = "1F1"}
// STRAIGHT:         call @p_1F(
// STRAIGHT:         call @pipesched_rt_wait(%[[CONTEXT]], %c0_i32
// STRAIGHT:         {instruction = "reload 0U0"}
// STRAIGHT:         %[[TO:.*]] = llvm.getelementptr %[[ARENA]][%c512
// STRAIGHT:         %[[FROM:.*]] = llvm.getelementptr %[[HOST]][%c64
// STRAIGHT:         call @pipesched_rt_reload(%[[CONTEXT]], %[[TO]], %[[FROM]], %c16_i64{{[_0-9]*}}, %c0_i32

// The wait before 1B1 is part of it.
// STRAIGHT:         call @pipesched_rt_wait(%[[CONTEXT]], %c0_i32
// STRAIGHT:         {instruction = "1B1"}

// 16 floats of padding and sum, element type f32 (0), group 1 for blocks 1 to 2.
// STRAIGHT:         {instruction = "all_reduce 1G1"}
// STRAIGHT:         call @pipesched_rt_all_reduce(%[[CONTEXT]], %{{.*}}, %c16_i64{{[_0-9]*}}, %c0_i32{{[_0-9]*}}, %c1_i32{{[_0-9]*}}, %{{.*}}, %c2_i32{{[_0-9]*}},
// STRAIGHT:         {instruction = "0O0"}
// STRAIGHT:         call @p_1O(

// At the end it waits for the send that nothing waited for.
// STRAIGHT:         call @pipesched_rt_end(
// STRAIGHT:         call @pipesched_rt_wait(%[[CONTEXT]], %c0_i32
// STRAIGHT-NOT:     call
// STRAIGHT:         return

// A worker that does not exist is misuse.
// CHECK-LABEL: func.func @p_step(
// CHECK:         %[[MISUSE:.*]] = arith.constant 1 : i32
// CHECK:         scf.yield %[[MISUSE]] : i32

// Workers, persistent bytes, arena, host, requests, instructions, by worker.
// CHECK:       memref.global "private" constant @p_sizes : memref<12xi64>
// CHECK-SAME:    dense<[2, 320, 640, 128, 3, 14, 2, 320, 640, 0, 4, 12]>
// CHECK-LABEL: func.func @p_size(
// CHECK:       llvm.mlir.global internal constant @p_layout_text("{\22program\22:\22p\22,\22microbatches\22:2,
// CHECK-SAME:    {\22kind\22:\22loss\22,\22stage\22:1,\22name\22:\22loss\22,\22offset\22:256,\22bytes\22:8,\22shape\22:[2],\22type\22:\22f32\22}]
// CHECK-SAME:    \22instructions\22:[\220F0\22,\22send 0F0 to 1\22,
// CHECK-LABEL: func.func @p_layout() -> !llvm.ptr
