// Functions of stages may have ops of a dialect that a plugin brings, if a pass of it
// turns them into others. Both stages compute y = 2 w x, so that y is 4 w w x, with
// w = [0.5, 0.25, 2, 1] and x = 1.5: the sum is 31.875, for each of 3 microbatches.

// RUN: pipesched-run %s --schedule=1f1b --steps=2 --check --tolerance=0 \
// RUN:   --load-dialect-plugin=%twice_plugin --load-pass-plugin=%twice_plugin \
// RUN:   --pipeline='func.func(test-lower-twice)' | FileCheck %s
// CHECK: step 0: loss 95.625,
// CHECK: check: passed

// Neither the file nor its ops are known without.

// RUN: not pipesched-run %s --schedule=1f1b --load-pass-plugin=%twice_plugin 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: [[@LINE+30]]:22: error: operation being parsed with an unregistered dialect
// RUN: not pipesched-run %s --schedule=1f1b --load-dialect-plugin=%twice_plugin 2>&1 | FileCheck %s --check-prefix=LEFT
// LEFT: error: 'twice.double' op in function 'f' (F of stages 0 and 1) cannot be compiled: there is no lowering of it to loops

// The unpipelined model of a check is that of the file, whatever --stage-pipeline does.

// RUN: not pipesched-run %s --schedule=1f1b --check \
// RUN:   --load-dialect-plugin=%twice_plugin --load-pass-plugin=%twice_plugin \
// RUN:   --stage-pipeline='func.func(test-lower-twice)' 2>&1 | FileCheck %s --check-prefix=REFERENCE
// REFERENCE: error: 'twice.double' op in function 'f' (forward of stages 0 and 1) cannot be compiled

// RUN: not pipesched-run %s --schedule=1f1b --load-dialect-plugin=no.so 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: --load-dialect-plugin: Could not load library 'no.so': {{.*}}
// RUN: not pipesched-run %s --schedule=1f1b --load-dialect-plugin=%negate_plugin 2>&1 | FileCheck %s --check-prefix=PASSES
// PASSES: error: --load-dialect-plugin: Plugin entry point not found in '{{.*}}NegatePlugin.so

pipe.schedule @p workers 2 microbatches 3 {
  path on [0, 1]
  stage 0 init @init forward @f backward @b
  stage 1 init @init forward @f backward @b
  data @data
  loss @loss
}
func.func @init() -> (tensor<4xf32> {pipe.param = "w"}) {
  %w = arith.constant dense<[0.5, 0.25, 2.0, 1.0]> : tensor<4xf32>
  return %w : tensor<4xf32>
}
func.func @f(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input})
    -> (tensor<4xf32> {pipe.output}) {
  %wx = arith.mulf %w, %x : tensor<4xf32>
  %y = "twice.double"(%wx) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @b(%w: tensor<4xf32> {pipe.param = "w"}, %x: tensor<4xf32> {pipe.input},
             %dy: tensor<4xf32> {pipe.output_gradient})
    -> (tensor<4xf32> {pipe.input_gradient}, tensor<4xf32> {pipe.gradient = "w"}) {
  %d = "twice.double"(%dy) : (tensor<4xf32>) -> tensor<4xf32>
  %dx = arith.mulf %d, %w : tensor<4xf32>
  %dw = arith.mulf %d, %x : tensor<4xf32>
  return %dx, %dw : tensor<4xf32>, tensor<4xf32>
}
func.func @data() -> (tensor<4xf32> {pipe.input}) {
  %x = arith.constant dense<1.5> : tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func @loss(%y: tensor<4xf32> {pipe.output})
    -> (tensor<f32> {pipe.loss}, tensor<4xf32> {pipe.output_gradient}) {
  %zero = arith.constant dense<0.0> : tensor<f32>
  %one = arith.constant dense<1.0> : tensor<4xf32>
  %l = linalg.reduce { arith.addf } ins(%y : tensor<4xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  return %l, %one : tensor<f32>, tensor<4xf32>
}
