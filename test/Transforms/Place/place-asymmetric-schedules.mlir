// Generators keep the lengths of the stages in the paths.

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric,pipe-schedule-chimera,pipe-verify)' | FileCheck %s --check-prefix=CHIMERA
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric,pipe-schedule-dualpipe,pipe-verify)' 2>/dev/null | FileCheck %s --check-prefix=DUALPIPE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{on=wave},pipe-schedule-zb-v,pipe-verify)' | FileCheck %s --check-prefix=WAVE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{on=wave},pipe-schedule-hanayo,pipe-verify)' | FileCheck %s --check-prefix=WAVE

// CHIMERA-LABEL: pipe.schedule @p workers 4 microbatches 8 family "chimera" {
// CHIMERA-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
// CHIMERA-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]

// DUALPIPE-LABEL: pipe.schedule @p workers 4 microbatches 8 family "dualpipe" {
// DUALPIPE-NEXT:    path on [0, 1, 2, 3] takes [0:4] weights [1, 1, 2, 2]
// DUALPIPE-NEXT:    path on [3, 2, 1, 0] takes [4:8] weights [1, 1, 2, 2]

// WAVE-LABEL: pipe.schedule @p workers 4 microbatches 8 family
// WAVE-NEXT:    path on [0, 1, 2, 3, 3, 2, 1, 0] weights [1, 1, 1, 1, 2, 2, 2, 2]

// An order that knows the lengths needs 4800 slots of blocks for 5220 of equal
// stages on the same paths, the order of unit slots 5280 (arXiv 2605.24006: the
// asymmetric placement is faster with four workers and few microbatches).
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{blocks=720},pipe-schedule-greedy{slots=blocks})' | pipesched-translate --export-report | FileCheck %s --check-prefix=GAIN
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:1 blocks=720},pipe-schedule-greedy{slots=blocks})' | pipesched-translate --export-report | FileCheck %s --check-prefix=EQUAL
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{blocks=720},pipe-schedule-greedy)' | pipesched-translate --export-report | FileCheck %s --check-prefix=UNIT
// GAIN: "makespan_ps": 4800000000,
// EQUAL: "makespan_ps": 5220000000,
// UNIT: "makespan_ps": 5280000000,
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}
