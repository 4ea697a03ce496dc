// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-auto,pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-auto{memory=4},pipe-verify)' | FileCheck %s --check-prefix=FOUR
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-zb-auto{memory=4})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-schedule-zb-auto{memory=4 schedule=}

// The memory of 1F1B, and half of it.
// CHECK-LABEL: pipe.schedule @linear workers 4 microbatches 6 family "zb-auto" {
// CHECK-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// CHECK-NEXT:     worker 0 runs [0F0 0F1 0F2 0F3 0F4 0F5 7F0 7I0 7F1 7I1 7W0 7F2 7I2 7W1 0I0 7F3 7I3 7W2 0I1 0W0 7W3 7F4 0I2 7I4 0W1 0W2 7F5 7I5 0I3 7W4 0I4 7W5 0W3 0W4 0I5 0W5]
// CHECK-NEXT:     worker 1 runs [1F0 1F1 1F2 1F3 1F4 6F0 1F5 6F1 6I0 6W0 6F2 6I1 6W1 1I0 6F3 6I2 1W0 1I1 6I3 6W2 6F4 1I2 1W1 6W3 6I4 6F5 1W2 1I3 6I5 1I4 6W4 1W3 6W5 1I5 1W4 1W5]
// CHECK-NEXT:     worker 2 runs [2F0 2F1 2F2 5F0 2F3 5F1 2F4 5F2 5I0 5W0 5F3 2I0 5I1 2W0 2F5 2I1 5I2 5W1 5F4 2I2 5I3 2W1 5W2 5F5 5I4 2I3 2W2 2I4 5I5 5W3 5W4 2I5 2W3 2W4 5W5 2W5]
// CHECK-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 4I0 3I0 4W0 3F4 4I1 3I1 3W0 4F4 4I2 3I2 4W1 3F5 3W1 4F5 4I3 3I3 4I4 3I4 4W2 3W2 4I5 3I5 4W3 3W3 4W4 3W4 4W5 3W5]
// CHECK-NEXT:   }
// FOUR-LABEL: pipe.schedule @linear workers 4 microbatches 6 family "zb-auto" {memory = 4 : i64} {
// FOUR-NEXT:     path on [0, 1, 2, 3, 3, 2, 1, 0]
// FOUR-NEXT:     worker 0 runs [0F0 0F1 7F0 7I0 0F2 7W0 7F1 7I1 0I0 7W1 0F3 0W0 7F2 7I2 0I1 7W2 0F4 0W1 7F3 7I3 0I2 7W3 0F5 0W2 7F4 7I4 0I3 7W4 0W3 7F5 7I5 0I4 7W5 0W4 0I5 0W5]
// FOUR-NEXT:     worker 1 runs [1F0 6F0 1F1 6I0 6W0 6F1 1F2 1I0 6I1 1W0 6W1 6F2 1F3 1I1 6I2 1W1 6W2 6F3 1F4 1I2 6I3 1W2 6W3 6F4 1F5 1I3 6I4 1W3 6W4 6F5 1I4 6I5 1W4 6W5 1I5 1W5]
// FOUR-NEXT:     worker 2 runs [2F0 5F0 2F1 5I0 5F1 5W0 2I0 2F2 2W0 5I1 5F2 5W1 2I1 2F3 2W1 5I2 5F3 5W2 2I2 2F4 2W2 5I3 5F4 5W3 2I3 2F5 2W3 5I4 5F5 5W4 2I4 2W4 5I5 5W5 2I5 2W5]
// FOUR-NEXT:     worker 3 runs [3F0 4F0 3F1 4F1 4I0 3I0 4W0 3W0 3F2 4F2 4I1 3I1 4W1 3W1 3F3 4F3 4I2 3I2 4W2 3W2 3F4 4F4 4I3 3I3 4W3 3W3 3F5 4F5 4I4 3I4 4W4 3W4 4I5 3I5 4W5 3W5]
// FOUR-NEXT:   }
pipe.schedule @linear workers 4 microbatches 6 {
  path on [0, 1, 2, 3]
}

// All activations fit.
// CHECK-LABEL: pipe.schedule @placed workers 2 microbatches 2 family "zb-auto" {
// CHECK-NEXT:     path on [1, 0, 0, 1]
// CHECK-NEXT:     worker 0 runs [1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 1W0 2W1 1W1]
// CHECK-NEXT:     worker 1 runs [0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1]
// CHECK-NEXT:   }
// FOUR-LABEL: pipe.schedule @placed workers 2 microbatches 2 family "zb-auto" {memory = 4 : i64} {
// FOUR-NEXT:     path on [1, 0, 0, 1]
// FOUR-NEXT:     worker 0 runs [1F0 2F0 1F1 2F1 2I0 1I0 2I1 1I1 2W0 1W0 2W1 1W1]
// FOUR-NEXT:     worker 1 runs [0F0 0F1 3F0 3I0 3F1 3I1 0I0 3W0 0I1 3W1 0W0 0W1]
// FOUR-NEXT:   }
pipe.schedule @placed workers 2 microbatches 2 {
  path on [1, 0, 0, 1]
}
