// The transport and the message semantics `pairs`: the messages of two workers, both directions, share a queue.

// RUN: pipesched-opt %s -split-input-file -verify-diagnostics --pass-pipeline='builtin.module(pipe-verify{messages=pairs})' -o /dev/null
// RUN: split-file %s %t
// RUN: pipesched-translate --export-report --transport=pairs %t/gpipe.mlir | FileCheck %s
// RUN: not pipesched-translate --export-report --transport=pairs %t/exchange.mlir -o %t/none 2>&1 | FileCheck %s --check-prefix=STOPS
// RUN: pipesched-opt %t/exchange.mlir --pass-pipeline='builtin.module(convert-pipe-to-exec)' -o %t/exec.mlir
// RUN: pipesched-opt %t/exec.mlir --pass-pipeline='builtin.module(exec-verify{messages=batched})' -o /dev/null
// RUN: not pipesched-opt %t/exec.mlir --pass-pipeline='builtin.module(exec-verify{messages=pairs})' -o /dev/null 2>&1 | FileCheck %s --check-prefix=EXEC

// Each receive is issued after the cell before it, so that messages are exposed: (N + D - 2) (F + B + 2 c) + F + B.

// CHECK: "transport": "pairs",
// CHECK: "makespan_ps": 210000000,
// CHECK: "dependency": [78000000, 33000000, 0],
// CHECK-NEXT: "queue_order": [0, 0, 0],
// CHECK-NEXT: "communication": [12000000, 21000000, 9000000]

// STOPS: error: 'pipe.schedule' op deadlocks in a cycle of 4 waits
// EXEC: error: 'exec.program' op deadlocks with messages=pairs in a cycle of 4 waits
// EXEC: note: {{.*}} among the messages of worker {{[01]}} with worker {{[01]}}

//--- gpipe.mlir
pipe.schedule @gpipe workers 3 microbatches 4 profile <"F=10us,B=20us,comm=3us"> {
  path on [0, 1, 2]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1F1 1F2 1F3 1B0 1B1 1B2 1B3]
  worker 2 runs [2F0 2F1 2F2 2F3 2B0 2B1 2B2 2B3]
}

// -----

//--- exchange.mlir
// Both workers send before they receive, in the order of which they disagree.
// expected-error@+1 {{'pipe.schedule' op deadlocks with messages=pairs in a cycle of 4 waits}}
pipe.schedule @exchange workers 2 microbatches 3 {
  path on [0, 1]
  // expected-note@+2 {{recv 1B1 from 1 comes after send 0F2 to 1 among the messages of worker 0 with worker 1}}
  // expected-note@+1 {{send 0F2 to 1 on worker 0 waits for recv 0F2 from 0 on worker 1 (its message)}}
  worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
  // expected-note@+2 {{recv 0F2 from 0 comes after send 1B1 to 0 among the messages of worker 1 with worker 0}}
  // expected-note@+1 {{send 1B1 to 0 on worker 1 waits for recv 1B1 from 1 on worker 0 (its message)}}
  worker 1 runs [1F0 1B0 1F1 1B1 1F2 1B2]
}
