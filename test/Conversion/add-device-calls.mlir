// RUN: pipesched-opt %s --add-device-calls -split-input-file | FileCheck %s

func.func private @pipesched_rt_check_status(i32)
func.func private @scale(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32

// Extern functions on arguments, also on parts of them, and nothing else.

// CHECK-DAG: llvm.mlir.global internal constant @pipesched_code_0("F of stage 3\00")
// CHECK-LABEL: func.func private @p_3F(
// CHECK-SAME: %[[CONTEXT:[a-z0-9]*]]: !llvm.ptr) -> i32
// CHECK: %[[CODE:.*]] = arith.constant 0 : i32
// CHECK: %[[TEXT:.*]] = llvm.mlir.addressof @pipesched_code_0
// CHECK: %[[STATUS:.*]] = call @pipesched_rt_enter(%[[CONTEXT]], %[[CODE]], %[[TEXT]])
// CHECK: call @pipesched_rt_check_status(%[[STATUS]]) {check = "device"}
// CHECK: %[[STREAM:.*]] = call @pipesched_rt_stream(%[[CONTEXT]])
// CHECK: call @scale(%{{.*}}, %{{.*}}, %[[STREAM]])
// CHECK-NOT: @pipesched_rt_enter
// CHECK: return
func.func private @p_3F(%x: memref<4x8xf32>, %y: memref<8xf32>, %context: !llvm.ptr) -> i32
    attributes {stages = "F of stage 3"} {
  %part = memref.subview %x[1, 0] [1, 8] [1, 1] : memref<4x8xf32> to memref<8xf32, strided<[1], offset: 8>>
  %xi = memref.extract_aligned_pointer_as_index %part : memref<8xf32, strided<[1], offset: 8>> -> index
  %yi = memref.extract_aligned_pointer_as_index %y : memref<8xf32> -> index
  %offset = arith.constant 32 : index
  %at = arith.addi %xi, %offset : index
  %xn = arith.index_cast %at : index to i64
  %yn = arith.index_cast %yi : index to i64
  %xp = llvm.inttoptr %xn : i64 to !llvm.ptr
  %yp = llvm.inttoptr %yn : i64 to !llvm.ptr
  %stream = llvm.mlir.zero : !llvm.ptr
  %status = call @scale(%xp, %yp, %stream) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  call @pipesched_rt_check_status(%status) {check = "extern function 'scale'"} : (i32) -> ()
  %zero = arith.constant 0 : i32
  return %zero : i32
}

// Code of the processor; an op with a region that computes numbers uses memory, too.

// CHECK-LABEL: func.func private @p_3B(
// CHECK: arith.constant 1 : i32
// CHECK: call @pipesched_rt_enter
// CHECK: linalg.generic
func.func private @p_3B(%x: memref<8xf32>, %context: !llvm.ptr) -> i32 {
  linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%x : memref<8xf32>) {
  ^bb0(%old: f32):
    %twice = arith.addf %old, %old : f32
    linalg.yield %twice : f32
  }
  %zero = arith.constant 0 : i32
  return %zero : i32
}

// A loop of launches has no code of the processor; a temporary is none of the device.

// CHECK-LABEL: func.func private @p_3I(
// CHECK: arith.constant 0 : i32
// CHECK: call @pipesched_rt_enter
// CHECK: scf.for
// CHECK-NEXT: call @pipesched_rt_stream
func.func private @p_3I(%x: memref<8xf32>, %context: !llvm.ptr) -> i32 {
  %xi = memref.extract_aligned_pointer_as_index %x : memref<8xf32> -> index
  %xn = arith.index_cast %xi : index to i64
  %xp = llvm.inttoptr %xn : i64 to !llvm.ptr
  %stream = llvm.mlir.zero : !llvm.ptr
  %first = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 3 : index
  scf.for %i = %first to %end step %one {
    %status = func.call @scale(%xp, %xp, %stream) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
    func.call @pipesched_rt_check_status(%status) {check = "extern function 'scale'"} : (i32) -> ()
  }
  %zero = arith.constant 0 : i32
  return %zero : i32
}

// CHECK-LABEL: func.func private @p_3W(
// CHECK: arith.constant 2 : i32
// CHECK: call @pipesched_rt_enter
// CHECK: call @scale
// CHECK-NEXT: call @pipesched_rt_check_status
// CHECK-NEXT: arith.constant 1 : i32
// CHECK: call @pipesched_rt_enter
func.func private @p_3W(%x: memref<8xf32>, %context: !llvm.ptr) -> i32 {
  %y = memref.alloc() : memref<8xf32>
  %xi = memref.extract_aligned_pointer_as_index %x : memref<8xf32> -> index
  %yi = memref.extract_aligned_pointer_as_index %y : memref<8xf32> -> index
  %xn = arith.index_cast %xi : index to i64
  %yn = arith.index_cast %yi : index to i64
  %xp = llvm.inttoptr %xn : i64 to !llvm.ptr
  %yp = llvm.inttoptr %yn : i64 to !llvm.ptr
  %stream = llvm.mlir.zero : !llvm.ptr
  %status = call @scale(%xp, %yp, %stream) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
  call @pipesched_rt_check_status(%status) {check = "extern function 'scale'"} : (i32) -> ()
  memref.dealloc %y : memref<8xf32>
  %zero = arith.constant 0 : i32
  return %zero : i32
}
