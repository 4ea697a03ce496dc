// A script makes a schedule, moves a cell, proves the result and asserts how
// long it is. It runs in pipesched-opt and, with the plugin, in the stock tool.

// RUN: pipesched-opt %s --transform-interpreter | FileCheck %s
// RUN: %if !sanitizer %{ mlir-opt %s --load-dialect-plugin=%plugin \
// RUN:   --load-pass-plugin=%plugin --transform-interpreter | FileCheck %s %}

// The backward of the last microbatch goes before the forward that it does not
// need, which makes the table longer.

// CHECK-LABEL: pipe.schedule @moved
// CHECK-SAME:  {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0B0 0F2 0B1 0B2]
// CHECK-NEXT:    worker 1 runs [1F0 1B0 1F1 1F2 1B1 1B2]
pipe.schedule @moved workers 2 microbatches 3 {
  path on [0, 1]
}
// CHECK-LABEL: pipe.schedule @waves workers 2 microbatches 2 family "zb-v" {
// CHECK-NEXT:    path on [0, 1, 1, 0]
pipe.schedule @waves workers 2 microbatches 2 {
  path on [0, 1]
}
// CHECK-LABEL: pipe.schedule @replaced workers 2 microbatches 1 slices 2 {
// CHECK:         worker 1 runs [1F0.0 _3 1F0.1 1B0.1 1B0.0]
pipe.schedule @replaced workers 2 microbatches 1 slices 2 {
  path on [0, 1]
}
// CHECK-LABEL: pipe.schedule @found workers 2 microbatches 4 profile
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0
pipe.schedule @found workers 2 microbatches 4
    profile <"F=1ms,I=1ms,W=1ms,comm=0.1ms"> {
  path on [0, 1]
}

module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(
      %root: !transform.any_op {transform.readonly}) {
    %0 = transform.pipe.match_schedule "moved" in %root
      : (!transform.any_op) -> !transform.op<"pipe.schedule">
    %1 = transform.pipe.generate %0 "1f1b"
      : (!transform.op<"pipe.schedule">) -> !transform.any_op
    transform.pipe.assert_makespan %1 at_most "12 slots" : !transform.any_op
    %2 = transform.pipe.move_cell %1 "1B1" after "1F2"
      : (!transform.any_op) -> !transform.any_op
    transform.pipe.verify %2 options "messages=rendezvous" : !transform.any_op
    transform.pipe.assert_makespan %2 at_most "14 slots" : !transform.any_op

    %3 = transform.pipe.match_schedule "waves" in %root
      : (!transform.any_op) -> !transform.any_op
    %4 = transform.pipe.place %3 "wave" options "waves=1"
      : (!transform.any_op) -> !transform.any_op
    %5 = transform.pipe.generate %4 "ZBV" options "forward-only=true"
      : (!transform.any_op) -> !transform.any_op

    %6 = transform.pipe.match_schedule "replaced" in %root
      : (!transform.any_op) -> !transform.any_op
    %7 = transform.pipe.replace_rows %6 with {
      pipe.schedule @rows workers 2 microbatches 1 slices 2 {
        path on [0, 1]
        worker 0 runs [0F0.0 0F0.1 0B0.1 0B0.0]
        worker 1 runs [1F0.0 _3 1F0.1 1B0.1 1B0.0]
      }
    } : (!transform.any_op) -> !transform.any_op

    %8 = transform.pipe.match_schedule "found" in %root
      : (!transform.any_op) -> !transform.any_op
    %9 = transform.pipe.optimize %8
        options "memory=2 max-evaluations=1000 threads=1 explain=false"
      : (!transform.any_op) -> !transform.any_op
    transform.pipe.assert_makespan %9 at_most "13.4ms" transport "delay"
      : !transform.any_op

    %all = transform.pipe.match_schedule in %root
      : (!transform.any_op) -> !transform.any_op
    transform.pipe.verify %all : !transform.any_op
    transform.yield
  }
}
