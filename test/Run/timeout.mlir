// A run that is stuck ends by --timeout, which names the worker that computes without end.

// RUN: not pipesched-run %s --schedule=gpipe --timeout=1 2>&1 | FileCheck %s
// RUN: not pipesched-run %s --schedule=gpipe --timeout=-1 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-run %s --schedule=gpipe --timeout=1 --emit=llvm 2>&1 | FileCheck %s --check-prefix=EMIT

// CHECK: error: the run has not ended after 1 s (--timeout); still computing: worker 1{{$}}
// NEGATIVE: error: --timeout: expected 0 to 1000000000 seconds, found -1
// EMIT: error: --timeout belongs to runs, and --emit=llvm runs nothing

func.func @forward(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %y = arith.mulf %w, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @endless(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %first = arith.constant 0 : index
  %one = arith.constant 1 : index
  %end = arith.constant 4611686018427387904 : index
  %y = scf.for %i = %first to %end step %one iter_args(%sum = %x) -> (tensor<4xf32>) {
    %product = arith.mulf %sum, %w : tensor<4xf32>
    %next = arith.addf %product, %w : tensor<4xf32>
    scf.yield %next : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
func.func @backward(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input},
                    %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  %dx = arith.mulf %w, %dy : tensor<4xf32>
  %dw = arith.mulf %x, %dy : tensor<4xf32>
  return %dx, %dw : tensor<4xf32>, tensor<4xf32>
}
func.func @ones(%microbatch: i64 {pipe.microbatch}) -> (tensor<4xf32> {pipe.input}) {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  return %ones : tensor<4xf32>
}
func.func @sum(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %loss = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>)
      outs(%zero : tensor<f32>) dimensions = [0]
  return %loss, %y : tensor<f32>, tensor<4xf32>
}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1]
  stage 0 forward @forward backward @backward
  stage 1 forward @endless backward @backward
  data @ones
  loss @sum
}
