// What the passes of placements refuse. The rules of paths, ratios, layouts and blocks are tested in
// unittests/Schedule, Exchange and CostModel; here is one error of each, and what the passes check.

// RUN: split-file %s %t
// RUN: not pipesched-opt %t/none.mlir --pass-pipeline='builtin.module(pipe-place-linear)' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-linear{schedule=shedule})' 2>&1 | FileCheck %s --check-prefix=CLOSE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-linear{schedule=evn})' 2>&1 | FileCheck %s --check-prefix=EVEN
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-v)' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-interleaved{chunks=9223372036854775807 schedule=schedule})' 2>&1 | FileCheck %s --check-prefix=CHUNKS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-wave{waves=-1 schedule=schedule})' 2>&1 | FileCheck %s --check-prefix=WAVES
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-bidirectional{schedule=schedule})' 2>&1 | FileCheck %s --check-prefix=ODD
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-bidirectional{schedule=even assign=thirds})' 2>&1 | FileCheck %s --check-prefix=ASSIGN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-list{paths=0,x schedule=even})' 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=even},pipe-place-list{paths="0,1 blocks 4,5" schedule=even})' 2>&1 | FileCheck %s --check-prefix=MORE
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-list{paths=0})' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout{schedule=even})' 2>&1 | FileCheck %s --check-prefix=LAYOUT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=Et*3|(tt|)*29,m|L schedule=even})' 2>&1 | FileCheck %s --check-prefix=MTP
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=Et|(t|)*4,tL schedule=even})' 2>&1 | FileCheck %s --check-prefix=STAGES
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=even},pipe-place-layout{layout=Et|(t*2|)*2,tL schedule=even})' 2>&1 | FileCheck %s --check-prefix=LAYERS
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=EtL})' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=2 schedule=even})' 2>&1 | FileCheck %s --check-prefix=RATIO
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{waves=2 schedule=even})' 2>&1 | FileCheck %s --check-prefix=NO-WAVES
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{on=wave pairs=2 schedule=even})' 2>&1 | FileCheck %s --check-prefix=NO-PAIRS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{way=sideways schedule=even})' 2>&1 | FileCheck %s --check-prefix=WAY
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=even},pipe-place-asymmetric{ratio=1:2 schedule=even})' 2>&1 | FileCheck %s --check-prefix=DIVIDE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric{ratio=1:2 schedule=even},pipe-attach-model{name=toy schedule=even})' 2>&1 | FileCheck %s --check-prefix=LATER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=even},pipe-place-asymmetric{ratio=1:3 blocks=16 schedule=even})' 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-asymmetric)' 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{schedule=even})' 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 schedule=even})' 2>&1 | FileCheck %s --check-prefix=EXACT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=4 head=-3 schedule=even})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 balance=cost schedule=even})' 2>&1 | FileCheck %s --check-prefix=COST
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=even},pipe-attach-system{name=toy},pipe-place-blocks{balance=cost head=1 schedule=even})' 2>&1 | FileCheck %s --check-prefix=HEAD
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=even},pipe-place-blocks{blocks=16 schedule=even})' 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=1*4;1*4 schedule=even})' 2>&1 | FileCheck %s --check-prefix=LISTS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=1*4 head=1 schedule=even})' 2>&1 | FileCheck %s --check-prefix=COUNTS

// NONE: none.mlir:1:1: error: the module has no pipe.schedule
// CLOSE: error: no pipe.schedule is called @shedule, the closest is 'schedule'
// EVEN: error: no pipe.schedule is called @evn, the closest is 'even'
// ROWS: rows.mlir:1:1: error: 'pipe.schedule' op has rows, whose stages another placement would move; only a schedule without rows can be placed
// CHUNKS: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 9223372036854775807 chunks: there must be 1 to 5592405 with 3 workers, for at most 16777216 stages
// WAVES: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: -1 waves: there must be 1 to 2796202 with 3 workers, for at most 16777216 stages
// ODD: s.mlir:1:1: error: 'pipe.schedule' op cannot be placed: 3 workers: a bidirectional placement takes an even number; the nearest are 2 and 4
// ASSIGN: Cannot find option named 'thirds'!
// LIST: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: paths, character 3: expected a worker, found 'x'
// MORE: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: the blocks of path 0 are more than the model's 8 layers
// LAYOUT: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: layout, character 1: the layout has no loss 'L', which its last stage ends with
// MTP: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: layout, character 15: blocks are decoder layers 't'; an MTP layer 'm' cannot be said with them
// STAGES: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: the layout has 6 stages, no multiple of the 4 workers; numbers of workers that divide them: 3 and 6
// LAYERS: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: the blocks of path 0 add up to 6, the model has 8 layers
// RATIO: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: '2' is not a ratio: expected two numbers such as 1:2
// NO-WAVES: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: mirrored paths have no waves; give on=wave, or pairs
// NO-PAIRS: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: a wave is one path, which takes all microbatches; pairs and assign are for on=mirrored
// WAY: Cannot find option named 'sideways'!
// DIVIDE: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: 8 blocks cannot be divided 1:2 as halves over 4 stages, which takes a multiple of 6; the nearest: 6 and 12
// LATER: s.mlir:4:1: error: 'pipe.path' op the weights of path 0 make 6 parts, which do not divide the model's 8 layers; layer counts that they do: 6 and 12
// OTHER: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: 16 blocks are asked for, its model @toy has 8 layers
// NOTHING: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: there are no layers to divide: attach a model, or give blocks or counts
// EXACT: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: 30 layers cannot be divided evenly over 4 stages; the nearest numbers that can: 28 and 32
// NEGATIVE: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: embedding and head stand for 0 layers or more
// COST: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: balance=cost needs a model, and a system for its costs; attach both first
// HEAD: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: the model says what embedding and head cost; their options are for exact and count
// LISTS: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: 2 lists of counts, but the number of paths is 1: give one list for all, or one for each
// COUNTS: s.mlir:4:1: error: 'pipe.schedule' op cannot be placed: counts say how many layers each stage holds; balance, blocks, embedding and head do not go with them

//--- none.mlir
module {}

//--- s.mlir
pipe.schedule @schedule workers 3 microbatches 4 {
  path on [0, 1, 2]
}
pipe.schedule @even workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

//--- rows.mlir
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
