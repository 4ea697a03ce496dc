// One slot is 1 us: worker 0 waits 2 us for 1B0 and 1 us for 1B1, worker 1 starts
// 1 us after it and ends 2 us before.
//
//   worker 0   0F0 0F1  .   .  0B0 0B0  .  0B1 0B1
//   worker 1    .  1F0 1B0 1B0 1F1 1B1 1B1  .   .

// RUN: pipesched-translate --export-report %s | FileCheck %s
// RUN: pipesched-translate --export-report %s | %python -m json.tool > %t.valid
// RUN: pipesched-translate --export-report %s > %t.text
// RUN: pipesched-opt %s --emit-bytecode -o %t.mlirbc
// RUN: pipesched-translate --export-report %t.mlirbc | diff %t.text -
// RUN: echo 'module {}' | pipesched-translate --export-report \
// RUN:   | FileCheck %s --check-prefix=EMPTY

// EMPTY: []

// CHECK:      [
// CHECK-NEXT:   {
// CHECK-NEXT:     "schedule": "unit",
// CHECK-NEXT:     "kind": "schedule",
// CHECK-NEXT:     "family": "1f1b",
// CHECK-NEXT:     "workers": 2,
// CHECK-NEXT:     "stages": 2,
// CHECK-NEXT:     "microbatches": 2,
// CHECK-NEXT:     "formula": {
// CHECK-NEXT:       "bubble_ratio": 0.3333333333333333,
// CHECK-NEXT:       "peak_activations": 2,
// CHECK-NEXT:       "source": "{{.*}}2104.04473{{.*}}",
// CHECK-NEXT:       "conditions": "{{.+}}",
// CHECK-NEXT:       "bubble_ratio_general": 0.3333333333333333,
// CHECK-NEXT:       "general_source": "{{.+}}",
// CHECK-NEXT:       "general_conditions": "{{.+}}"
// CHECK-NEXT:     },
// CHECK-NEXT:     "formula_reason": null,
// CHECK-NEXT:     "table": {
// CHECK-NEXT:       "slots": 9,
// CHECK-NEXT:       "busy_slots": [6, 6],
// CHECK-NEXT:       "bubble_ratio": 0.3333333333333333,
// CHECK-NEXT:       "fill_slots": [0, 1],
// CHECK-NEXT:       "drain_slots": [0, 2],
// CHECK-NEXT:       "peak_activations": [2, 1],
// CHECK-NEXT:       "retention_slots": {
// CHECK-NEXT:         "mean": [7.0, 3.0],
// CHECK-NEXT:         "max": [8, 3]
// CHECK-NEXT:       },
// CHECK-NEXT:       "slot_lengths": null
// CHECK-NEXT:     },
// CHECK-NEXT:     "execution": {
// CHECK-NEXT:       "transport": "overlap",
// CHECK-NEXT:       "receive_placement": "arrival",
// CHECK-NEXT:       "forward_sends": "async",
// CHECK-NEXT:       "runtime": "table",
// CHECK-NEXT:       "makespan_ps": 9000000,
// CHECK-NEXT:       "busy_ps": [6000000, 6000000],
// CHECK-NEXT:       "idle_ratio": 0.3333333333333333,
// CHECK-NEXT:       "span_ps": 9000000,
// CHECK-NEXT:       "span_bubble_ratio": 0.3333333333333333,
// CHECK-NEXT:       "idle_by_cause_ps": {
// CHECK-NEXT:         "fill": [0, 1000000],
// CHECK-NEXT:         "drain": [0, 2000000],
// CHECK-NEXT:         "dependency": [3000000, 0],
// CHECK-NEXT:         "queue_order": [0, 0],
// CHECK-NEXT:         "communication": [0, 0],
// CHECK-NEXT:         "imbalance": [0, 0],
// CHECK-NEXT:         "weights": [0, 0],
// CHECK-NEXT:         "experts": [0, 0],
// CHECK-NEXT:         "context": [0, 0]
// CHECK-NEXT:       },
// CHECK-NEXT:       "exposed_communication_ps": 0,
// CHECK-NEXT:       "messages": 4,
// CHECK-NEXT:       "bytes_sent": [0, 0],
// CHECK-NEXT:       "exposed_sharding_ps": [0, 0],
// CHECK-NEXT:       "copies": 0,
// CHECK-NEXT:       "offload_ps": [0, 0],
// CHECK-NEXT:       "reload_ps": [0, 0],
// CHECK-NEXT:       "critical_path": ["0F0", "1F0", "1B0", "1F1", "1B1", "0B1"],
// CHECK-NEXT:       "critical_path_messages": 2,
// CHECK-NEXT:       "critical_path_copies": 0
// CHECK-NEXT:     },
// CHECK-NEXT:     "memory": null
// CHECK-NEXT:   },
pipe.schedule @unit workers 2 microbatches 2 family "1f1b" {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// F takes 10 us, B 20 us, a message 5 us: 10 + 5 + 10 + 20 + 5 + 20. Worker 1 works 30
// us of the 70; its own span of 30 us has no idle time, but the span of worker 0 is
// longer.

// CHECK:          "schedule": "messages",
// CHECK:          "family": null,
// CHECK:          "formula": null,
// CHECK-NEXT:     "formula_reason": "{{.+}}",
// CHECK:            "makespan_ps": 70000000,
// CHECK-NEXT:       "busy_ps": [30000000, 30000000],
// CHECK-NEXT:       "idle_ratio": 0.5714285714285714,
// CHECK-NEXT:       "span_ps": 70000000,
// CHECK-NEXT:       "span_bubble_ratio": 0.5714285714285714,
// CHECK-NEXT:       "idle_by_cause_ps": {
// CHECK-NEXT:         "fill": [0, 15000000],
// CHECK-NEXT:         "drain": [0, 25000000],
// CHECK-NEXT:         "dependency": [35000000, 0],
// CHECK-NEXT:         "queue_order": [0, 0],
// CHECK-NEXT:         "communication": [5000000, 0],
// CHECK-NEXT:         "imbalance": [0, 0],
// CHECK-NEXT:         "weights": [0, 0],
// CHECK-NEXT:         "experts": [0, 0],
// CHECK-NEXT:         "context": [0, 0]
// CHECK-NEXT:       },
// CHECK-NEXT:       "exposed_communication_ps": 10000000,
pipe.schedule @messages workers 2 microbatches 1 profile <"F=10us,B=20us,comm=5us"> {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
