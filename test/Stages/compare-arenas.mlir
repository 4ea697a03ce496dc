// RUN: pipesched-opt-raw %s --split-input-file --pass-pipeline='builtin.module(pipe-attach-stage-costs,convert-pipe-to-exec,exec-assign-buffers{report=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s
// RUN: pipesched-opt-raw %s --split-input-file --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-assign-buffers{report=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOCOSTS
// RUN: %python %project_src/examples/stages/mlp.py --stages 4 --workers 4 --widths 16 \
// RUN:   | pipesched-opt-raw --pass-pipeline='builtin.module(pipe-schedule-1f1b,pipe-attach-stage-costs,convert-pipe-to-exec,exec-assign-buffers{report=true})' -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DOCS

// Without costs there is no prediction.
// NOCOSTS: an arena of 320 bytes
// NOCOSTS-NOT: predicts

// docs/Buffers.md shows these.
// DOCS: remark: the memory analysis predicts 4096 bytes at 0F3, the arena has 6144 at 0B0: + 512 gradients and targets, + 512 used by this instruction alone, + 1024 being sent or copied{{$}}
// DOCS: remark: the memory analysis predicts 3072 bytes at 1F2, the arena has 6144 at 1B0: + 512 inputs received ahead, + 1024 gradients and targets, + 512 used by this instruction alone, + 1024 being sent or copied{{$}}
// DOCS: remark: the memory analysis predicts 2048 bytes at 2F1, the arena has 5120 at 2B0: + 512 inputs received ahead, + 1024 gradients and targets, + 512 used by this instruction alone, + 1024 being sent or copied{{$}}
// DOCS: remark: the memory analysis predicts 1024 bytes at 3F0, the arena has 3584 at 3B2: + 1536 gradients and targets, + 1024 being sent or copied{{$}}

// Both stages keep their output, of 60 bytes; that of stage 0 is the input that
// stage 1 keeps. The costs count it twice. In 1B0 there are two gradients,
// of the output, which the loss gives, and of the input.
func.func @d() -> (tensor<15xf32> {pipe.input}) {
  %x = arith.constant dense<1.0> : tensor<15xf32>
  return %x : tensor<15xf32>
}
func.func @f(%x: tensor<15xf32> {pipe.input}) -> (tensor<15xf32> {pipe.output}) {
  return %x : tensor<15xf32>
}
func.func @b(%x: tensor<15xf32> {pipe.input}, %y: tensor<15xf32> {pipe.output},
             %dy: tensor<15xf32> {pipe.output_gradient})
    -> (tensor<15xf32> {pipe.input_gradient}) {
  return %dy : tensor<15xf32>
}
func.func @l(%y: tensor<15xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<15xf32> {pipe.output_gradient}) {
  %l = arith.constant dense<0.0> : tensor<f32>
  return %l, %y : tensor<f32>, tensor<15xf32>
}
// CHECK: worker 0: an arena of 320 bytes holds at most
// CHECK: the memory analysis predicts 240 bytes at 1F0, the arena has 320 at 1B0: - 60 one tensor of two stages, + 120 gradients and targets, + 20 alignment{{$}}
pipe.schedule @local workers 1 microbatches 1 {
  path on [0, 0]
  stage 0 forward @f backward @b
  stage 1 forward @f backward @b
  data @d
  loss @l
  worker 0 runs [0F0 1F0 1B0 0B0]
}
