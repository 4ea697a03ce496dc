// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interleaved-1f1b{chunks=2},pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interleaved-1f1b{chunks=2 split-backward=true},pipe-verify)' | FileCheck %s --check-prefix=SPLIT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interleaved-1f1b{schedule=golden chunks=2 group=8},pipe-verify{schedule=golden})' | FileCheck %s --check-prefix=GROUP
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-interleaved-1f1b{schedule=golden chunks=2 group=4})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-interleaved-1f1b{chunks=2 gradient-after=W group=4 schedule=golden split-backward=false}

// The order of PyTorch and, with the same group, of Megatron-LM.
// CHECK-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "interleaved-1f1b" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4B0 0F7 4B1 4F4 4B2 4F5 4B3 4F6 0B0 4F7 0B1 0B2 0B3 4B4 4B5 4B6 4B7 0B4 0B5 0B6 0B7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 5B0 1F5 5B1 1F6 5B2 1F7 5B3 5F4 1B0 5F5 1B1 5F6 1B2 5F7 1B3 5B4 5B5 5B6 5B7 1B4 1B5 1B6 1B7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 6F0 6F1 6F2 6B0 6F3 6B1 2F4 6B2 2F5 6B3 2F6 2B0 2F7 2B1 6F4 2B2 6F5 2B3 6F6 6B4 6F7 6B5 6B6 6B7 2B4 2B5 2B6 2B7]
// CHECK-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 3B3 7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7 3B4 3B5 3B6 3B7]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "interleaved-1f1b" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// SPLIT-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 4F0 4F1 4F2 4F3 0F4 0F5 0F6 4I0 4W0 0F7 4I1 4W1 4F4 4I2 4W2 4F5 4I3 4W3 4F6 0I0 0W0 4F7 0I1 0W1 0I2 0W2 0I3 0W3 4I4 4W4 4I5 4W5 4I6 4W6 4I7 4W7 0I4 0W4 0I5 0W5 0I6 0W6 0I7 0W7]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 5F0 5F1 5F2 5F3 1F4 5I0 5W0 1F5 5I1 5W1 1F6 5I2 5W2 1F7 5I3 5W3 5F4 1I0 1W0 5F5 1I1 1W1 5F6 1I2 1W2 5F7 1I3 1W3 5I4 5W4 5I5 5W5 5I6 5W6 5I7 5W7 1I4 1W4 1I5 1W5 1I6 1W6 1I7 1W7]
// SPLIT-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 6F0 6F1 6F2 6I0 6W0 6F3 6I1 6W1 2F4 6I2 6W2 2F5 6I3 6W3 2F6 2I0 2W0 2F7 2I1 2W1 6F4 2I2 2W2 6F5 2I3 2W3 6F6 6I4 6W4 6F7 6I5 6W5 6I6 6W6 6I7 6W7 2I4 2W4 2I5 2W5 2I6 2W6 2I7 2W7]
// SPLIT-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 3F4 3I0 3W0 3F5 3I1 3W1 3F6 3I2 3W2 3F7 3I3 3W3 7F4 7I4 7W4 7F5 7I5 7W5 7F6 7I6 7W6 7F7 7I7 7W7 3I4 3W4 3I5 3W5 3I6 3W6 3I7 3W7]
// SPLIT-NEXT:   }
// GROUP-LABEL: pipe.schedule @golden workers 4 microbatches 8 family "interleaved-1f1b" {group = 8 : i64} {
// GROUP-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// GROUP-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 4F0 4F1 4F2 4F3 4F4 4F5 4F6 4B0 4F7 4B1 4B2 4B3 4B4 4B5 4B6 4B7 0B0 0B1 0B2 0B3 0B4 0B5 0B6 0B7]
// GROUP-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 1F5 1F6 1F7 5F0 5F1 5F2 5F3 5F4 5B0 5F5 5B1 5F6 5B2 5F7 5B3 5B4 5B5 5B6 5B7 1B0 1B1 1B2 1B3 1B4 1B5 1B6 1B7]
// GROUP-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 2F4 2F5 2F6 2F7 6F0 6F1 6F2 6B0 6F3 6B1 6F4 6B2 6F5 6B3 6F6 6B4 6F7 6B5 6B6 6B7 2B0 2B1 2B2 2B3 2B4 2B5 2B6 2B7]
// GROUP-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 3F4 3F5 3F6 3F7 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7 3B0 3B1 3B2 3B3 3B4 3B5 3B6 3B7]
// GROUP-NEXT:   }
pipe.schedule @golden workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// Two groups of five, as in Megatron-LM.
// CHECK-LABEL: pipe.schedule @large workers 4 microbatches 10 family "interleaved-1f1b" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4 0F5 0F6 4B0 0F7 4B1 0F8 4B2 0F9 4B3 4F5 4B4 4F6 0B0 4F7 0B1 4F8 0B2 4F9 0B3 0B4 4B5 4B6 4B7 4B8 4B9 0B5 0B6 0B7 0B8 0B9]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 5F0 5F1 5F2 5F3 5F4 5B0 1F5 5B1 1F6 5B2 1F7 5B3 1F8 5B4 1F9 1B0 5F5 1B1 5F6 1B2 5F7 1B3 5F8 1B4 5F9 5B5 5B6 5B7 5B8 5B9 1B5 1B6 1B7 1B8 1B9]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 2F4 6F0 6F1 6F2 6B0 6F3 6B1 6F4 6B2 2F5 6B3 2F6 6B4 2F7 2B0 2F8 2B1 2F9 2B2 6F5 2B3 6F6 2B4 6F7 6B5 6F8 6B6 6F9 6B7 6B8 6B9 2B5 2B6 2B7 2B8 2B9]
// CHECK-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 3F4 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 7F4 7B4 3F5 3B0 3F6 3B1 3F7 3B2 3F8 3B3 3F9 3B4 7F5 7B5 7F6 7B6 7F7 7B7 7F8 7B8 7F9 7B9 3B5 3B6 3B7 3B8 3B9]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @large workers 4 microbatches 10 family "interleaved-1f1b" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [0, 1, 2, 3, 0, 1, 2, 3]
// SPLIT-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 4F0 4F1 4F2 4F3 4F4 0F5 0F6 4I0 4W0 0F7 4I1 4W1 0F8 4I2 4W2 0F9 4I3 4W3 4F5 4I4 4W4 4F6 0I0 0W0 4F7 0I1 0W1 4F8 0I2 0W2 4F9 0I3 0W3 0I4 0W4 4I5 4W5 4I6 4W6 4I7 4W7 4I8 4W8 4I9 4W9 0I5 0W5 0I6 0W6 0I7 0W7 0I8 0W8 0I9 0W9]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 5F0 5F1 5F2 5F3 5F4 5I0 5W0 1F5 5I1 5W1 1F6 5I2 5W2 1F7 5I3 5W3 1F8 5I4 5W4 1F9 1I0 1W0 5F5 1I1 1W1 5F6 1I2 1W2 5F7 1I3 1W3 5F8 1I4 1W4 5F9 5I5 5W5 5I6 5W6 5I7 5W7 5I8 5W8 5I9 5W9 1I5 1W5 1I6 1W6 1I7 1W7 1I8 1W8 1I9 1W9]
// SPLIT-NEXT:     worker 2 runs [2F0 2F1 2F2 2F3 2F4 6F0 6F1 6F2 6I0 6W0 6F3 6I1 6W1 6F4 6I2 6W2 2F5 6I3 6W3 2F6 6I4 6W4 2F7 2I0 2W0 2F8 2I1 2W1 2F9 2I2 2W2 6F5 2I3 2W3 6F6 2I4 2W4 6F7 6I5 6W5 6F8 6I6 6W6 6F9 6I7 6W7 6I8 6W8 6I9 6W9 2I5 2W5 2I6 2W6 2I7 2W7 2I8 2W8 2I9 2W9]
// SPLIT-NEXT:     worker 3 runs [3F0 3F1 3F2 3F3 3F4 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 7I3 7W3 7F4 7I4 7W4 3F5 3I0 3W0 3F6 3I1 3W1 3F7 3I2 3W2 3F8 3I3 3W3 3F9 3I4 3W4 7F5 7I5 7W5 7F6 7I6 7W6 7F7 7I7 7W7 7F8 7I8 7W8 7F9 7I9 7W9 3I5 3W5 3I6 3W6 3I7 3W7 3I8 3W8 3I9 3W9]
// SPLIT-NEXT:   }
pipe.schedule @large workers 4 microbatches 10 {
  path on [0, 1, 2, 3]
}

// One group of more microbatches than workers.
// CHECK-LABEL: pipe.schedule @ragged workers 2 microbatches 3 family "interleaved-1f1b" {
// CHECK-NEXT:     path on [0, 1, 0, 1]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 2F0 2F1 2F2 2B0 2B1 2B2 0B0 0B1 0B2]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 3F0 3B0 3F1 3B1 3F2 3B2 1B0 1B1 1B2]
// CHECK-NEXT:   }
// SPLIT-LABEL: pipe.schedule @ragged workers 2 microbatches 3 family "interleaved-1f1b" {split_backward = true} gradient after W {
// SPLIT-NEXT:     path on [0, 1, 0, 1]
// SPLIT-NEXT:     worker 0 runs [0F0 0F1 0F2 2F0 2F1 2F2 2I0 2W0 2I1 2W1 2I2 2W2 0I0 0W0 0I1 0W1 0I2 0W2]
// SPLIT-NEXT:     worker 1 runs [1F0 1F1 1F2 3F0 3I0 3W0 3F1 3I1 3W1 3F2 3I2 3W2 1I0 1W0 1I1 1W1 1I2 1W2]
// SPLIT-NEXT:   }
pipe.schedule @ragged workers 2 microbatches 3 {
  path on [0, 1]
}
