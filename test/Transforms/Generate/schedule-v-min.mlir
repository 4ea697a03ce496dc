// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-v-min,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-v-min)' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-v-min{schedule=}

// Four activations of a stage at most.
// CHECK-LABEL: pipe.schedule @most workers 4 microbatches 8 family "v-min" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 7F0 7I0 0F2 7W0 7F1 7I1 0I0 7W1 0F3 0W0 7F2 7I2 0I1 7W2 0F4 0W1 7F3 7I3 0I2 7W3 0F5 0W2 7F4 7I4 0I3 7W4 0F6 0W3 7F5 7I5 0I4 7W5 0F7 0W4 7F6 7I6 0I5 7W6 0W5 7F7 7I7 0I6 7W7 0W6 0I7 0W7]
// CHECK-NEXT:     worker 1 runs [1F0 6F0 1F1 6I0 6W0 6F1 1F2 1I0 6I1 1W0 6W1 6F2 1F3 1I1 6I2 1W1 6W2 6F3 1F4 1I2 6I3 1W2 6W3 6F4 1F5 1I3 6I4 1W3 6W4 6F5 1F6 1I4 6I5 1W4 6W5 6F6 1F7 1I5 6I6 1W5 6W6 6F7 1I6 6I7 1W6 6W7 1I7 1W7]
// CHECK-NEXT:     worker 2 runs [2F0 5F0 2F1 5I0 5F1 5W0 2I0 2F2 2W0 5I1 5F2 5W1 2I1 2F3 2W1 5I2 5F3 5W2 2I2 2F4 2W2 5I3 5F4 5W3 2I3 2F5 2W3 5I4 5F5 5W4 2I4 2F6 2W4 5I5 5F6 5W5 2I5 2F7 2W5 5I6 5F7 5W6 2I6 2W6 5I7 5W7 2I7 2W7]
// CHECK-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 4I0 3I0 4W0 3W0 3F2 4F2 4I1 3I1 4W1 3W1 3F3 4F3 4I2 3I2 4W2 3W2 3F4 4F4 4I3 3I3 4W3 3W3 3F5 4F5 4I4 3I4 4W4 3W4 3F6 4F6 4I5 3I5 4W5 3W5 3F7 4F7 4I6 3I6 4W6 3W6 4I7 3I7 4W7 3W7]
// CHECK-NEXT:   }
pipe.schedule @most workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// A number of workers that three divides, on a V that begins elsewhere.
// CHECK-LABEL: pipe.schedule @third workers 3 microbatches 2 family "v-min" {
// CHECK-NEXT:     path on [2, 1, 0, 0, 1, 2]
// CHECK-NEXT:     worker 0 runs [2F0 3F0 2F1 3F1 3I0 2I0 3I1 2I1 3W0 2W0 3W1 2W1]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 4F0 4F1 4I0 4W0 4I1 1I0 4W1 1I1 1W0 1W1]
// CHECK-NEXT:     worker 2 runs [0F0 0F1 5F0 5I0 5F1 5I1 5W0 5W1 0I0 0W0 0I1 0W1]
// CHECK-NEXT:   }
pipe.schedule @third workers 3 microbatches 2 {
  path on [2, 1, 0, 0, 1, 2]
}
