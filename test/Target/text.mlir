// RUN: pipesched-translate --export-text %s \
// RUN:   | FileCheck %s --match-full-lines --strict-whitespace
// RUN: pipesched-translate --export-text --text-width=120 --text-color=never %s \
// RUN:   | FileCheck %s --match-full-lines --strict-whitespace

// There are no models or systems: pictures in unit slots need no costs.

//      CHECK:line  1f1b · 2 workers × 3 microbatches · 12 slots · bubble 25.00 %
// CHECK-NEXT:    slot  0                   5                   10
// CHECK-NEXT:worker 0  0F0 0F1 ·   ·   0B0──── 0F2 0B1──── ·   0B2────
// CHECK-NEXT:worker 1  ·   1F0 1B0──── 1F1 1B1──── 1F2 1B2──── ·   ·
// CHECK-EMPTY:
pipe.schedule @line workers 2 microbatches 3 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2]
}

// Slots as the table states them, pairs, copies and joins.

// CHECK-NEXT:pairs  1 worker × 2 microbatches · 9 slots · bubble 22.22 %
// CHECK-NEXT:    slot  0                   5
// CHECK-NEXT:worker 0  0F0 ·   ·   0F1+0B0──── 0B1──── 0O0
// CHECK-NEXT: offload      0D0
// CHECK-NEXT:  reload      0U0     0u0
// CHECK-EMPTY:
pipe.schedule @pairs workers 1 microbatches 2 aligned {
  path on [0]
  worker 0 runs [0F0 0D0 0U0 _2 0u0 0F1+0B0 0B1 0O0]
}

// Two paths: stages are positions on the path of the microbatch.

// CHECK-NEXT:"mirrored"  2 workers × 2 microbatches · 6 slots · bubble 0.00 %
// CHECK-NEXT:    slot  0                   5
// CHECK-NEXT:worker 0  0F0 1F1 1B1──── 0B0────
// CHECK-NEXT:worker 1  0F1 1F0 1B0──── 0B1────
// CHECK-EMPTY:
// CHECK-NEXT:0F0 stage, phase, microbatch   F forward   B backward   D offload   U reload   O optimizer of a path   u wait for reload
// CHECK-NEXT:· idle
//  CHECK-NOT:{{.}}
pipe.schedule @"\22mirrored\22" workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0]
  worker 1 runs [0F1 1F0 1B0 0B1]
}
