// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interleaved-zb{chunks=2},pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interleaved-zb{schedule=golden chunks=2 group=4})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-interleaved-zb{chunks=2 group=4 schedule=golden}

// The order of PyTorch.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "interleaved-zb" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 4I0 4W0 0F4 4I1 4W1 0F5 4I2 4W2 0F6 4I3 4W3 0F7 0I0 0W0 4F4 0I1 0W1 4F5 0I2 0W2 4F6 0I3 0W3 4F7 4I4 4W4 4I5 4W5 4I6 4W6 4I7 4W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 5F0 5F1 5F2 5I0 5F3 5I1 5W0 1F4 5I2 5W1 1F5 5I3 5W2 1F6 1I0 5W3 1F7 1I1 1W0 5F4 1I2 1W1 5F5 1I3 1W2 5F6 5I4 1W3 5F7 5I5 5W4 5I6 5W5 5I7 5W6 1I4 5W7 1I5 1W4 1I6 1W5 1I7 1W6 1W7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 6F0 6F1 6I0 6F2 6I1 6F3 6I2 6W0 2F4 6I3 6W1 2F5 2I0 6W2 2F6 2I1 6W3 2F7 2I2 2W0 6F4 2I3 2W1 6F5 6I4 2W2 6F6 6I5 2W3 6F7 6I6 6W4 6I7 6W5 2I4 6W6 2I5 6W7 2I6 2W4 2I7 2W5 2W6 2W7]
// CHECK-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 7F0 7I0 7F1 7I1 7F2 7I2 7F3 7I3 7W0 3F4 3I0 7W1 3F5 3I1 7W2 3F6 3I2 7W3 3F7 3I3 3W0 7F4 7I4 3W1 7F5 7I5 3W2 7F6 7I6 3W3 7F7 7I7 7W4 3I4 7W5 3I5 7W6 3I6 7W7 3I7 3W4 3W5 3W6 3W7]
// CHECK-NEXT:   }
pipe.schedule @golden workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// One group of more microbatches than workers.
// CHECK-LABEL: pipe.schedule @ragged workers 2 microbatches 3 family "interleaved-zb" {
// CHECK-NEXT:     path on [0, 1, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 2F0 2F1 2I0 2W0 2F2 2I1 2W1 2I2 2W2 0I0 0W0 0I1 0W1 0I2 0W2]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 3F0 3I0 3F1 3I1 3W0 3F2 3I2 3W1 1I0 3W2 1I1 1W0 1I2 1W1 1W2]
// CHECK-NEXT:   }
pipe.schedule @ragged workers 2 microbatches 3 {
  path on [0, 1]
}
