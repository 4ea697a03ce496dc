// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-dualpipe-v,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-dualpipe-v)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-dualpipe-v{schedule=}

// The order of PyTorch.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 10 family "dualpipe-v" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 0F7+7B3 7F4+0B0 0F8+7B4 7F5+0B1 0F9+7B5 7F6+0B2 7B6 7F7+0B3 7B7 7F8+0B4 7B8 7F9+0B5 7B9 0I6 0W6 0I7 0W7 0I8 0W8 0I9 0W9]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 6F0 1F5 6F1 6I0 6W0 6F2 6I1 6W1 6F3 1F6+6B2 6F4+1B0 1F7+6B3 6F5+1B1 1F8+6B4 6F6+1B2 1F9+6B5 6F7+1B3 6B6 6F8+1B4 6B7 6F9+1B5 6B8 1B6 6I9 1I7 6W9 1I8 1W7 1I9 1W8 1W9]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 2F5+5B1 5F4+2B0 2F6+5B2 5F5+2B1 2F7+5B3 5F6+2B2 2F8+5B4 5F7+2B3 2F9+5B5 5F8+2B4 5B6 5F9+2B5 5B7 2B6 5B8 2I7 5I9 2I8 2W7 2I9 5W9 2W8 2W9]
// CHECK-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 3F4 4B0 4F4+3B0 3F5+4B1 4F5+3B1 3F6+4B2 4F6+3B2 3F7+4B3 4F7+3B3 3F8+4B4 4F8+3B4 3F9+4B5 4F9+3B5 4B6 3B6 4B7 3B7 4I8 3I8 4I9 3I9 4W8 3W8 4W9 3W9]
// CHECK-NEXT:   }
pipe.schedule @golden workers 4 microbatches 10 {
  path on [0, 1, 2, 3]
}

// A V that begins elsewhere.
// CHECK-LABEL: pipe.schedule @placed workers 2 microbatches 4 family "dualpipe-v" {
// CHECK-NEXT:     path on [1, 0, 0, 1]
// CHECK-NEXT:     worker 0 runs [1F0 2F0 1F1 2F1 1F2 2B0 2F2+1B0 1F3+2B1 2F3+1B1 2B2 1B2 2I3 1I3 2W3 1W3]
// CHECK-NEXT:     worker 1 runs [0F0 0F1 0F2 3F0 3I0 3W0 3F1 0F3+3B1 3F2+0B0 3B2 3F3+0B1 3B3 0I2 0W2 0I3 0W3]
// CHECK-NEXT:   }
pipe.schedule @placed workers 2 microbatches 4 {
  path on [1, 0, 0, 1]
}
