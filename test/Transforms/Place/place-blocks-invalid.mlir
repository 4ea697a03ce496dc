// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks)' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30})' 2>&1 | FileCheck %s --check-prefix=EXACT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 head=3})' 2>&1 | FileCheck %s --check-prefix=ENDS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=4 head=-3})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=2 head=6})' 2>&1 | FileCheck %s --check-prefix=ROOM
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 balance=cost})' 2>&1 | FileCheck %s --check-prefix=COST
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-attach-system{name=toy},pipe-place-blocks{balance=cost head=1})' 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-blocks{blocks=12})' 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-blocks{counts=1,2,3,4})' 2>&1 | FileCheck %s --check-prefix=SUM
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=1,2,3})' 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=1,,3})' 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=1*4;1*4})' 2>&1 | FileCheck %s --check-prefix=LISTS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=1*4 head=1})' 2>&1 | FileCheck %s --check-prefix=OPTIONS

// NOTHING: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: there are no layers to divide: attach a model, or give blocks or counts
// EXACT: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 30 layers cannot be divided evenly over 4 stages; the nearest numbers that can: 28 and 32
// ENDS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 30 layers and 3 for the ends cannot be divided evenly over 4 stages; the nearest numbers of layers that can: 29 and 33
// NEGATIVE: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: embedding and head stand for 0 layers or more
// ROOM: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: an even share of 2 layers leaves no room for the 6 that the last stage holds beside layers
// COST: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: balance=cost needs a model, and a system for its costs; attach both first
// HEAD: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: the model says what embedding and head cost; their options are for exact and count
// MODEL: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 12 blocks are asked for, its model @toy has 8 layers
// SUM: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: the blocks of path 0 are more than the model's 8 layers
// SHORT: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: path 0 has 4 stages but blocks for 3
// TEXT: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: counts, character 3: expected a count, found ','
// LISTS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 2 lists of counts, but the number of paths is 1: give one list for all, or one for each
// OPTIONS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: counts say how many layers each stage holds; balance, blocks, embedding and head do not go with them

//--- s.mlir
pipe.schedule @s workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}
