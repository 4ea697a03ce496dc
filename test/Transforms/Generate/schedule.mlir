// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=VPP options=chunks=2,split-backward=true})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=ScheduleInterleaved1F1B options=chunks=2 schedule=s})' | FileCheck %s --check-prefix=TORCH
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=ZBVZeroBubble})' -o %t.alias
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-v)' | diff %t.alias -
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=zb-auto options=memory=3})' -o %t.options
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-auto{memory=3})' | diff %t.options -
// RUN: pipesched-opt %s --dump-pass-pipeline --pass-pipeline='builtin.module(pipe-schedule{family=VPP options=chunks=2,split-backward=true})' 2>&1 >%t.out | FileCheck %s --check-prefix=DUMP

// DUMP: pipe-schedule{family=VPP options={chunks=2,split-backward=true} schedule=}

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 2
// CHECK-SAME: family "interleaved-1f1b" {split_backward = true} gradient after W
// CHECK-NEXT: path on [0, 1, 0, 1]
// CHECK-NEXT: worker 0 runs [0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT: worker 1 runs [1F0 1F1 3F0 3I0 3W0 3F1 3I1 3W1 1I0 1W0 1I1 1W1]

// TORCH: family "interleaved-1f1b" {
// TORCH: worker 0 runs [0F0 0F1 2F0 2F1 2B0 2B1 0B0 0B1]
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
}
