// Level 2 counts the slots that a schedule states, aligned or not; level 3 and the
// position of receives do not depend on them.

// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-compact)' \
// RUN:   | pipesched-translate --export-report | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-compact,pipe-align-slots)' \
// RUN:   | pipesched-translate --export-report | FileCheck %s --check-prefix=UNIT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots{slots=durations})' \
// RUN:   | pipesched-translate --export-report --transport=delay | FileCheck %s --check-prefix=TIMES
// RUN: pipesched-translate --export-svg --svg-variant=slots %s | FileCheck %s --check-prefix=SVG
// RUN: not pipesched-translate --export-torch-csv %s 2>&1 | FileCheck %s --check-prefix=CSV
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-align-slots)' \
// RUN:   | pipesched-translate --export-torch-csv | FileCheck %s --check-prefix=COLUMNS

//   worker 0   0F0 [0,1] 0F1 [1,2]                 0B0 [10,13] 0B1 [13,16]
//   worker 1   1F0 [1,3] 1F1+1B0 [3,10] 1B1 [10,12]
// CHECK:      "table": {
// CHECK-NEXT:   "slots": 16,
// CHECK-NEXT:   "busy_slots": [8, 11],
// CHECK-NEXT:   "bubble_ratio": 0.40625,
// CHECK-NEXT:   "fill_slots": [0, 1],
// CHECK-NEXT:   "drain_slots": [0, 4],
// CHECK-NEXT:   "peak_activations": [2, 2],
// CHECK-NEXT:   "retention_slots": {
// CHECK-NEXT:     "mean": [14.0, 9.0],
// CHECK-NEXT:     "max": [15, 9]
// CHECK-NEXT:   },
// CHECK-NEXT:   "slot_lengths": {
// CHECK-NEXT:     "F": [1, 2],
// CHECK-NEXT:     "B": [3, 2],
// CHECK-NEXT:     "FB": [7, 7]
// CHECK-NEXT:   }
// CHECK-NEXT: },
// CHECK:      "makespan_ps": 90000000,

// UNIT:       "slots": 9,
// UNIT-NEXT:  "busy_slots": [6, 6],
// UNIT:       "slot_lengths": null
// UNIT:       "makespan_ps": 90000000,

// TIMES:      "slots": 9,
// TIMES:      "makespan_ps": 90000000,

// SVG:        16 slots · bubble 40.62 %
// SVG:        <title>0B1: slots 13 to 16</title>
// SVG:        <title>1B0: slots 3 to 10</title>
// CSV:        error: 'pipe.schedule' op the schedule is aligned by other slots, but PyTorch's CSV has columns for unit slots; align it to unit slots (pipe-align-slots), or remove its idle slots (pipe-compact)

// COLUMNS:      {{^}}0F0,0F1,,,,0B0,,0B1,{{$}}
// COLUMNS-NEXT: {{^}},1F0,(1F1;1B0)OVERLAP_F_B,,,1B1,,,{{$}}
pipe.schedule @s workers 2 microbatches 2 aligned slots <F = [1, 2], B = [3, 2], FB = 7>
    profile <"F=10us,B=20us,FB=30us"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 _8 0B0 0B1]
  worker 1 runs [_ 1F0 1F1+1B0 1B1 _4]
}
