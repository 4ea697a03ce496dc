// RUN: pipesched-run %s --schedule=1f1b --steps=2 --check | FileCheck %s
// RUN: pipesched-run %s --schedule=chimera --steps=2 --check | FileCheck %s
// RUN: rm -rf %t && mkdir %t && cd %t
// RUN: pipesched-run %s --schedule=1f1b --save-parameters=start > %t/log
// RUN: pipesched-run %s --schedule=1f1b --steps=2 --parameters=start | FileCheck %s --check-prefix=LOSS
// RUN: pipesched-run %s --schedule=1f1b --emit=executable -o train --cc=%cc --steps=2
// RUN: ./train | FileCheck %s --check-prefix=LOSS

// Samples are parameters of the stages that read them, of which three serve two
// microbatches a step; forward, backward and loss know the microbatch and the
// step. The loss of a microbatch is x + t + 100 step + 1000 microbatch:
//
//   step 0    1 + 10           2 + 20 + 1000
//   step 1    3 + 30 + 100     1 + 10 + 100 + 1000
//
// CHECK: step 0: loss 1033,
// CHECK: step 1: loss 1244,
// CHECK: losses             1           1  0.00e+00
// CHECK: gradients {{ *}}[[N:[0-9]+]] {{ *}}[[N]] 0.00e+00
// CHECK: check: passed
// LOSS: step 0: loss 1033,
// LOSS: step 1: loss 1244,

pipe.schedule @samples workers 2 microbatches 2 {
  path on [0, 1]
  stage 0 init @init0 forward @forward0 backward @backward
  stage 1 init @init1 forward @forward1 backward @backward
  data @data
  target @target
  loss @loss
}

func.func @init0() -> (tensor<f32> {pipe.param = "w"},
                       tensor<3xf32> {pipe.param = "samples"}) {
  %w = arith.constant dense<0.0> : tensor<f32>
  %s = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  return %w, %s : tensor<f32>, tensor<3xf32>
}
func.func @init1() -> (tensor<f32> {pipe.param = "w"},
                       tensor<3xf32> {pipe.param = "samples"}) {
  %w = arith.constant dense<0.0> : tensor<f32>
  %s = arith.constant dense<[10.0, 20.0, 30.0]> : tensor<3xf32>
  return %w, %s : tensor<f32>, tensor<3xf32>
}
func.func private @sample(%samples: tensor<3xf32>, %m: i64, %step: i64) -> tensor<f32> {
  %c2 = arith.constant 2 : i64
  %c3 = arith.constant 3 : i64
  %before = arith.muli %step, %c2 : i64
  %count = arith.addi %before, %m : i64
  %number = arith.remui %count, %c3 : i64
  %i = arith.index_cast %number : i64 to index
  %one = tensor.extract_slice %samples[%i] [1] [1] : tensor<3xf32> to tensor<f32>
  return %one : tensor<f32>
}
func.func @data(%samples: tensor<3xf32> {pipe.param = "samples"},
                %m: i64 {pipe.microbatch}, %step: i64 {pipe.step})
    -> (tensor<f32> {pipe.input}) {
  %x = call @sample(%samples, %m, %step) : (tensor<3xf32>, i64, i64) -> tensor<f32>
  return %x : tensor<f32>
}
func.func @target(%samples: tensor<3xf32> {pipe.param = "samples"},
                  %m: i64 {pipe.microbatch}, %step: i64 {pipe.step})
    -> (tensor<f32> {pipe.target}) {
  %t = call @sample(%samples, %m, %step) : (tensor<3xf32>, i64, i64) -> tensor<f32>
  return %t : tensor<f32>
}
func.func private @add(%x: tensor<f32>, %number: i64, %factor: f32) -> tensor<f32> {
  %float = arith.sitofp %number : i64 to f32
  %term = arith.mulf %float, %factor : f32
  %terms = tensor.from_elements %term : tensor<f32>
  %y = arith.addf %x, %terms : tensor<f32>
  return %y : tensor<f32>
}
func.func @forward0(%w: tensor<f32> {pipe.param = "w"}, %x: tensor<f32> {pipe.input},
                    %step: i64 {pipe.step}) -> (tensor<f32> {pipe.output}) {
  %c100 = arith.constant 100.0 : f32
  %sum = arith.addf %x, %w : tensor<f32>
  %y = call @add(%sum, %step, %c100) : (tensor<f32>, i64, f32) -> tensor<f32>
  return %y : tensor<f32>
}
func.func @forward1(%w: tensor<f32> {pipe.param = "w"}, %x: tensor<f32> {pipe.input},
                    %m: i64 {pipe.microbatch}) -> (tensor<f32> {pipe.output}) {
  %c500 = arith.constant 500.0 : f32
  %sum = arith.addf %x, %w : tensor<f32>
  %y = call @add(%sum, %m, %c500) : (tensor<f32>, i64, f32) -> tensor<f32>
  return %y : tensor<f32>
}
// The gradients are not real ones: they identify microbatches and steps.
func.func @backward(%dy: tensor<f32> {pipe.output_gradient},
                    %m: i64 {pipe.microbatch}, %step: i64 {pipe.step})
    -> (tensor<f32> {pipe.input_gradient}, tensor<f32> {pipe.gradient = "w"}) {
  %c3 = arith.constant 3.0 : f32
  %c7 = arith.constant 7.0 : f32
  %dx = call @add(%dy, %m, %c3) : (tensor<f32>, i64, f32) -> tensor<f32>
  %dw = call @add(%dx, %step, %c7) : (tensor<f32>, i64, f32) -> tensor<f32>
  return %dx, %dw : tensor<f32>, tensor<f32>
}
func.func @loss(%y: tensor<f32> {pipe.output}, %t: tensor<f32> {pipe.target},
                %m: i64 {pipe.microbatch})
    -> (tensor<f32> {pipe.loss}, tensor<f32> {pipe.output_gradient}) {
  %c500 = arith.constant 500.0 : f32
  %one = arith.constant dense<1.0> : tensor<f32>
  %sum = arith.addf %y, %t : tensor<f32>
  %l = call @add(%sum, %m, %c500) : (tensor<f32>, i64, f32) -> tensor<f32>
  return %l, %one : tensor<f32>, tensor<f32>
}
