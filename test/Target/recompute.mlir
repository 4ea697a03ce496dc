// The schedule says what R cells recompute, and its program inherits that: time and
// memory depend on it.

// RUN: pipesched-opt %s -o %t.schedules --pass-pipeline='builtin.module( \
// RUN:   pipe-add-recompute{schedule=full}, \
// RUN:   pipe-add-recompute{kind=selective schedule=selective}, \
// RUN:   pipe-attach-model{name=toy microbatch-size=1 attention=unfused}, \
// RUN:   pipe-attach-system{name=toy})'
// RUN: pipesched-opt %t.schedules -o %t.programs \
// RUN:   --pass-pipeline='builtin.module(convert-pipe-to-exec)'
// RUN: pipesched-translate --export-report %t.schedules -o %t.pipe
// RUN: pipesched-translate --export-report %t.programs -o %t.exec
// RUN: %python %S/Inputs/same-execution.py %t.pipe %t.exec | FileCheck %s --check-prefix=SAME
// RUN: FileCheck %s --input-file=%t.pipe

// SAME: 3 schedules are timed alike

// Eight layers have 72000 bytes of activations each, 40000 of which are the core's;
// full recomputation keeps 2000 of each. Two microbatches wait for their backward, one
// of them whole.
// CHECK: "schedule": "none"
// CHECK: "peak_activation_bytes": [1152000],
// CHECK: "schedule": "full"
// CHECK: "peak_activation_bytes": [592000],
// CHECK: "schedule": "selective"
// CHECK: "peak_activation_bytes": [832000],
pipe.schedule @none workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
pipe.schedule @full workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
pipe.schedule @selective workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}
