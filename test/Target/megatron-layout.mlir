// RUN: split-file %s %t
// RUN: pipesched-translate --export-megatron-layout %t/blocks.mlir | FileCheck %s --check-prefix=BLOCKS
// RUN: pipesched-opt %t/even.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' | pipesched-translate --export-megatron-layout | FileCheck %s --check-prefix=EVEN
// RUN: pipesched-translate --export-megatron-layout --megatron-schedule=b %t/two.mlir | FileCheck %s --check-prefix=NAMED
// RUN: not pipesched-translate --export-megatron-layout %t/two.mlir 2>&1 | FileCheck %s --check-prefix=TWO
// RUN: not pipesched-translate --export-megatron-layout %t/even.mlir 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pipesched-translate --export-megatron-layout %t/v.mlir 2>&1 | FileCheck %s --check-prefix=V
// RUN: not pipesched-translate --export-megatron-layout %t/paths.mlir 2>&1 | FileCheck %s --check-prefix=PATHS
// RUN: not pipesched-translate --export-megatron-layout %t/short.mlir 2>&1 | FileCheck %s --check-prefix=SHORT

// BLOCKS: {{^}}Et*3|(t*4|)*2,L{{$}}
// EVEN: {{^}}Et*2|(t*2|)*2,t*2L{{$}}
// NAMED: {{^}}EtL{{$}}
// TWO: error: {{.*}}--megatron-schedule
// NONE: even.mlir:1:1: error: 'pipe.schedule' op does not say how many layers its stages hold: give its path blocks, or attach a model
// V: v.mlir:1:1: error: 'pipe.schedule' op has stage 2 on worker 1; a layout of Megatron-Core has it on worker 0
// PATHS: paths.mlir:1:1: error: 'pipe.schedule' op has 2 paths; a layout of Megatron-Core has one
// SHORT: short.mlir:1:1: error: 'pipe.schedule' op has 3 stages; a layout of Megatron-Core for 2 workers has a multiple of them

//--- blocks.mlir
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1, 0, 1] blocks [3, 4, 4, 0]
}

//--- even.mlir
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1, 0, 1]
}

//--- two.mlir
pipe.schedule @a workers 1 microbatches 4 {
  path on [0] blocks [2]
}
pipe.schedule @b workers 1 microbatches 4 {
  path on [0] blocks [1]
}

//--- v.mlir
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1, 1, 0] blocks [1, 1, 1, 1]
}

//--- paths.mlir
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1] blocks [1, 1]
  path on [1, 0] blocks [1, 1]
}

//--- short.mlir
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1, 0] blocks [1, 1, 1]
}
