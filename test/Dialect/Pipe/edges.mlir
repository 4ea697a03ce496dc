// Nodes, and edges in addition to the chain: text, generic form, bytecode, checks,
// programs.

// RUN: pipesched-opt %s --pipe-verify | FileCheck %s
// RUN: pipesched-opt %s --emit-bytecode -o %t.bc
// RUN: pipesched-opt-raw %t.bc | FileCheck %s
// RUN: pipesched-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC
// RUN: pipesched-opt %s --convert-pipe-to-exec --exec-verify | FileCheck %s --check-prefix=EXEC
// RUN: pipesched-opt %s --convert-pipe-to-exec=receive-placement=consumer --exec-verify | FileCheck %s --check-prefix=EXEC

// GENERIC: "pipe.node"() <{frozen, number = 2 : i64, workers = array<i32: 0>}> : () -> ()
// GENERIC: "pipe.edge"() <{from = 2 : i64, to = 0 : i64}> : () -> ()
// CHECK-LABEL: pipe.schedule @encoder
// CHECK-NEXT:    path on [1, 2]
// CHECK-NEXT:    node 2 on [0] frozen
// CHECK-NEXT:    edge 2 -> 0

// No gradient comes back to a frozen encoder.
// EXEC-LABEL: exec.program @encoder
// EXEC:         node 2 on [0] frozen
// EXEC-NEXT:    edge 2 -> 0
// EXEC:         worker 0 {
// EXEC-NOT:       recv
// EXEC:         worker 1 {
// EXEC:           recv 2F0 from 0
// EXEC:           compute 0F0
// EXEC-NOT:       send 0B0
// EXEC:         worker 2 {
pipe.schedule @encoder workers 3 microbatches 2 {
  path on [1, 2]
  node 2 on [0] frozen
  edge 2 -> 0
  worker 0 runs [2F0 2F1]
  worker 1 runs [0F0 0F1 0B0 0B1]
  worker 2 runs [1F0 1B0 1F1 1B1]
}

// One message goes to the two stages of worker 1, which sums their gradients
// and sends them after the later one. An offload waits for all messages.
// CHECK-LABEL: pipe.schedule @fork
// EXEC-LABEL: exec.program @fork
// EXEC:         worker 0 {
// EXEC-NEXT:      %[[F:.*]] = compute 0F0
// EXEC-NEXT:      %[[S1:.*]] = send 0F0 to 1 after %[[F]]
// EXEC-NEXT:      %[[S2:.*]] = send 0F0 to 2 after %[[F]]
// EXEC-NEXT:      offload 0D0 after %[[F]], %[[S1]], %[[S2]]
// EXEC-NEXT:      %[[U:.*]] = reload 0U0
// EXEC-DAG:       %[[ONE:.*]] = recv 1B0 from 1
// EXEC-DAG:       %[[TWO:.*]] = recv 3B0 from 2
// EXEC:           compute 0B0 after %[[F]], %[[ONE]], %[[TWO]], %[[U]]
// EXEC:         worker 1 {
// EXEC:           %[[IN:.*]] = recv 0F0 from 0
// EXEC-NEXT:      compute 1F0 after %[[IN]]
// EXEC-NEXT:      compute 2F0 after %[[IN]]
// EXEC-NEXT:      compute 2B0
// EXEC-NEXT:      %[[LAST:.*]] = compute 1B0
// EXEC-NEXT:      send 1B0 to 0 after %[[LAST]]
pipe.schedule @fork workers 3 microbatches 1 {
  path on [0, 1]
  node 2 on [1]
  node 3 on [2]
  edge 0 -> 2
  edge 0 -> 3
  worker 0 runs [0F0 0D0 0U0 0B0]
  worker 1 runs [1F0 2F0 2B0 1B0]
  worker 2 runs [3F0 3B0]
}

// GENERIC: "pipe.node"() <{none, number = 3 : i64
// GENERIC: "pipe.edge"() <{from = 0 : i64, noGradient, to = 2 : i64}>
// CHECK-LABEL: pipe.schedule @others
// CHECK:         node 3 on [1] none
// CHECK-NEXT:    edge 0 -> 2 no gradient {test.note}
// CHECK-NEXT:    edge 1 -> 3

// EXEC-LABEL: exec.program @others
// EXEC:         worker 2 {
// EXEC:           send 2B0 to 1
// EXEC-NOT:       send
pipe.schedule @others workers 3 microbatches 1 {
  path on [0, 1, 2]
  node 3 on [1] none
  edge 0 -> 2 no gradient {test.note}
  edge 1 -> 3
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 3F0 1B0]
  worker 2 runs [2F0 2B0]
}

// Another tensor of a stage, a node that runs one microbatch, its blocks.
// GENERIC: "pipe.node"() <{block_counts = array<i64: 1, 24>, blocks = ["patches", "vision layer"], number = 2 : i64, takes = array<i64: 1, 2, 1>
// GENERIC: "pipe.edge"() <{bytes = 4096 : i64, from = 2 : i64, tensor = "features", to = 0 : i64}>
// CHECK-LABEL: pipe.schedule @some
// CHECK-NEXT:    path on [1, 2] blocks [1, 3]
// CHECK-NEXT:    node 2 on [0] takes [1] holds "patches", "vision layer" x 24
// CHECK-NEXT:    node 3 on [0] none takes [] holds "head" {test.note}
// CHECK-NEXT:    edge 2 -> 0 "features" bytes 4096
// CHECK-NEXT:    edge 0 -> 3 "logits" no gradient

// EXEC-LABEL: exec.program @some
// EXEC:         node 2 on [0] takes [1] holds "patches", "vision layer" x 24
// EXEC:         edge 2 -> 0 "features" bytes 4096
// EXEC:         worker 1 {
// EXEC-NEXT:      compute 0F0
// EXEC-NEXT:      send
// EXEC-NEXT:      recv 2F1 from 0
// EXEC-NEXT:      compute 0F1
pipe.schedule @some workers 3 microbatches 2 {
  path on [1, 2] blocks [1, 3]
  node 2 on [0] takes [1] holds "patches", "vision layer" x 24
  node 3 on [0] none takes [] holds "head" x 1 {test.note}
  edge 2 -> 0 "features" bytes 4096
  edge 0 -> 3 "logits" no gradient
  worker 0 runs [2F1 2B1]
  worker 1 runs [0F0 0F1 0B0 0B1]
  worker 2 runs [1F0 1B0 1F1 1B1]
}
