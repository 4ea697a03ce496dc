// RUN: pipesched-opt %s --split-input-file --allow-unregistered-dialect \
// RUN:   --pass-pipeline='builtin.module(pipe-outline-stages{report})' 2>%t.err | FileCheck %s
// RUN: FileCheck %s --input-file=%t.err --check-prefix=REPORT
// RUN: pipesched-opt %s --split-input-file --allow-unregistered-dialect \
// RUN:   --pass-pipeline='builtin.module(pipe-outline-stages{split-backward})' | FileCheck %s --check-prefix=SPLIT
// RUN: pipesched-opt %project_src/examples/stages/step.mlir \
// RUN:   --pass-pipeline='builtin.module(pipe-outline-stages{split-backward},pipe-schedule-zb-h1,pipe-verify-stages,pipe-attach-stage-costs)' \
// RUN:   | FileCheck %s --check-prefix=COSTS

// Ops without attributes follow their readers: %z and %c are read by forward and backward, and run in
// forward; gradients run where their parameter is. Constants and the transposed weights are in each
// function that reads them. A truth value travels as a byte.

// REPORT: remark: stage 0 sends 'tensor<2x4xf32>', 32 bytes, to stage 1, which sends back 'tensor<2x4xf32>', 32 bytes

// CHECK-LABEL: func.func private @model_stage0_forward(
// CHECK-SAME:    %[[W:.*]]: tensor<4x4xf32> {pipe.param = "w0"}, %[[X:.*]]: tensor<2x4xf32> {pipe.input})
// CHECK-SAME:    -> (tensor<2x4xf32> {pipe.output}, tensor<2x4xi8> {pipe.residual = "0"}) {
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant dense<0.000000e+00> : tensor<2x4xf32>
// CHECK-NEXT:    %[[Z:.*]] = linalg.matmul ins(%[[X]], %[[W]] :
// CHECK-NEXT:    %[[C:.*]] = arith.cmpf ogt, %[[Z]], %[[ZERO]]
// CHECK-NEXT:    %[[Y:.*]] = arith.select %[[C]], %[[Z]], %[[ZERO]] : tensor<2x4xi1>
// CHECK-NEXT:    %[[BYTES:.*]] = arith.extui %[[C]] : tensor<2x4xi1> to tensor<2x4xi8>
// CHECK-NEXT:    return %[[Y]], %[[BYTES]]
// CHECK-LABEL: func.func private @model_stage0_backward(
// CHECK-SAME:    %[[X:.*]]: tensor<2x4xf32> {pipe.input}, %[[BYTES:.*]]: tensor<2x4xi8> {pipe.residual = "0"},
// CHECK-SAME:    %[[DY:.*]]: tensor<2x4xf32> {pipe.output_gradient})
// CHECK-SAME:    -> (tensor<4x4xf32> {pipe.gradient = "w0"}) {
// CHECK-NEXT:    %[[C:.*]] = arith.trunci %[[BYTES]]
// CHECK:         arith.select %[[C]], %[[DY]],
// CHECK:         linalg.transpose ins(%[[X]]
// CHECK-LABEL: func.func private @model_stage1_forward(
// CHECK-SAME:    {pipe.param = "w1", pipe.tied = "t"}, %{{.*}} {pipe.input}) -> (tensor<2x4xf32> {pipe.output}) {
// CHECK:         linalg.transpose
// CHECK-LABEL: func.func private @model_stage1_backward(
// CHECK-SAME:    {pipe.param = "w1", pipe.tied = "t"}, %{{.*}}: tensor<2x4xf32> {pipe.input}, %{{.*}}: tensor<2x4xf32> {pipe.output_gradient})
// CHECK-SAME:    -> (tensor<2x4xf32> {pipe.input_gradient}, tensor<4x4xf32> {pipe.gradient = "w1"}) {
// CHECK-LABEL: func.func private @model_loss(
// CHECK-SAME:    {pipe.output}, %{{.*}} {pipe.target}) -> (tensor<2x4xf32> {pipe.output_gradient}, tensor<f32> {pipe.loss}) {
// CHECK-NOT:   func.func @model
// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 4 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    stage 0 forward @model_stage0_forward backward @model_stage0_backward
// CHECK-NEXT:    stage 1 forward @model_stage1_forward backward @model_stage1_backward
// CHECK-NEXT:    loss @model_loss
// CHECK-NEXT:    data @data

// The first stage sends no gradient: all of its backward is W.

