// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-v-half,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-v-half)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-v-half{schedule=}

// Six activations of a stage at most.
// CHECK-LABEL: pipe.schedule @even workers 4 microbatches 8 family "v-half" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 7F0 7I0 7W0 7F1 7I1 7W1 7F2 0I0 7I2 0W0 0F5 7W2 7F3 0I1 7I3 0W1 0F6 7W3 7F4 0I2 7I4 0W2 0F7 7W4 7F5 0I3 7I5 0W3 7W5 7F6 0I4 7I6 0W4 7W6 7F7 7I7 0I5 7W7 0I6 0W5 0W6 0I7 0W7]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 6F0 6F1 6I0 6W0 6I1 6F2 1I0 6W1 1F4 6I2 1W0 6F3 1I1 6W2 1F5 6I3 1W1 6F4 1I2 6W3 1F6 6I4 1W2 6F5 1I3 6W4 1F7 6I5 1W3 6F6 1I4 6W5 1W4 6I6 6F7 6W6 1I5 6I7 1I6 1W5 6W7 1W6 1I7 1W7]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 5F0 2F3 5F1 5I0 5W0 5F2 2I0 5I1 2W0 5W1 5F3 2F4 2I1 5I2 2W1 5W2 5F4 2F5 2I2 5I3 2W2 5W3 5F5 2F6 2I3 5I4 2W3 5W4 5F6 2F7 2I4 5I5 2W4 5W5 5F7 5I6 2I5 5W6 2I6 5I7 2W5 2W6 2I7 5W7 2W7]
// CHECK-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 3F2 4F2 4I0 3I0 4W0 3F3 3W0 4F3 4I1 3I1 4W1 3F4 3W1 4F4 4I2 3I2 4W2 3F5 3W2 4F5 4I3 3I3 4W3 3F6 3W3 4F6 4I4 3I4 4W4 3F7 3W4 4F7 4I5 3I5 4I6 3I6 4W5 3W5 4I7 3I7 4W6 3W6 4W7 3W7]
// CHECK-NEXT:   }
pipe.schedule @even workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// An odd number of workers, on a V that begins elsewhere.
// CHECK-LABEL: pipe.schedule @placed workers 3 microbatches 2 family "v-half" {
// CHECK-NEXT:     path on [2, 1, 0, 0, 1, 2]
// CHECK-NEXT:     worker 0 runs [2F0 3F0 2F1 3F1 3I0 2I0 3I1 2I1 3W0 2W0 3W1 2W1]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 4F0 4F1 4I0 4W0 4I1 1I0 4W1 1I1 1W0 1W1]
// CHECK-NEXT:     worker 2 runs [0F0 0F1 5F0 5I0 5F1 5I1 5W0 5W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:   }
pipe.schedule @placed workers 3 microbatches 2 {
  path on [2, 1, 0, 0, 1, 2]
}
