// RUN: pipesched-opt %s --exec-assign-buffers | FileCheck %s

// Memory is that of the instructions, not of the microbatches that the program
// declares.

func.func @d() -> (tensor<8xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<8xf32>
  return %x : tensor<8xf32>
}
func.func @f(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  return %x : tensor<8xf32>
}

// CHECK-LABEL: exec.program @sparse
// CHECK: worker 0 arena 192 {
// CHECK-NEXT: compute 0F2147483646 at [0, 64]
// CHECK-NEXT: send 0F2147483646 to 1 after {{.*}} at [64]
// CHECK-NEXT: compute 0F1 {{.*}}at [0, 128]
exec.program @sparse workers 2 microbatches 2147483647 {
  pipe.path on [0, 1]
  pipe.stage 0 forward @f
  pipe.stage 1 forward @f
  pipe.data @d
  worker 0 {
    %f0 = compute 0F2147483646
    %s0 = send 0F2147483646 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
  }
  worker 1 {
    %act0 = recv 0F2147483646 from 0
    %f0 = compute 1F2147483646 after %act0
    %act1 = recv 0F1 from 0
    %f1 = compute 1F1 after %act1
  }
}