// SPLIT-LABEL: func.func private @model_stage0_input_gradient() {
// SPLIT-LABEL: func.func private @model_stage0_weight_gradient(
// SPLIT-LABEL: func.func private @model_stage1_input_gradient(
// SPLIT-SAME:    {pipe.param = "w1", pipe.tied = "t"}, %{{.*}} {pipe.output_gradient}) -> (tensor<2x4xf32> {pipe.input_gradient}) {
// SPLIT-LABEL: func.func private @model_stage1_weight_gradient(
// SPLIT-SAME:    {pipe.input}, %{{.*}} {pipe.output_gradient}) -> (tensor<4x4xf32> {pipe.gradient = "w1"}) {
// SPLIT:       stage 1 forward @model_stage1_forward input_gradient @model_stage1_input_gradient weight_gradient @model_stage1_weight_gradient

func.func @model(%w0: tensor<4x4xf32> {pipe.param = "w0"}, %w1: tensor<4x4xf32> {pipe.param = "w1", pipe.tied = "t"},
                 %x: tensor<2x4xf32> {pipe.input}, %t: tensor<2x4xf32> {pipe.target})
    -> (tensor<f32> {pipe.loss}, tensor<4x4xf32> {pipe.gradient = "w0"}, tensor<4x4xf32> {pipe.gradient = "w1"}) {
  %zero = arith.constant dense<0.0> : tensor<2x4xf32>
  %zeros = arith.constant dense<0.0> : tensor<4x4xf32>
  %none = arith.constant dense<0.0> : tensor<f32>
  %square = tensor.empty() : tensor<4x4xf32>
  %turned = tensor.empty() : tensor<4x2xf32>
  %unused = arith.addf %x, %x : tensor<2x4xf32>
  %w1_turned = linalg.transpose ins(%w1 : tensor<4x4xf32>) outs(%square : tensor<4x4xf32>) permutation = [1, 0]
  %z = linalg.matmul ins(%x, %w0 : tensor<2x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
  %c = arith.cmpf ogt, %z, %zero : tensor<2x4xf32>
  %y = arith.select %c, %z, %zero {pipe.stage = 0, pipe.phase = "forward"} : tensor<2x4xi1>, tensor<2x4xf32>
  %o = linalg.matmul {pipe.stage = 1, pipe.phase = "forward"} ins(%y, %w1_turned : tensor<2x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
  %d = arith.subf %o, %t {pipe.phase = "loss"} : tensor<2x4xf32>
  %areas = arith.mulf %d, %d : tensor<2x4xf32>
  %loss = linalg.reduce {arith.addf} ins(%areas : tensor<2x4xf32>) outs(%none : tensor<f32>) dimensions = [0, 1]
  %do = arith.addf %d, %d {pipe.phase = "loss"} : tensor<2x4xf32>
  %do_turned = linalg.transpose ins(%do : tensor<2x4xf32>) outs(%turned : tensor<4x2xf32>) permutation = [1, 0]
  %dw1 = linalg.matmul ins(%do_turned, %y : tensor<4x2xf32>, tensor<2x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32>
  %dy = linalg.matmul {pipe.stage = 1, pipe.phase = "backward"} ins(%do, %w1 : tensor<2x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<2x4xf32>) -> tensor<2x4xf32>
  %dz = arith.select %c, %dy, %zero : tensor<2x4xi1>, tensor<2x4xf32>
  %x_turned = linalg.transpose ins(%x : tensor<2x4xf32>) outs(%turned : tensor<4x2xf32>) permutation = [1, 0]
  %dw0 = linalg.matmul ins(%x_turned, %dz : tensor<4x2xf32>, tensor<2x4xf32>) outs(%zeros : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %loss, %dw0, %dw1 : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
func.func private @data() -> (tensor<2x4xf32> {pipe.input})
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1]
  data @data
}

// -----

// Ops of other dialects, with regions, and a call. The function stays where something calls it.

// CHECK-LABEL: func.func private @hlo_stage0_forward(
// CHECK-NEXT:    %[[C:.*]] = "stablehlo.constant"
// CHECK-NEXT:    %[[Y:.*]] = "stablehlo.map"(%{{.*}}) ({
// CHECK:           "stablehlo.multiply"(%{{.*}}, %[[C]])
// CHECK:         return %[[Y]]
// CHECK-LABEL: func.func private @hlo_stage1_forward(
// CHECK-NEXT:    %[[Y:.*]] = call @layer(%{{.*}}) : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT:    return %[[Y]]
// CHECK:       func.func @hlo(

func.func private @layer(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
func.func @hlo(%x: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
  %c = "stablehlo.constant"() {value = 2.0 : f32} : () -> f32
  %y = "stablehlo.map"(%x) ({
  ^bb0(%a: f32):
    %b = "stablehlo.multiply"(%a, %c) : (f32, f32) -> f32
    "stablehlo.return"(%b) : (f32) -> ()
  }) {pipe.stage = 0, pipe.phase = "forward"} : (tensor<8xf32>) -> tensor<8xf32>
  %z = call @layer(%y) {pipe.stage = 1, pipe.phase = "forward"} : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
func.func private @caller(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = call @hlo(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1]
}

// -----

// The output of Shardy's MPMD partitioner, in generic form: fragments on meshes, with transfers.

// CHECK-LABEL: func.func private @mpmd_stage0_forward(
// CHECK-SAME:    %[[W:.*]]: tensor<8xf32> {pipe.param = "a"}, %[[X:.*]]: tensor<8xf32> {pipe.input}) -> (tensor<8xf32> {pipe.output}) {
// CHECK-NEXT:    %[[Y:.*]] = "stablehlo.multiply"(%[[W]], %[[X]])
// CHECK-NEXT:    return %[[Y]]
// CHECK-LABEL: func.func private @mpmd_stage0_backward(
// CHECK-SAME:    %[[X:.*]]: tensor<8xf32> {pipe.input}, %[[DY:.*]]: tensor<8xf32> {pipe.output_gradient}) -> (tensor<8xf32> {pipe.gradient = "a"}) {
// CHECK-LABEL: func.func private @mpmd_stage1_backward(
// CHECK-SAME:    -> (tensor<8xf32> {pipe.input_gradient}, tensor<8xf32> {pipe.gradient = "b"}) {

!m0 = !mpmd.mesh_tensor<"m0", tensor<8xf32>>
!m1 = !mpmd.mesh_tensor<"m1", tensor<8xf32>>
func.func @mpmd(%a: !m0 {pipe.param = "a"}, %b: !m1 {pipe.param = "b"}, %x: !m0 {pipe.input},
                %dz: !m1 {pipe.output_gradient})
    -> (!m1 {pipe.output}, !m0 {pipe.gradient = "a"}, !m1 {pipe.gradient = "b"}) {
  %y = "mpmd.fragment"(%a, %x) <{mesh_name = "m0", origin = [#mpmd.user_origin<"first">], stage_id = 0}> ({
  ^bb0(%w: tensor<8xf32>, %v: tensor<8xf32>):
    %0 = "stablehlo.multiply"(%w, %v) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "mpmd.return"(%0) : (tensor<8xf32>) -> ()
  }) : (!m0, !m0) -> !m0
  %y1 = "mpmd.transfer"(%y) : (!m0) -> !m1
  %z = "mpmd.fragment"(%b, %y1) <{mesh_name = "m1", origin = [#mpmd.user_origin<"second">], stage_id = 1}> ({
  ^bb0(%w: tensor<8xf32>, %v: tensor<8xf32>):
    %0 = "stablehlo.multiply"(%w, %v) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "mpmd.return"(%0) : (tensor<8xf32>) -> ()
  }) : (!m1, !m1) -> !m1
  %dy1, %db = "mpmd.fragment"(%b, %y1, %dz) <{mesh_name = "m1", origin = [#mpmd.user_origin<"second"(1)>], stage_id = 1}> ({
  ^bb0(%w: tensor<8xf32>, %v: tensor<8xf32>, %g: tensor<8xf32>):
    %0 = "stablehlo.multiply"(%w, %g) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %1 = "stablehlo.multiply"(%v, %g) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "mpmd.return"(%0, %1) : (tensor<8xf32>, tensor<8xf32>) -> ()
  }) : (!m1, !m1, !m1) -> (!m1, !m1)
  %dy = "mpmd.transfer"(%dy1) : (!m1) -> !m0
  %da = "mpmd.fragment"(%x, %dy) <{mesh_name = "m0", origin = [#mpmd.user_origin<"first"(1)>], stage_id = 0}> ({
  ^bb0(%v: tensor<8xf32>, %g: tensor<8xf32>):
    %0 = "stablehlo.multiply"(%v, %g) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    "mpmd.return"(%0) : (tensor<8xf32>) -> ()
  }) : (!m0, !m0) -> !m0
  func.return %z, %da, %db : !m1, !m0, !m1
}
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1]
}

// Costs of the messages follow from the functions.

// COSTS-LABEL: pipe.model @divided_stages microbatch_size 1 boundary_bytes 512
// COSTS: block "stage 1" {{.*}} message_bytes [512, 512] {
