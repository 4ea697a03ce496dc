// A forward right after a forward waits until the message of the first has arrived; a
// backward does not wait. A schedule and its program agree.

// RUN: pipesched-translate --export-report --transport=delay --forward-sends=sync %s | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec)' \
// RUN:   | pipesched-translate --export-report --transport=delay --forward-sends=sync | FileCheck %s
// RUN: pipesched-translate --export-report --transport=delay %s | FileCheck %s --check-prefix=ASYNC
// RUN: pipesched-translate --export-report --transport=blocking %s > %t.async
// RUN: pipesched-translate --export-report --transport=blocking --forward-sends=sync %s \
// RUN:   | %python -c "import sys; sys.stdout.write(sys.stdin.read().replace('\"sync\"', '\"async\"'))" | diff %t.async -
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{transport=delay forward-sends=sync})' \
// RUN:   | FileCheck %s --check-prefix=TIMES
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(convert-pipe-to-exec,exec-annotate-timeline{transport=delay forward-sends=sync})' \
// RUN:   --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: pipesched-translate --export-report --forward-sends=sync %s | FileCheck %s --check-prefix=OVERLAP

// PIPELINE: exec-annotate-timeline{disturbance= forward-sends=sync runtime=table transport=delay}

//   worker 0   0F0 [0,10]  0F1 [14,24]  0F2 [28,38]                 .. 0B2 [116,136]
//   worker 1               1F0 [14,24]  1F1 [28,38]  1F2 [42,52] 1B0 [52,72] ..
// CHECK:      "transport": "delay",
// CHECK:      "forward_sends": "sync",
// CHECK-NEXT: "runtime": "table",
// CHECK-NEXT: "makespan_ps": 136000000,
// ASYNC:      "forward_sends": "async",
// ASYNC-NEXT: "runtime": "table",
// ASYNC-NEXT: "makespan_ps": 128000000,

// TIMES:      %f0 = compute 0F0 {exec.end_ps = 10000000 : i64, exec.start_ps = 0 : i64}
// TIMES:      %f1 = compute 0F1 {exec.end_ps = 24000000 : i64, exec.start_ps = 14000000 : i64}

// The queues of `overlap` are free at 11, but the message arrives at 14.
// OVERLAP:    "makespan_ps": 136000000,
pipe.schedule @s workers 2 microbatches 3 profile <"F=10us,B=20us,send=1us,comm=3us"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
  worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
}
