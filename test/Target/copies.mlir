// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' | pipesched-translate --export-report | FileCheck %s
// RUN: pipesched-translate --export-chrome-trace %s | FileCheck %s --check-prefix=TRACE
// RUN: pipesched-translate --export-text %s | FileCheck %s --check-prefix=TEXT

// Times and copies of an offload: copies have separate queues, parallel to compute.
//
//   compute  0F0 0F1 0F2      |0B0     0B1  0B2         F 10 us, B 20 us
//   offload     [0D0 ]  waits |                         D 15 us, U 12 us
//   reload                [0U0]
//
// 0D0 runs from 10 to 25 us; 0d0 holds 0F2 until then. 0U0 runs from 35 to 47 us, and
// 0B0 waits for it. 10 + 10 + 5 + 10 + 12 + 3 * 20.

// CHECK:        "makespan_ps": 107000000,
// CHECK-NEXT:   "busy_ps": [90000000],
// CHECK:        "communication": [17000000]
// CHECK:        "messages": 0,
// CHECK-NEXT:   "bytes_sent": [0],
// CHECK-NEXT:   "exposed_sharding_ps": [0],
// CHECK-NEXT:   "copies": 2,
// CHECK-NEXT:   "offload_ps": [15000000],
// CHECK-NEXT:   "reload_ps": [12000000],
// CHECK-NEXT:   "critical_path": ["0F0", "0F2", "0B0", "0B1", "0B2"],
// CHECK-NEXT:   "critical_path_messages": 0,
// CHECK-NEXT:   "critical_path_copies": 2
// CHECK:        "peak_activation_bytes": [300],
// CHECK:        "offloaded_bytes": [100],
// CHECK-NEXT:   "reloaded_bytes": [100],

// TRACE: "tid":3,"args":{"name":"offload"}
// TRACE: "tid":4,"args":{"name":"reload"}
// TRACE: "name":"0D0","cat":"offload","pid":0,"tid":3,"ts":10,"dur":15
// TRACE: "name":"0U0","cat":"reload","pid":0,"tid":4,"ts":35,"dur":12

// TEXT:      worker 0  F0 F1 F2 B0─── B1─── B2───
// TEXT-NEXT:  offload     D0 d0
// TEXT-NEXT:   reload           U0
pipe.model @tiny microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" parameters 1 activation_bytes 100 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
pipe.schedule @offloaded workers 1 microbatches 3 model @tiny profile <"F=10us,B=20us,D=15us,U=12us"> {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0d0 0F2 0U0 0B0 0B1 0B2]
}
