// What it costs to add up the gradients of tied parameters, by hand: 1000 numbers, 4000
// bytes. On the toy system a byte takes 10 ps in memory and 100 ps between workers, after
// 1 us. The reports of the same file without ties say what is added to the O of a worker.
//
// RUN: sed 's/, pipe.tied = "w"//' %s > %t.untied.mlir
// RUN: pipesched-opt %s -o %t.tied --pass-pipeline='builtin.module(pipe-attach-stage-costs,pipe-attach-system{name=toy})'
// RUN: pipesched-opt %t.untied.mlir -o %t.untied --pass-pipeline='builtin.module(pipe-attach-stage-costs,pipe-attach-system{name=toy})'
// RUN: pipesched-opt %t.untied --pass-pipeline='builtin.module(pipe-add-optimizer)' \
// RUN:   | pipesched-translate --export-report | FileCheck %s --check-prefix=UNTIED
// RUN: pipesched-opt %t.tied --pass-pipeline='builtin.module(pipe-add-optimizer)' \
// RUN:   | pipesched-translate --export-report | FileCheck %s --check-prefix=TIED
// RUN: pipesched-opt %t.tied --pass-pipeline='builtin.module(pipe-add-optimizer,convert-pipe-to-exec)' \
// RUN:   | pipesched-translate --export-report | FileCheck %s --check-prefix=TIED

// RUN: pipesched-translate --export-report %t.tied | FileCheck %s --check-prefix=WITHOUT-O

// Stages 0, 2 and 3 share w. Four workers: three of them exchange 2 (3 - 1) messages of
// 4000 / 3 bytes, 4 x 133,333.3 ps + 4 us.
//
// WITHOUT-O: "busy_ps": [240000, 240000, 240000, 240000],
// UNTIED: "makespan_ps": 9480000,
// UNTIED: "busy_ps": [360000, 360000, 360000, 360000],
// TIED: "makespan_ps": 14013333,
// TIED: "busy_ps": [4893333, 360000, 4893333, 4893333],
pipe.schedule @straight workers 4 microbatches 1 {
  path on [0, 1, 2, 3]
  stage 0 forward @shared backward @first update @update
  stage 1 forward @own backward @back update @update
  stage 2 forward @shared backward @back update @update
  stage 3 forward @shared backward @back update @update
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
  worker 2 runs [2F0 2B0]
  worker 3 runs [3F0 3B0]
}

// Two workers, of which the first adds two gradients (3 x 4000 bytes in memory) and
// copies the sum to the second one (2 x 4000): 200,000 ps. Both exchange 2 messages of
// 2000 bytes, 400,000 ps + 2 us.
//
// WITHOUT-O: "busy_ps": [480000, 480000],
// UNTIED: "busy_ps": [720000, 720000],
// TIED: "busy_ps": [3320000, 3120000],
pipe.schedule @valley workers 2 microbatches 1 {
  path on [0, 1, 1, 0]
  stage 0 forward @shared backward @first update @update
  stage 1 forward @own backward @back update @update
  stage 2 forward @shared backward @back update @update
  stage 3 forward @shared backward @back update @update
  worker 0 runs [0F0 3F0 3B0 0B0]
  worker 1 runs [1F0 2F0 2B0 1B0]
}

// One worker adds three gradients and copies the sum to two: 400,000 ps.
//
// WITHOUT-O: "busy_ps": [960000],
// UNTIED: "busy_ps": [1440000],
// TIED: "busy_ps": [1840000],
pipe.schedule @alone workers 1 microbatches 1 {
  path on [0, 0, 0, 0]
  stage 0 forward @shared backward @first update @update
  stage 1 forward @own backward @back update @update
  stage 2 forward @shared backward @back update @update
  stage 3 forward @shared backward @back update @update
  worker 0 runs [0F0 1F0 2F0 3F0 3B0 2B0 1B0 0B0]
}

func.func @shared(%w: tensor<1000xf32> {pipe.param = "w", pipe.tied = "w"}, %x: tensor<1000xf32> {pipe.input})
    -> (tensor<1000xf32> {pipe.output}) {
  %y = arith.addf %x, %w : tensor<1000xf32>
  return %y : tensor<1000xf32>
}
func.func @own(%w: tensor<1000xf32> {pipe.param = "w"}, %x: tensor<1000xf32> {pipe.input})
    -> (tensor<1000xf32> {pipe.output}) {
  %y = arith.addf %x, %w : tensor<1000xf32>
  return %y : tensor<1000xf32>
}
func.func @first(%dy: tensor<1000xf32> {pipe.output_gradient}) -> (tensor<1000xf32> {pipe.gradient = "w"}) {
  return %dy : tensor<1000xf32>
}
func.func @back(%dy: tensor<1000xf32> {pipe.output_gradient})
    -> (tensor<1000xf32> {pipe.input_gradient}, tensor<1000xf32> {pipe.gradient = "w"}) {
  return %dy, %dy : tensor<1000xf32>, tensor<1000xf32>
}
func.func @update(%w: tensor<1000xf32> {pipe.param = "w"}, %dw: tensor<1000xf32> {pipe.gradient = "w"})
    -> (tensor<1000xf32> {pipe.param = "w"}) {
  %new = arith.subf %w, %dw : tensor<1000xf32>
  return %new : tensor<1000xf32>
}
