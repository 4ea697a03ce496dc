// Slow workers and stages: every cell on worker 1 takes 1.5 times as long, every cell of stage 0
// twice; messages keep their times. A schedule and its program agree.

// RUN: pipesched-translate --export-report --transport=delay --disturbance=worker1=1.5,stage0=2 %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' \
// RUN:   | pipesched-translate --export-report --transport=delay --disturbance=worker1=1.5,stage0=2 \
// RUN:   | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{transport=delay disturbance=worker1=1.5,stage0=2})' \
// RUN:   | FileCheck %s --check-prefix=TIMES
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{disturbance=gpu1=2})' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OPTION
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{disturbance=worker2=2})' 2>&1 \
// RUN:   | FileCheck %s --check-prefix=WORKER
// RUN: not pipesched-translate --export-report --disturbance=gpu1=2 %s 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-translate --export-report --disturbance=worker2=2 %s 2>&1 | FileCheck %s --check-prefix=WORKER

// NAME: for the --disturbance option: expected worker<number>, stage<number>, jitter or seed, found 'gpu1'
// OPTION: error: disturbance: expected worker<number>, stage<number>, jitter or seed, found 'gpu1'
// WORKER: there is no worker 2 to slow down; there are 2, numbered from 0

//   worker 0   0F0 [0,20]                           0B0 [67,107]
//   worker 1              1F0 [21,36] 1B0 [36,66]
// TIMES: compute 0F0 {exec.end_ps = 20000000 : i64, exec.start_ps = 0 : i64}
// TIMES: compute 0B0 after {{.*}} {exec.end_ps = 107000000 : i64, exec.start_ps = 67000000 : i64}
// TIMES: compute 1F0 after {{.*}} {exec.end_ps = 36000000 : i64, exec.start_ps = 21000000 : i64}
// TIMES: compute 1B0 after {{.*}} {exec.end_ps = 66000000 : i64, exec.start_ps = 36000000 : i64}
// CHECK-LABEL: "schedule": "slow"
// CHECK:       "disturbance": "worker1=1.5,stage0=2",
// CHECK-NEXT:  "makespan_ps": 107000000,
// CHECK-NEXT:  "busy_ps": [60000000, 45000000],
pipe.schedule @slow workers 2 microbatches 1 profile <"F=10us,B=20us,comm=1us"> {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
