// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list)' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list{paths=0,x})' 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list{paths=0,4})' 2>&1 | FileCheck %s --check-prefix=WORKER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list{paths="0,1 takes 0:5;1,0 takes 4:8"})' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list{paths="0,1 blocks 8"})' 2>&1 | FileCheck %s --check-prefix=BLOCKS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list{paths="0,1 blocks 4*2 weights 1,2"})' 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-list{paths="0,1 blocks 4,5"})' 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-list{paths=0})' 2>&1 | FileCheck %s --check-prefix=ROWS

// NOTHING: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: paths, character 1: expected a worker, found the end
// TEXT: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: paths, character 3: expected a worker, found 'x'
// WORKER: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: path 0 puts stage 1 on worker 4, which is not one of the 4 workers (0 to 3)
// TWICE: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: microbatch 4 is on path 0 and on path 1
// BLOCKS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: path 0 has 2 stages but blocks for 1
// BOTH: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: path 0 has blocks and weights: its stages are as long as one of them says
// MODEL: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: the blocks of path 0 are more than the model's 8 layers
// ROWS: rows.mlir:1:1: error: 'pipe.schedule' op has rows, whose stages another placement would move; only a schedule without rows can be placed

//--- s.mlir
pipe.schedule @s workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

//--- rows.mlir
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
