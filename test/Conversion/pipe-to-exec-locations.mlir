// RUN: pipesched-opt %s --convert-pipe-to-exec --mlir-print-debuginfo --mlir-print-local-scope \
// RUN:   | FileCheck %s
// RUN: not pipesched-opt %s --convert-pipe-to-exec --exec-verify=messages=rendezvous 2>&1 \
// RUN:   | FileCheck %s --check-prefix=CYCLE
// RUN: echo | pipesched-opt-raw \
// RUN:   --pass-pipeline='builtin.module(pipe-create{workers=1 microbatches=2},pipe-schedule-gpipe,convert-pipe-to-exec)' \
// RUN:   --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=SHORT
// RUN: echo | pipesched-opt-raw \
// RUN:   --pass-pipeline='builtin.module(pipe-create{workers=1 microbatches=2049},pipe-schedule-gpipe,convert-pipe-to-exec)' \
// RUN:   --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LONG
// RUN: echo | pipesched-opt-raw \
// RUN:   --pass-pipeline='builtin.module(pipe-create{workers=9 microbatches=4000},pipe-schedule-gpipe{forward-only=true},convert-pipe-to-exec)' \
// RUN:   --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=SHORT
// RUN: echo | pipesched-opt-raw \
// RUN:   --pass-pipeline='builtin.module(pipe-create{workers=17 microbatches=4000},pipe-schedule-gpipe{forward-only=true},convert-pipe-to-exec)' \
// RUN:   --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=LONG

// An instruction is at the cell that names it; for a receive, this cell is in the row of the sender.

// CHECK-LABEL: exec.program @exchange
// CHECK: %f0 = compute 0F0 loc("0F0"("{{.*}}":[[# @LINE + 9]]:18))
// CHECK: %s0 = send 0F0 to 1 after %f0 loc("0F0"("{{.*}}":[[# @LINE + 8]]:18))
// CHECK: %act0 = recv 0F0 from 0 loc("0F0"("{{.*}}":[[# @LINE + 7]]:18))

// CYCLE: :[[# @LINE + 3]]:1: error: 'exec.program' op deadlocks with messages=rendezvous
// CYCLE: :[[# @LINE + 4]]:30: note: send 0F2 to 1 on worker 0 waits for recv 0F2 from 0 on worker 1
// CYCLE: :[[# @LINE + 4]]:30: note: send 1B1 to 0 on worker 1 waits for recv 1B1 from 1 on worker 0
pipe.schedule @exchange workers 2 microbatches 3 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2]
}

// A pair is at its first cell. A slice is part of the name.

// CHECK-LABEL: exec.program @pair
// CHECK: compute 0F0.1+1F0.0 {{.*}} loc("0F0.1"("{{.*}}":[[# @LINE + 3]]:24))
pipe.schedule @pair workers 1 microbatches 1 slices 2 {
  path on [0, 0]
  worker 0 runs [0F0.0 0F0.1+1F0.0 1F0.1 1B0.1 1B0.0+0B0.1 0B0.0]
}

// The cells of a generated row have the place of the row, and of a long row or large schedule not
// even names.

// SHORT: %f1 = compute 0F1 loc("0F1"("{{.*}}"
// LONG: %f1 = compute 0F1 loc("{{[^"]*}}":
