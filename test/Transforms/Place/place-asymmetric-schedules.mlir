// Generators keep the lengths of the stages in the paths.

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric,pipe-schedule-chimera,pipe-verify)' | FileCheck %s --check-prefix=CHIMERA
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric,pipe-schedule-greedy,pipe-verify)' | FileCheck %s --check-prefix=GREEDY
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric,pipe-schedule-greedy{slots=blocks},pipe-compact,pipe-verify)' | FileCheck %s --check-prefix=BLOCKS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric,pipe-schedule-dualpipe,pipe-verify)' 2>/dev/null | FileCheck %s --check-prefix=DUALPIPE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{on=wave},pipe-schedule-zb-v,pipe-verify)' | FileCheck %s --check-prefix=WAVE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-asymmetric{on=wave},pipe-schedule-hanayo,pipe-verify)' | FileCheck %s --check-prefix=WAVE

// CHIMERA-LABEL: pipe.schedule @p workers 4 microbatches 8 family "chimera" {
// CHIMERA-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
// CHIMERA-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
// CHIMERA-NEXT:    worker 0 runs [0F0 0F2 3F1 3B1 3F3 3B3 0B0 0F4 0B2 0F6 3F5 3B5 3F7 3B7 0B4 0B6]
// CHIMERA-NEXT:    worker 1 runs [1F0 2F1 1F2 2F3 2B1 1B0 2B3 1B2 1F4 2F5 1F6 2F7 2B5 1B4 2B7 1B6]
// CHIMERA-NEXT:    worker 2 runs [1F1 2F0 1F3 2F2 2B0 1B1 2B2 1B3 1F5 2F4 1F7 2F6 2B4 1B5 2B6 1B7]
// CHIMERA-NEXT:    worker 3 runs [0F1 0F3 3F0 3B0 3F2 3B2 0B1 0F5 0B3 0F7 3F4 3B4 3F6 3B6 0B5 0B7]
// CHIMERA-NEXT:  }

// In unit slots the order is the same as for equal stages.
// GREEDY-LABEL: pipe.schedule @p workers 4 microbatches 8 family "greedy" gradient after W {
// GREEDY-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
// GREEDY-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
// GREEDY-NEXT:    worker 0 runs [0F0 0F2 0F4 3F1 3I1 3W1 3F3 3I3 3W3 0F6 0I0 0W0 0I2 0W2 3F5 3I5 3W5 3F7 3I7 3W7 0I4 0W4 0I6 0W6]
// GREEDY-NEXT:    worker 1 runs [1F0 2F1 1F2 2F3 1F4 2I1 2W1 1I0 1W0 2I3 2W3 1I2 1W2 2F5 1F6 2F7 2I5 2W5 1I4 1W4 2I7 2W7 1I6 1W6]
// GREEDY-NEXT:    worker 2 runs [1F1 2F0 1F3 2F2 1F5 2I0 2W0 1I1 1W1 2I2 2W2 1I3 1W3 2F4 1F7 2F6 2I4 2W4 1I5 1W5 2I6 2W6 1I7 1W7]
// GREEDY-NEXT:    worker 3 runs [0F1 0F3 0F5 3F0 3I0 3W0 3F2 3I2 3W2 0F7 0I1 0W1 0I3 0W3 3F4 3I4 3W4 3F6 3I6 3W6 0I5 0W5 0I7 0W7]
// GREEDY-NEXT:  }

// By blocks the first half ends sooner: worker 0 runs all its 0F first.
// BLOCKS-LABEL: pipe.schedule @p workers 4 microbatches 8 family "greedy"
// BLOCKS-NEXT:    path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
// BLOCKS-NEXT:    path on [3, 2, 1, 0] takes [1:8:2] weights [1, 1, 2, 2]
// BLOCKS-NEXT:    worker 0 runs [0F0 0F2 0F4 0F6 3F1 3I1 3W1 3F3 3I3 3W3 0I0 0W0 3F5 3I5 0I2 0W2 3W5 3F7 3I7 3W7 0I4 0W4 0I6 0W6]
// BLOCKS-NEXT:    worker 1 runs [1F0 2F1 1F2 2F3 1F4 2F5 2I1 2W1 1I0 1W0 2I3 2W3 1I2 1W2 1F6 2F7 2I5 2W5 1I4 1W4 2I7 2W7 1I6 1W6]
// BLOCKS-NEXT:    worker 2 runs [1F1 2F0 1F3 2F2 1F5 2F4 2I0 2W0 1I1 1W1 2I2 2W2 1I3 1W3 1F7 2F6 2I4 2W4 1I5 1W5 2I6 2W6 1I7 1W7]
// BLOCKS-NEXT:    worker 3 runs [0F1 0F3 0F5 0F7 3F0 3I0 3W0 3F2 3I2 3W2 0I1 0W1 3F4 3I4 0I3 0W3 3W4 3F6 3I6 3W6 0I5 0W5 0I7 0W7]
// BLOCKS-NEXT:  }

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
