// A hand-written program without names of family, model or profile has no table and no
// formula; everything else is as for a schedule.

// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-translate --export-report --transport=blocking %s \
// RUN:   | FileCheck %s --check-prefix=BLOCKING

// CHECK:          "schedule": "by_hand",
// CHECK-NEXT:     "kind": "program",
// CHECK-NEXT:     "family": null,
// CHECK-NEXT:     "workers": 2,
// CHECK-NEXT:     "stages": 2,
// CHECK-NEXT:     "microbatches": 1,
// CHECK-NEXT:     "formula": null,
// CHECK-NEXT:     "formula_reason": "{{.+}}",
// CHECK-NEXT:     "table": null,
// CHECK-NEXT:     "execution": {
// CHECK-NEXT:       "transport": "overlap",
// CHECK-NEXT:       "receive_placement": null,
// CHECK-NEXT:       "forward_sends": "async",
// CHECK-NEXT:       "runtime": "table",
// CHECK-NEXT:       "makespan_ps": 6000000,
// CHECK-NEXT:       "busy_ps": [3000000, 3000000],
// CHECK-NEXT:       "idle_ratio": 0.5,
// CHECK:            "critical_path": ["0F0", "1F0", "1B0", "0B0"],
// CHECK:          "memory": null
// BLOCKING:         "transport": "blocking",
// BLOCKING:         "makespan_ps": 6000000,
exec.program @by_hand {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %sg0 = send 1B0 to 0 after %b0
  }
}

// Both workers receive before they send, which works if queues run in parallel.
// CHECK: "schedule": "crossed",
// CHECK: "makespan_ps": 1000000,
exec.program @crossed {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %r1 = recv 1F1 from 1
  }
  worker 1 {
    %f1 = compute 1F1
    %s1 = send 1F1 to 0 after %f1
    %r0 = recv 0F0 from 0
  }
}
