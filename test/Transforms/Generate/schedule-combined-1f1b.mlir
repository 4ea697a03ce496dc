// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-combined-1f1b{chunks=2},pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-combined-1f1b{schedule=wide chunks=2 group=4},pipe-verify{schedule=wide})' | FileCheck %s --check-prefix=GROUP
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-combined-1f1b{schedule=wide},pipe-verify{schedule=wide})' | FileCheck %s --check-prefix=ONE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{schedule=wide family=Combined_1F1B options=chunks=2})' | FileCheck %s --check-prefix=NAMED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-combined-1f1b{schedule=wide chunks=2 group=4})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-combined-1f1b{chunks=2 group=4 schedule=wide}

// The warm-up of interleaved 1F1B and one forward, then pairs.
// CHECK-LABEL: pipe.schedule @wide workers 2 microbatches 4 family "combined-1f1b" {
// CHECK-NEXT:     path on [0, 1, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 2F0 2F1 0F2 0F3+2B0 2F2+2B1 2F3+0B0 0B1 2B2 2B3 0B2 0B3]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 3F0 3F1+3B0 1F2+3B1 1F3+1B0 3F2+1B1 3F3+3B2 3B3 1B2 1B3]
// CHECK-NEXT:   }
// GROUP-LABEL: pipe.schedule @wide workers 2 microbatches 4 family "combined-1f1b" {group = 4 : i64} {
// GROUP-NEXT:     path on [0, 1, 0, 1]
// GROUP-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 2F0 2F1 2F2 2F3+2B0 2B1 2B2 2B3 0B0 0B1 0B2 0B3]
// GROUP-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 3F0 3F1+3B0 3F2+3B1 3F3+3B2 3B3 1B0 1B1 1B2 1B3]
// GROUP-NEXT:   }
// ONE-LABEL: pipe.schedule @wide workers 2 microbatches 4 family "combined-1f1b" {
// ONE-NEXT:     path on [0, 1]
// ONE-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3+0B0 0B1 0B2 0B3]
// ONE-NEXT:     worker 1 runs [1F0 1F1+1B0 1F2+1B1 1F3+1B2 1B3]
// ONE-NEXT:   }
// NAMED: pipe.schedule @wide workers 2 microbatches 4 family "combined-1f1b" {
pipe.schedule @wide workers 2 microbatches 4 {
  path on [0, 1]
}

// No worker has forwards left to pair.
// CHECK-LABEL: pipe.schedule @few workers 3 microbatches 1 family "combined-1f1b" {
// CHECK-NEXT:     path on [0, 1, 2, 0, 1, 2]
// CHECK-NEXT:     worker 0 runs [0F0 3F0 3B0 0B0]
// CHECK-NEXT:     worker 1 runs [1F0 4F0 4B0 1B0]
// CHECK-NEXT:     worker 2 runs [2F0 5F0 5B0 2B0]
// CHECK-NEXT:   }
pipe.schedule @few workers 3 microbatches 1 {
  path on [0, 1, 2]
}
