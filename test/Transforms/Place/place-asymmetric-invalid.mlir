// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=2})' 2>&1 | FileCheck %s --check-prefix=RATIO
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=0:2})' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:4 way=ramp})' 2>&1 | FileCheck %s --check-prefix=BOUNDS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:2 blocks=128})' 2>&1 | FileCheck %s --check-prefix=BLOCKS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:2 blocks=-128})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{pairs=3})' 2>&1 | FileCheck %s --check-prefix=PAIRS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{waves=2})' 2>&1 | FileCheck %s --check-prefix=WAVES
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{on=wave pairs=2})' 2>&1 | FileCheck %s --check-prefix=WAVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{way=sideways})' 2>&1 | FileCheck %s --check-prefix=WAY
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-asymmetric{ratio=1:2})' 2>&1 | FileCheck %s --check-prefix=LAYERS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:2},pipe-attach-model{name=toy})' 2>&1 | FileCheck %s --check-prefix=LATER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-asymmetric{ratio=1:3 blocks=16})' 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not pipesched-opt %t/odd.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric)' 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric)' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not pipesched-opt %t/none.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric)' 2>&1 | FileCheck %s --check-prefix=EMPTY

// RATIO: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: '2' is no ratio: expected two numbers such as 1:2
// ZERO: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: a part of the ratio 0:2 is 0: it must be 1 to 1000000000
// BOUNDS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: the ratio 1:4 as a ramp leaves nothing to a stage of 8; ratios between 3:11 and 11:3 do not
// BLOCKS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 128 blocks cannot be divided 1:2 as halves over 8 stages, which takes a multiple of 12; the nearest: 120 and 132
// NEGATIVE: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: -128 blocks: there must be 1 or more
// PAIRS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 3 pairs: the number of pairs must divide half of the 8 workers; the nearest are 2 and 4
// WAVES: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: mirrored paths have no waves; give on=wave, or pairs
// WAVE: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: a wave is one path, which takes all microbatches; pairs and assign are for on=mirrored
// WAY: Cannot find option named 'sideways'!
// LAYERS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 8 blocks cannot be divided 1:2 as halves over 8 stages, which takes a multiple of 12; the nearest: 12
// LATER: s.mlir:1:1: error: 'pipe.path' op the weights of path 0 make 12 parts, which do not divide the model's 8 layers; layer counts that they do: 12
// MODEL: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 16 blocks are asked for, its model @toy has 8 layers
// ODD: odd.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 3 workers: a bidirectional placement takes an even number; the nearest are 2 and 4
// ROWS: rows.mlir:1:1: error: 'pipe.schedule' op has rows, whose stages another placement would move; only a schedule without rows can be placed
// EMPTY: error: the module has no pipe.schedule

//--- s.mlir
pipe.schedule @s workers 8 microbatches 16 {
  path on [0, 1, 2, 3, 4, 5, 6, 7]
}

//--- odd.mlir
pipe.schedule @s workers 3 microbatches 16 {
  path on [0, 1, 2]
}

//--- rows.mlir
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}

//--- none.mlir
module {}
