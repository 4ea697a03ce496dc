// RUN: split-file %s %t
// RUN: pipesched-opt %t/kernel.mlir --lower-stage-checks | FileCheck %s
// RUN: pipesched-opt %t/kernel.mlir --lower-stage-checks=handler=leave | FileCheck %s --check-prefix=HANDLER
// RUN: pipesched-opt %t/invalid.mlir --lower-stage-checks --split-input-file --verify-diagnostics

//--- kernel.mlir
func.func private @pipesched_rt_check_index(index, index)

// What is allocated when a check fails is freed, and what is freed already is
// not freed again. The text names the stages.
// CHECK:       llvm.mlir.global internal constant @[[TEXT1:.*]]("F of stage 3: second\00")
// CHECK:       llvm.mlir.global internal constant @[[TEXT0:.*]]("F of stage 3: first\00")
// CHECK-NOT:   pipesched_rt_check_index
// CHECK-LABEL: func.func private @kernel(
// CHECK-SAME:    %[[I:[^:]*]]: index, %[[OK:[^:]*]]: i1, %[[CONTEXT:[^:]*]]: !llvm.ptr) -> i32 {
// CHECK:         %[[A:.*]] = memref.alloc()
// CHECK:         %[[B:.*]] = memref.alloc()
// CHECK:         %[[INSIDE:.*]] = arith.cmpi ult, %[[I]], %[[SIZE:.*]] : index
// CHECK-NEXT:    cf.cond_br %[[INSIDE]], ^[[REST:.*]], ^[[FAILED:.*]]
// CHECK:       ^[[FAILED]]:
// CHECK-DAG:     memref.dealloc %[[A]] :
// CHECK-DAG:     memref.dealloc %[[B]] :
// CHECK:         %[[TEXT:.*]] = llvm.mlir.addressof @[[TEXT0]]
// CHECK:         %[[STATUS:.*]] = call @pipesched_rt_fail_index(%[[CONTEXT]], %[[TEXT]],
// CHECK-NEXT:    return %[[STATUS]]
// CHECK:       ^[[REST]]:
// CHECK-NEXT:    memref.dealloc %[[B]] :
// CHECK-NEXT:    cf.cond_br %[[OK]], ^{{.*}}, ^[[FAILED:.*]]
// CHECK:       ^[[FAILED]]:
// CHECK-NEXT:    memref.dealloc %[[A]] :
// CHECK-NEXT:    %[[TEXT:.*]] = llvm.mlir.addressof @[[TEXT1]]
// CHECK-NEXT:    %[[STATUS:.*]] = call @pipesched_rt_fail(%[[CONTEXT]], %[[TEXT]])
// CHECK-NEXT:    return %[[STATUS]]
func.func private @kernel(%i: index, %ok: i1, %context: !llvm.ptr) -> i32
    attributes {stages = "F of stage 3"} {
  %fine = arith.constant 0 : i32
  %size = arith.constant 4 : index
  %a = memref.alloc() : memref<4xf32>
  %b = memref.alloc() : memref<4xf32>
  call @pipesched_rt_check_index(%i, %size) {check = "first"}
      : (index, index) -> ()
  memref.dealloc %b : memref<4xf32>
  cf.assert %ok, "second"
  memref.dealloc %a : memref<4xf32>
  return %fine : i32
}

// A function that is not a kernel aborts, or calls the handler.
// CHECK-LABEL: func.func @init(
// CHECK-NEXT:    %[[INSIDE:.*]] = arith.cmpi ult,
// CHECK-NEXT:    cf.assert %[[INSIDE]], "first"
// CHECK-NEXT:    cf.assert %{{.*}}, "second"
// HANDLER-LABEL: func.func @init(
// HANDLER:         call @leave(%{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, i64, i64) -> ()
// HANDLER-NEXT:    llvm.unreachable
// HANDLER:         %[[NONE:.*]] = arith.constant -1 : i64
// HANDLER:         call @leave(%{{.*}}, %{{.*}}, %[[NONE]])
func.func @init(%i: index, %size: index, %ok: i1) {
  call @pipesched_rt_check_index(%i, %size) {check = "first"}
      : (index, index) -> ()
  cf.assert %ok, "second"
  return
}

//--- invalid.mlir
func.func private @pipesched_rt_check_index(index, index)
// expected-error@+1 {{in function 'callee' (F of stage 0) indices or divisors are data, which cannot be checked where a call is not inlined}}
func.func private @callee(%i: index, %size: index)
    attributes {stages = "F of stage 0"} {
  call @pipesched_rt_check_index(%i, %size) {check = "first"}
      : (index, index) -> ()
  return
}
func.func private @between(%i: index) {
  call @callee(%i, %i) : (index, index) -> ()
  return
}
func.func private @kernel(%i: index, %context: !llvm.ptr) -> i32 {
  %fine = arith.constant 0 : i32
  call @between(%i) : (index) -> ()
  return %fine : i32
}

// -----

func.func private @kernel(%ok: i1, %context: !llvm.ptr) -> i32 {
  %fine = arith.constant 0 : i32
  scf.if %ok {
    // expected-error@+1 {{a check stands inside of 'scf.if'; expected branches, as convert-scf-to-cf makes them}}
    cf.assert %ok, "second"
  }
  return %fine : i32
}
