// A pass on schedules gives the same on a module and nested on pipe.schedule,
// on one thread and on several.

// RUN: split-file %s %t
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-split-backward,pipe-add-recompute{keep=1},pipe-add-optimizer,pipe-align-slots{slots=blocks},pipe-merge-backward,pipe-compact,pipe-add-offload)' > %t/flat.mlir
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-split-backward,pipe-add-recompute{keep=1},pipe-add-optimizer,pipe-align-slots{slots=blocks},pipe-merge-backward,pipe-compact,pipe-add-offload)' --mlir-disable-threading > %t/flat-alone.mlir
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-split-backward,pipe-add-recompute{keep=1},pipe-add-optimizer,pipe-align-slots{slots=blocks},pipe-merge-backward,pipe-compact,pipe-add-offload))' > %t/nested.mlir
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-split-backward,pipe-add-recompute{keep=1},pipe-add-optimizer,pipe-align-slots{slots=blocks},pipe-merge-backward,pipe-compact,pipe-add-offload))' --mlir-disable-threading > %t/nested-alone.mlir
// RUN: diff %t/flat.mlir %t/flat-alone.mlir
// RUN: diff %t/flat.mlir %t/nested.mlir
// RUN: diff %t/flat.mlir %t/nested-alone.mlir
// RUN: FileCheck %t/rows.mlir < %t/flat.mlir

// The name selects a schedule in both forms.
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-split-backward{schedule=b})' > %t/flat.mlir
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-split-backward{schedule=b}))' > %t/nested.mlir
// RUN: diff %t/flat.mlir %t/nested.mlir
// RUN: FileCheck %t/rows.mlir --check-prefix=NAMED < %t/flat.mlir

// So do placements.
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-place-wave{waves=2},pipe-place-blocks{blocks=16})' > %t/flat.mlir
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-place-wave{waves=2},pipe-place-blocks{blocks=16}))' > %t/nested.mlir
// RUN: diff %t/flat.mlir %t/nested.mlir
// RUN: FileCheck %t/problems.mlir < %t/flat.mlir

// So do generators.
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-place-v,pipe-schedule-zb-v)' > %t/flat.mlir
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-place-v,pipe-schedule-zb-v)' --mlir-disable-threading > %t/flat-alone.mlir
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-place-v,pipe-schedule{family=zb-v}))' > %t/nested.mlir
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-place-v,pipe-schedule-zb-v))' > %t/nested-family.mlir
// RUN: diff %t/flat.mlir %t/flat-alone.mlir
// RUN: diff %t/flat.mlir %t/nested.mlir
// RUN: diff %t/flat.mlir %t/nested-family.mlir
// RUN: FileCheck %t/problems.mlir --check-prefix=FILLED < %t/flat.mlir
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-schedule-zb-v))'
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-schedule-zb-v{schedule=b}))' 2>&1 | FileCheck %t/rows.mlir --check-prefix=FILLED

// Each schedule that fails is reported, in the order of the file.
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-v)' 2> %t/flat.txt
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-v)' --mlir-disable-threading 2> %t/flat-alone.txt
// RUN: diff %t/flat.txt %t/flat-alone.txt
// RUN: FileCheck %t/rows.mlir --check-prefix=EACH < %t/flat.txt

// What a schedule reports nested, it reports on a module.
// RUN: not pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-compact{schedule=q}))' 2>&1 | FileCheck %t/problems.mlir --check-prefix=PROBLEM
// RUN: not pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-compact{schedule=q})' 2>&1 | FileCheck %t/problems.mlir --check-prefix=PROBLEM
// RUN: pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-compact))'
// RUN: not pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.schedule(pipe-align-slots{slot=1us}))' 2>&1 | FileCheck %t/problems.mlir --check-prefix=OPTION
// RUN: not pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe-place-v{schedule=r})' 2>&1 | FileCheck %t/problems.mlir --check-prefix=NAME
// RUN: not pipesched-opt %t/problems.mlir --pass-pipeline='builtin.module(pipe.path(pipe-place-v))' 2>&1 | FileCheck %t/problems.mlir --check-prefix=ANCHOR

//--- rows.mlir
// FILLED: rows.mlir:[[#@LINE+22]]:1: error: 'pipe.schedule' op has rows already
// CHECK: pipe.schedule @a
// CHECK: worker 0 runs [0F0 0F1 0B0 0R1 0B1 0O0]
// CHECK: pipe.schedule @b
// CHECK: worker 0 runs [0F0 0D0 0F1 0U0 0F2 0B0 0R1 0B1 0R2 0B2 0O0]
// CHECK: pipe.schedule @c
// CHECK: worker 0 runs [0F0 0B0 0O0]
// NAMED: pipe.schedule @a
// NAMED: worker 0 runs [0F0 0F1 0B0 0B1]
// NAMED: pipe.schedule @b
// NAMED: worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
// NAMED: pipe.schedule @c
// NAMED: worker 0 runs [0F0 0B0]
// EACH: rows.mlir:[[#@LINE+4]]:1: error: 'pipe.schedule' op has rows
// EACH: rows.mlir:[[#@LINE+8]]:1: error: 'pipe.schedule' op has rows
// EACH: rows.mlir:[[#@LINE+12]]:1: error: 'pipe.schedule' op has rows
// EACH-NOT: error
pipe.schedule @a workers 2 microbatches 2 {
  path on [0, 1] blocks [1, 2]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}
pipe.schedule @b workers 2 microbatches 3 {
  path on [0, 1] blocks [2, 1]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}
pipe.schedule @c workers 1 microbatches 1 {
  path on [0] blocks [1]
  worker 0 runs [0F0 0B0]
}

//--- problems.mlir
// FILLED: pipe.schedule @p workers 2 microbatches 2 family "zb-v" {
// FILLED-NEXT: path on [0, 1, 1, 0]
// FILLED-NEXT: worker 0 runs
// FILLED: pipe.schedule @q workers 1 microbatches 2 family "zb-v" {
// FILLED-NEXT: path on [0, 0]
// CHECK: pipe.schedule @p
// CHECK-NEXT: path on [0, 1, 1, 0, 0, 1, 1, 0] blocks [2, 2, 2, 2, 2, 2, 2, 2]
// CHECK: pipe.schedule @q
// CHECK-NEXT: path on [0, 0, 0, 0] blocks [4, 4, 4, 4]
// PROBLEM: problems.mlir:[[#@LINE+8]]:1: error: 'pipe.schedule' op has no rows
// OPTION: error: pipe-align-slots: the length of a slot is for slots=durations
// NAME: error: no pipe.schedule is called @r (known: p, q)
// ANCHOR: PipePlaceVPass
// ANCHOR-SAME: 'pipe.path'
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
}
pipe.schedule @q workers 1 microbatches 2 {
  path on [0]
}
