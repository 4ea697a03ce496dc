// 1F1B as tables: 4 workers and 4 microbatches, 4 and 8 (the order of PyTorch's Schedule1F1B and Megatron-LM), 8 and 8.
// Aligned, with a backward of two slots, they have 3 (N + D - 1) slots.

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b,pipe-align-slots,pipe-verify)' | FileCheck %s --check-prefix=ALIGNED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b,pipe-align-slots,pipe-compact,pipe-verify)' | FileCheck %s

// CHECK-LABEL: pipe.schedule @four_by_four workers 4 microbatches 4 family "1f1b" {
// CHECK-NEXT:    path on [0, 1, 2, 3]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3]
// CHECK-NEXT:    worker 2 runs [2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3]
// CHECK-NEXT:    worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3]
// CHECK-NEXT:  }
// ALIGNED-LABEL: pipe.schedule @four_by_four workers 4 microbatches 4 family "1f1b" aligned {
// ALIGNED-NEXT:    path on [0, 1, 2, 3]
// ALIGNED-NEXT:    worker 0 runs [0F0 0F1 0F2 0F3 _6 0B0 _ 0B1 _ 0B2 _ 0B3]
// ALIGNED-NEXT:    worker 1 runs [_ 1F0 1F1 1F2 _4 1B0 1F3 1B1 _ 1B2 _ 1B3 _2]
// ALIGNED-NEXT:    worker 2 runs [_2 2F0 2F1 _2 2B0 2F2 2B1 2F3 2B2 _ 2B3 _4]
// ALIGNED-NEXT:    worker 3 runs [_3 3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 _6]
// ALIGNED-NEXT:  }
pipe.schedule @four_by_four workers 4 microbatches 4 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @four_by_eight workers 4 microbatches 8 family "1f1b" {
// CHECK-NEXT:    path on [0, 1, 2, 3]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 0F3 0B0 0F4 0B1 0F5 0B2 0F6 0B3 0F7 0B4 0B5 0B6 0B7]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1F4 1B2 1F5 1B3 1F6 1B4 1F7 1B5 1B6 1B7]
// CHECK-NEXT:    worker 2 runs [2F0 2F1 2B0 2F2 2B1 2F3 2B2 2F4 2B3 2F5 2B4 2F6 2B5 2F7 2B6 2B7]
// CHECK-NEXT:    worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3 3F4 3B4 3F5 3B5 3F6 3B6 3F7 3B7]
// CHECK-NEXT:  }
pipe.schedule @four_by_eight workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// CHECK-LABEL: pipe.schedule @eight_by_eight workers 8 microbatches 8 family "1f1b" {
// CHECK-NEXT:    path on [0, 1, 2, 3, 4, 5, 6, 7]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 0B0 0B1 0B2 0B3 0B4 0B5 0B6 0B7]
// CHECK-NEXT:    worker 1 runs [1F0 1F1 1F2 1F3 1F4 1F5 1F6 1B0 1F7 1B1 1B2 1B3 1B4 1B5 1B6 1B7]
// CHECK-NEXT:    worker 2 runs [2F0 2F1 2F2 2F3 2F4 2F5 2B0 2F6 2B1 2F7 2B2 2B3 2B4 2B5 2B6 2B7]
// CHECK-NEXT:    worker 3 runs [3F0 3F1 3F2 3F3 3F4 3B0 3F5 3B1 3F6 3B2 3F7 3B3 3B4 3B5 3B6 3B7]
// CHECK-NEXT:    worker 4 runs [4F0 4F1 4F2 4F3 4B0 4F4 4B1 4F5 4B2 4F6 4B3 4F7 4B4 4B5 4B6 4B7]
// CHECK-NEXT:    worker 5 runs [5F0 5F1 5F2 5B0 5F3 5B1 5F4 5B2 5F5 5B3 5F6 5B4 5F7 5B5 5B6 5B7]
// CHECK-NEXT:    worker 6 runs [6F0 6F1 6B0 6F2 6B1 6F3 6B2 6F4 6B3 6F5 6B4 6F6 6B5 6F7 6B6 6B7]
// CHECK-NEXT:    worker 7 runs [7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7]
// CHECK-NEXT:  }
// ALIGNED-LABEL: pipe.schedule @eight_by_eight workers 8 microbatches 8 family "1f1b" aligned {
// ALIGNED-NEXT:    path on [0, 1, 2, 3, 4, 5, 6, 7]
// ALIGNED-NEXT:    worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 _14 0B0 _ 0B1 _ 0B2 _ 0B3 _ 0B4 _ 0B5 _ 0B6 _ 0B7]
// ALIGNED-NEXT:    worker 1 runs [_ 1F0 1F1 1F2 1F3 1F4 1F5 1F6 _12 1B0 1F7 1B1 _ 1B2 _ 1B3 _ 1B4 _ 1B5 _ 1B6 _ 1B7 _2]
// ALIGNED-NEXT:    worker 2 runs [_2 2F0 2F1 2F2 2F3 2F4 2F5 _10 2B0 2F6 2B1 2F7 2B2 _ 2B3 _ 2B4 _ 2B5 _ 2B6 _ 2B7 _4]
// ALIGNED-NEXT:    worker 3 runs [_3 3F0 3F1 3F2 3F3 3F4 _8 3B0 3F5 3B1 3F6 3B2 3F7 3B3 _ 3B4 _ 3B5 _ 3B6 _ 3B7 _6]
// ALIGNED-NEXT:    worker 4 runs [_4 4F0 4F1 4F2 4F3 _6 4B0 4F4 4B1 4F5 4B2 4F6 4B3 4F7 4B4 _ 4B5 _ 4B6 _ 4B7 _8]
// ALIGNED-NEXT:    worker 5 runs [_5 5F0 5F1 5F2 _4 5B0 5F3 5B1 5F4 5B2 5F5 5B3 5F6 5B4 5F7 5B5 _ 5B6 _ 5B7 _10]
// ALIGNED-NEXT:    worker 6 runs [_6 6F0 6F1 _2 6B0 6F2 6B1 6F3 6B2 6F4 6B3 6F5 6B4 6F6 6B5 6F7 6B6 _ 6B7 _12]
// ALIGNED-NEXT:    worker 7 runs [_7 7F0 7B0 7F1 7B1 7F2 7B2 7F3 7B3 7F4 7B4 7F5 7B5 7F6 7B6 7F7 7B7 _14]
// ALIGNED-NEXT:  }
pipe.schedule @eight_by_eight workers 8 microbatches 8 {
  path on [0, 1, 2, 3, 4, 5, 6, 7]
}
