// RUN: pipesched-opt %s --add-device-calls -verify-diagnostics

func.func private @pipesched_rt_check_status(i32)
func.func private @scale(!llvm.ptr) -> i32
func.func @alone() {
  %stream = llvm.mlir.zero : !llvm.ptr
  // expected-error @below {{calls the extern function 'scale' in function 'alone', which is not part of a kernel and has no stream; expected functions that can be inlined}}
  %status = call @scale(%stream) : (!llvm.ptr) -> i32
  call @pipesched_rt_check_status(%status) {check = "extern function 'scale'"} : (i32) -> ()
  return
}
