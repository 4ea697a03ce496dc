// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots,pipe-verify{schedule=s})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots,pipe-align-slots)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=unit schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=blocks},pipe-verify{schedule=s})' | FileCheck %s --check-prefix=BLOCKS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=blocks},pipe-compact,pipe-align-slots)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=durations},pipe-verify{schedule=profiled})' | FileCheck %s --check-prefix=TIMES
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=durations slot=0.5ms schedule=profiled})' 2>&1 | FileCheck %s --check-prefix=ROUNDED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=durations slot=0.5ms schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=OPTIONS

// PIPELINE: pipe-align-slots{schedule=s slot= slots=unit}
// OPTIONS: pipe-align-slots{schedule=s slot=0.5ms slots=durations}

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 2 family "1f1b" aligned {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
// CHECK-NEXT:    worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
// CHECK-NEXT:  }
pipe.schedule @s workers 2 microbatches 2 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// Stages of unequal length, by blocks: one slot is one block.
// CHECK-LABEL:  pipe.schedule @uneven workers 2 microbatches 2 aligned {
// CHECK-NEXT:     path on [0, 1] takes [0] blocks [1, 3]
// CHECK-NEXT:     path on [1, 0] takes [1] blocks [3, 1]
// CHECK-NEXT:     worker 0 runs [0F0 1F1 1B1 0B0]
// CHECK-NEXT:     worker 1 runs [0F1 1F0 1B0 0B1]
// BLOCKS-LABEL: pipe.schedule @uneven workers 2 microbatches 2 aligned slots <[1, 3, 3, 1]> {
// BLOCKS-NEXT:    path on [0, 1] takes [0] blocks [1, 3]
// BLOCKS-NEXT:    path on [1, 0] takes [1] blocks [3, 1]
// BLOCKS-NEXT:    worker 0 runs [0F0 _2 1F1 1B1 _6 0B0 _4]
// BLOCKS-NEXT:    worker 1 runs [0F1 1F0 1B0 0B1]
pipe.schedule @uneven workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [1, 3]
  path on [1, 0] takes [1] blocks [3, 1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}

// If the path does not say, layers are those of the model. Without either, blocks and
// durations are unit slots.
// BLOCKS-LABEL: pipe.schedule @trained workers 2 microbatches 1 aligned slots <5> model @m profile <"F=1us,B=2us"> {
// BLOCKS-NEXT:    path on [0, 1]
// BLOCKS-NEXT:    worker 0 runs [0F0 _15 0B0]
// BLOCKS-NEXT:    worker 1 runs [_5 1F0 1B0 _10]
pipe.schedule @trained workers 2 microbatches 1 model @m profile <"F=1us,B=2us"> {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
pipe.model @m microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] source "" {
  block "layer" x 10 parameters 1 activation_bytes 1 weight_grad_bytes 1 recomputed_bytes 1 {
  }
}

// With durations, a slot is the largest that divides them all, or the given one. A pair
// has a separate time.
// TIMES-LABEL:   pipe.schedule @profiled workers 2 microbatches 2 aligned slots <F = [2, 3], B = 5, FB = 7> profile <"F=[800us,1.2ms],B=2ms,FB=2.8ms,comm=1s"> {
// TIMES-NEXT:      path on [0, 1]
// TIMES-NEXT:      worker 0 runs [0F0 0F1 _8 0B0 0B1]
// TIMES-NEXT:      worker 1 runs [_2 1F0 1F1+1B0 1B1 _5]
// ROUNDED:       remark: durations are rounded to slots of 500us, by 200us at most
// ROUNDED-LABEL: pipe.schedule @profiled workers 2 microbatches 2 aligned slots <F = 2, B = 4, FB = 6> profile
// ROUNDED-NEXT:    path on [0, 1]
// ROUNDED-NEXT:    worker 0 runs [0F0 0F1 _6 0B0 0B1]
// ROUNDED-NEXT:    worker 1 runs [_2 1F0 1F1+1B0 1B1 _4]
pipe.schedule @profiled workers 2 microbatches 2 profile <"F=[0.8ms,1.2ms],B=2ms,FB=2.8ms,comm=1s"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1F1+1B0 1B1]
}

// A problem has nothing to align.
// CHECK-LABEL: pipe.schedule @problem workers 1 microbatches 1 {
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
