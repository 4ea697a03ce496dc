// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout)' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=Et*3|(tt|)*29,m|L})' 2>&1 | FileCheck %s --check-prefix=MTP
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=t|EtL})' 2>&1 | FileCheck %s --check-prefix=EMBEDDING
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=Et|(t|)*4,tL})' 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-layout{layout=Et|(t*2|)*2,tL})' 2>&1 | FileCheck %s --check-prefix=LAYERS
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=EtL})' 2>&1 | FileCheck %s --check-prefix=ROWS

// NOTHING: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: layout, character 1: the layout has no loss 'L', which its last stage ends with
// MTP: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: layout, character 15: blocks are decoder layers 't'; an MTP layer 'm' cannot be said with them
// EMBEDDING: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: layout, character 1: 't' stands before the embedding 'E', which the first stage begins with
// STAGES: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: the layout has 6 stages, no multiple of the 4 workers; numbers of workers that divide them: 3 and 6
// LAYERS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: the blocks of path 0 add up to 6, the model has 8 layers
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
