// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-mpmd-circular{chunks=2},pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-mpmd-circular{chunks=2 split-backward=true},pipe-verify)' | FileCheck %s --check-prefix=SPLIT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-mpmd-circular{chunks=2})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-mpmd-circular{chunks=2 gradient-after=W schedule= split-backward=false}

// The order of Shardy.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "mpmd-circular" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 0F7 4F4 4F5 4F6 4F7 4B0 4B1 4B2 4B3 0B0 0B1 0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 1F5 1F6 1F7 5F4 5F5 5F6 5F7 5B0 5B1 5B2 5B3 1B0 1B1 1B2 1B3 5B4 5B5 5B6 5B7 1B4 1B5 1B6 1B7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 6F0 6F1 6F2 6F3 2F4 2F5 2F6 2F7 6F4 6F5 6F6 6F7 6B0 6B1 6B2 6B3 2B0 2B1 2B2 2B3 6B4 6B5 6B6 6B7 2B4 2B5 2B6 2B7]
// CHECK-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 7F0 7F1 7F2 7F3 3F4 3F5 3F6 3F7 7F4 7F5 7F6 7F7 7B0 7B1 7B2 7B3 3B0 3B1 3B2 3B3 7B4 7B5 7B6 7B7 3B4 3B5 3B6 3B7]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "mpmd-circular" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// SPLIT-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 0F7 4F4 4F5 4F6 4F7 4I0 4W0 4I1 4W1 4I2 4W2 4I3 4W3 0I0 0W0 0I1 0W1 0I2 0W2 0I3 0W3 4I4 4W4 4I5 4W5 4I6 4W6 4I7 4W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 1F5 1F6 1F7 5F4 5F5 5F6 5F7 5I0 5W0 5I1 5W1 5I2 5W2 5I3 5W3 1I0 1W0 1I1 1W1 1I2 1W2 1I3 1W3 5I4 5W4 5I5 5W5 5I6 5W6 5I7 5W7 1I4 1W4 1I5 1W5 1I6 1W6 1I7 1W7]
// SPLIT-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 6F0 6F1 6F2 6F3 2F4 2F5 2F6 2F7 6F4 6F5 6F6 6F7 6I0 6W0 6I1 6W1 6I2 6W2 6I3 6W3 2I0 2W0 2I1 2W1 2I2 2W2 2I3 2W3 6I4 6W4 6I5 6W5 6I6 6W6 6I7 6W7 2I4 2W4 2I5 2W5 2I6 2W6 2I7 2W7]
// SPLIT-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 7F0 7F1 7F2 7F3 3F4 3F5 3F6 3F7 7F4 7F5 7F6 7F7 7I0 7W0 7I1 7W1 7I2 7W2 7I3 7W3 3I0 3W0 3I1 3W1 3I2 3W2 3I3 3W3 7I4 7W4 7I5 7W5 7I6 7W6 7I7 7W7 3I4 3W4 3I5 3W5 3I6 3W6 3I7 3W7]
// SPLIT-NEXT:   }
pipe.schedule @golden workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// A short last phase.
// CHECK-LABEL: pipe.schedule @ragged workers 2 microbatches 3 family "mpmd-circular" {
// CHECK-NEXT:     path on [0, 1, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 2F0 2F1 0F2 2F2 2B0 2B1 0B0 0B1 2B2 0B2]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 3F0 3F1 1F2 3F2 3B0 3B1 1B0 1B1 3B2 1B2]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @ragged workers 2 microbatches 3 family "mpmd-circular" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [0, 1, 0, 1]
// SPLIT-NEXT:     worker 0 runs [0F0 0F1 2F0 2F1 0F2 2F2 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1 2I2 2W2 0I2 0W2]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 3F0 3F1 1F2 3F2 3I0 3W0 3I1 3W1 1I0 1W0 1I1 1W1 3I2 3W2 1I2 1W2]
// SPLIT-NEXT:   }
pipe.schedule @ragged workers 2 microbatches 3 {
  path on [0, 1]
}
