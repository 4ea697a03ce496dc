// RUN: split-file %s %t
// RUN: not pipesched-opt %t/none.mlir --pass-pipeline='builtin.module(pipe-place-linear)' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-linear{schedule=shedule})' 2>&1 | FileCheck %s --check-prefix=CLOSE
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-linear{schedule=evn})' 2>&1 | FileCheck %s --check-prefix=FAR
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-v)' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-interleaved{chunks=0})' 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-interleaved{chunks=9223372036854775807})' 2>&1 | FileCheck %s --check-prefix=MANY
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-wave{waves=-1})' 2>&1 | FileCheck %s --check-prefix=WAVES
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-bidirectional{schedule=schedule})' 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-bidirectional{schedule=even pairs=3})' 2>&1 | FileCheck %s --check-prefix=PAIRS
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-bidirectional{schedule=even assign=halves})' 2>&1 | FileCheck %s --check-prefix=HALVES
// RUN: not pipesched-opt %t/name.mlir --pass-pipeline='builtin.module(pipe-place-bidirectional{schedule=even assign=thirds})' 2>&1 | FileCheck %s --check-prefix=ASSIGN

//--- none.mlir
module {}
// NONE: none.mlir:1:1: error: the module has no pipe.schedule

//--- name.mlir
pipe.schedule @schedule workers 3 microbatches 4 {
  path on [0, 1, 2]
}
pipe.schedule @even workers 4 microbatches 3 {
  path on [0, 1, 2, 3]
}
// CLOSE: error: no pipe.schedule is called @shedule, the closest is 'schedule'
// FAR: error: no pipe.schedule is called @evn, the closest is 'even'
// CHUNKS: name.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 0 chunks: there must be 1 to 5592405 with 3 workers, for at most 16777216 stages
// MANY: name.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 9223372036854775807 chunks: there must be 1 to 5592405 with 3 workers, for at most 16777216 stages
// WAVES: name.mlir:1:1: error: 'pipe.schedule' op cannot be placed: -1 waves: there must be 1 to 2796202 with 3 workers, for at most 16777216 stages
// ODD: name.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 3 workers: a bidirectional placement takes an even number; the nearest are 2 and 4
// PAIRS: name.mlir:4:1: error: 'pipe.schedule' op cannot be placed: 3 pairs: the number of pairs must divide half of the 4 workers; the nearest is 2
// HALVES: name.mlir:4:1: error: 'pipe.schedule' op cannot be placed: 3 microbatches are no equal parts for 2 paths; the nearest numbers are 2 and 4
// ASSIGN: Cannot find option named 'thirds'!

//--- rows.mlir
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
// ROWS: rows.mlir:1:1: error: 'pipe.schedule' op has rows, whose stages another placement would move; only a schedule without rows can be placed
