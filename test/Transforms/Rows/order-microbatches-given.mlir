// RUN: not pipesched-opt %s -pipe-order-microbatches='given=0,0' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not pipesched-opt %s -pipe-order-microbatches='given=0,2' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not pipesched-opt %s -pipe-order-microbatches='given=0,-1' 2>&1 | FileCheck %s --check-prefix=BELOW
// RUN: not pipesched-opt %s -pipe-order-microbatches='given=1' 2>&1 | FileCheck %s --check-prefix=SHORT

// TWICE: the order has microbatch 0 twice
// RANGE: the order has microbatch 2, expected 0 to 1
// BELOW: the order has microbatch -1, expected 0 to 1
// SHORT: expected an order of 2 microbatches, found 1
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
