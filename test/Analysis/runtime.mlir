// Costs under PyTorch's runtime: on stage 0 I is empty and W the whole backward, and the
// cells of a pair run in turn. A schedule and its program agree.

// RUN: pipesched-translate --export-report --transport=delay %s | FileCheck %s --check-prefix=TABLE
// RUN: pipesched-translate --export-report --transport=delay --runtime=torch %s \
// RUN:   | FileCheck %s --check-prefix=TORCH
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' \
// RUN:   | pipesched-translate --export-report --transport=delay --runtime=torch \
// RUN:   | FileCheck %s --check-prefix=TORCH
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{runtime=torch})' \
// RUN:   | FileCheck %s --check-prefix=TIMES
// RUN: not pipesched-translate --export-report --runtime=jax %s 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: Cannot find option named 'jax'!

//   worker 0   0F0 [0,10] 0F1 [10,20]   0I0 [40,60]   0I1 [70,90] 0W0 [90,120] 0W1 [120,150]
//   torch                               0I0 [40,40]   0I1 [70,70] 0W0 [70,120] 0W1 [120,170]
//   worker 1   1F0 [10,20] 1I0 [20,40] 1F1 [40,50] 1I1 [50,70] 1W0 [70,100] 1W1 [100,130]
// TABLE-LABEL: "schedule": "split"
// TABLE:       "runtime": "table",
// TABLE-NEXT:  "makespan_ps": 150000000,
// TORCH-LABEL: "schedule": "split"
// TORCH:       "runtime": "torch",
// TORCH-NEXT:  "makespan_ps": 170000000,
// TIMES:       compute 0I0 after %{{.*}} {exec.end_ps = 40000000 : i64, exec.start_ps = 40000000 : i64}
// TIMES:       compute 0W0 after %{{.*}} {exec.end_ps = 120000000 : i64, exec.start_ps = 70000000 : i64}
pipe.schedule @split workers 2 microbatches 2 profile <"F=10us,I=20us,W=30us"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0I0 0I1 0W0 0W1]
  worker 1 runs [1F0 1I0 1F1 1I1 1W0 1W1]
}

// TABLE-LABEL: "schedule": "pair"
// TABLE:       "makespan_ps": 105000000,
// TORCH-LABEL: "schedule": "pair"
// TORCH:       "makespan_ps": 120000000,
pipe.schedule @pair workers 1 microbatches 2 profile <"F=10us,B=50us,FB=45us"> {
  path on [0]
  worker 0 runs [0F0 0F1+0B0 0B1]
}
