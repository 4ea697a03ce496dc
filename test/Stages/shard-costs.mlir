// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-stage-costs)' -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: pipesched-translate --export-report %t.mlir | FileCheck %s --check-prefix=TIMES
// RUN: pipesched-opt %t.mlir -o /dev/null 2>&1 --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-assign-buffers{report=true})' | FileCheck %s --check-prefix=ARENA

// What a shard runs in S and T is that of its functions, and the target that they take. It keeps
// its residual, the last output and what all shards tell, 16 + 16 + 32 bytes. X brings the last
// output, 16, Y what both shards tell, 32, and Z sums the gradient of the last output, 16.
//
// CHECK: pipe.model @shards_stages microbatch_size 1 boundary_bytes 16
// CHECK-NEXT:    block "stage 0" parameters 0 activation_bytes 16 recomputed_bytes 16 state_bytes [0, 0, 0] message_bytes [16, 0] shard_bytes [64, 16, 32, 16] {
// CHECK-NEXT:      kernel "data: tensor.splat" on vector kept F <0 flops, 16 bytes>
// CHECK-NEXT:      kernel "forward: arith.negf" on vector F <4 flops, 32 bytes>
// CHECK-NEXT:      kernel "backward: arith.negf" on vector B <4 flops, 32 bytes>
// CHECK-NEXT:      kernel "shard: arith.negf" on vector S <4 flops, 32 bytes>
// CHECK-NEXT:      kernel "shard: math.exp" on vector S <4 flops, 32 bytes>
// CHECK-NEXT:      kernel "target: tensor.splat" on vector T <0 flops, 8 bytes>
// CHECK-NEXT:      kernel "shard_backward: arith.mulf" on vector T <4 flops, 48 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    block "stage 1"
// CHECK-SAME:      shard_bytes [64, 16, 32, 16] {

// A byte of memory takes 1 ps, one of the network 10 ps, and a message 7 ps more.
//
//   0F0 16 + 32 [0,48]  1F0 [215,247]  X 16 bytes and 7 [247,414]  S 32 + 32 [414,478]
//   Y 2 messages of 16 bytes [478,812]  T 8 + 48 [812,868]  Z as X [868,1035]
//   1B0 32 and 40 of the loss [1035,1107]  0B0 [1274,1306]
// Beside the 64 bytes of its shard a stage keeps its input, which R would take.
// TIMES: "schedule": "shards"
// TIMES: "makespan_ps": 1306,
// TIMES-NEXT: "busy_ps": [200, 224],
// TIMES: "peak_bytes": [80, 80]

// In T the arena also has the target and what T gives, 8 + 16 bytes, but not the input, which no
// backward takes.
// ARENA: the memory analysis predicts 80 bytes at 1S0, the arena has 320 at 1T0: - 16 counted by the costs, kept by no function, + 24 gradients and targets, + 232 alignment
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
    matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 1000000000000>,
    memory = <bytes_per_s = 1000000000000>, memory_bytes = 5000>,
  "network" = #pipe.network_spec<bytes_per_s = 100000000000, latency_ps = 7>>} {
  func.func @data(%microbatch: i64 {pipe.microbatch}) -> (tensor<4xf32> {pipe.input}) {
    %one = arith.constant 1.0 : f32
    %x = tensor.splat %one : tensor<4xf32>
    return %x : tensor<4xf32>
  }
  func.func @forward(%x: tensor<4xf32> {pipe.input}) -> (tensor<4xf32> {pipe.output}) {
    %y = arith.negf %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
  func.func @backward(%dy: tensor<4xf32> {pipe.output_gradient})
      -> (tensor<4xf32> {pipe.input_gradient}) {
    %dx = arith.negf %dy : tensor<4xf32>
    return %dx : tensor<4xf32>
  }
  func.func @shard(%x: tensor<4xf32> {pipe.last_output})
      -> (tensor<4xf32> {pipe.partial = "a"}, tensor<4xf32> {pipe.residual = "r"}) {
    %a = arith.negf %x : tensor<4xf32>
    %r = math.exp %x : tensor<4xf32>
    return %a, %r : tensor<4xf32>, tensor<4xf32>
  }
  func.func @shard_backward(%a: tensor<2x4xf32> {pipe.partials = "a"},
                            %r: tensor<4xf32> {pipe.residual = "r"},
                            %x: tensor<4xf32> {pipe.last_output},
                            %t: tensor<2xf32> {pipe.target})
      -> (tensor<4xf32> {pipe.last_output_gradient}) {
    %dx = arith.mulf %r, %x : tensor<4xf32>
    return %dx : tensor<4xf32>
  }
  func.func @target(%microbatch: i64 {pipe.microbatch}) -> (tensor<2xf32> {pipe.target}) {
    %one = arith.constant 1.0 : f32
    %t = tensor.splat %one : tensor<2xf32>
    return %t : tensor<2xf32>
  }
  func.func @loss(%a: tensor<2x4xf32> {pipe.partials = "a"}) -> (tensor<f32> {pipe.loss}) {
    %none = arith.constant dense<0.0> : tensor<f32>
    %loss = linalg.reduce {arith.addf} ins(%a : tensor<2x4xf32>) outs(%none : tensor<f32>)
        dimensions = [0, 1]
    return %loss : tensor<f32>
  }
  pipe.schedule @shards workers 2 microbatches 1 {
    path on [0, 1]
    stage 0 forward @forward backward @backward shard @shard shard_backward @shard_backward
    stage 1 forward @forward backward @backward shard @shard shard_backward @shard_backward
    data @data
    target @target
    loss @loss
    worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
    worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
  }
}
