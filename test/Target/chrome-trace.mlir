// RUN: pipesched-translate --export-chrome-trace %s | FileCheck %s
// RUN: pipesched-translate --export-chrome-trace %s \
// RUN:   | %python %S/Inputs/check-trace.py | FileCheck %s --check-prefix=VALID
// RUN: pipesched-translate --export-chrome-trace --transport=delay %s \
// RUN:   | %python %S/Inputs/check-trace.py | FileCheck %s --check-prefix=VALID
// RUN: pipesched-translate --export-chrome-trace --transport=blocking %s \
// RUN:   | %python %S/Inputs/check-trace.py | FileCheck %s --check-prefix=VALID

// VALID: 11 processes, 17 cells, 5 messages

// F 10 us, B 20 us; a message holds its queues for 3 us and arrives 2.5 us later.
//
//   worker 0   0F0 [0,10]                                 0B0 [51,71]
//   worker 1              1F0 [15.5,25.5]  1B0 [25.5,45.5]

// CHECK:      {"displayTimeUnit":"ns","traceEvents":[
// CHECK-NEXT: {"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"two: worker 0"}},
// CHECK-NEXT: {"ph":"M","name":"process_sort_index","pid":0,"tid":0,"args":{"sort_index":0}},
// CHECK-NEXT: {"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"compute"}},
// CHECK:      {"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"send"}},
// CHECK:      {"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"receive"}},
// CHECK-NOT:  offload
// CHECK:      {"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"two: worker 1"}},
// CHECK:      {"ph":"X","name":"0F0","cat":"send","pid":0,"tid":1,"ts":10,"dur":3,"args":{"phase":"forward","microbatch":0,"stage":0,"bytes":0,"to":1,"critical":true}},
// CHECK-NEXT: {"ph":"s","name":"message","cat":"message","id":[[ID:[0-9]+]],"pid":0,"tid":1,"ts":10},
// CHECK-NEXT: {"ph":"X","name":"0F0","cat":"receive","pid":1,"tid":2,"ts":10,"dur":3,"args":{"phase":"forward","microbatch":0,"stage":0,"bytes":0,"from":0,"critical":true}},
// CHECK-NEXT: {"ph":"t","name":"message","cat":"message","id":[[ID]],"pid":1,"tid":2,"ts":10},
// CHECK:      {"ph":"X","name":"0B0","cat":"compute","pid":0,"tid":0,"ts":51,"dur":20,"args":{"phase":"backward","microbatch":0,"stage":0,"critical":true}},
// CHECK:      {"ph":"X","name":"1F0","cat":"compute","pid":1,"tid":0,"ts":15.5,"dur":10,"args":{"phase":"forward","microbatch":0,"stage":1,"critical":true}},
// CHECK-NEXT: {"ph":"f","name":"message","cat":"message","id":[[ID]],"pid":1,"tid":0,"ts":15.5,"bp":"e"},
// CHECK:      {"ph":"C","name":"activations held","pid":0,"ts":0,"args":{"activations":1.0}},
// CHECK-NEXT: {"ph":"C","name":"activations held","pid":0,"ts":71,"args":{"activations":0.0}},
// CHECK-NEXT: {"ph":"C","name":"activations held","pid":1,"ts":15.5,"args":{"activations":1.0}},
// CHECK-NEXT: {"ph":"C","name":"activations held","pid":1,"ts":45.5,"args":{"activations":0.0}}
// CHECK-NEXT: {"ph":"X","name":"dependency","cat":"idle","pid":0,"tid":10,"ts":10,"dur":35.5,"args":{"before":"0B0","waits_for":"message 1B0 from worker 1"}},
// CHECK-NEXT: {"ph":"X","name":"communication","cat":"idle","pid":0,"tid":10,"ts":45.5,"dur":5.5,"args":{"before":"0B0","waits_for":"message 1B0 from worker 1"}},
// CHECK-NEXT: {"ph":"X","name":"fill","cat":"idle","pid":1,"tid":10,"ts":0,"dur":15.5,"args":{"before":"1F0","waits_for":"message 0F0 from worker 0"}},
// CHECK-NEXT: {"ph":"X","name":"drain","cat":"idle","pid":1,"tid":10,"ts":45.5,"dur":25.5,"args":{}},
// CHECK-NEXT: {"ph":"M","name":"process_name","pid":2,"tid":0,"args":{"name":"two: critical path"}},
// CHECK:      {"ph":"X","name":"0F0","cat":"critical path","pid":2,"tid":11,"ts":0,"dur":10,"args":{"worker":0}},
// CHECK-NEXT: {"ph":"X","name":"message 0F0 from worker 0","cat":"critical path","pid":2,"tid":11,"ts":10,"dur":5.5,"args":{"worker":0}},
// CHECK-NEXT: {"ph":"X","name":"1F0","cat":"critical path","pid":2,"tid":11,"ts":15.5,"dur":10,"args":{"worker":1}},
// CHECK-NEXT: {"ph":"X","name":"1B0","cat":"critical path","pid":2,"tid":11,"ts":25.5,"dur":20,"args":{"worker":1}},
// CHECK-NEXT: {"ph":"X","name":"message 1B0 from worker 1","cat":"critical path","pid":2,"tid":11,"ts":45.5,"dur":5.5,"args":{"worker":1}},
// CHECK-NEXT: {"ph":"X","name":"0B0","cat":"critical path","pid":2,"tid":11,"ts":51,"dur":20,"args":{"worker":0}},
pipe.schedule @two workers 2 microbatches 1 profile <"F=10us,B=20us,send=3us,comm=2.5us"> {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}

// Names include the path; a pair is one slice; the workers follow those of the first schedule.

// CHECK: {"ph":"M","name":"process_name","pid":3,"tid":0,"args":{"name":"pairs: worker 0"}},
// CHECK: {"ph":"X","name":"0F1+1B0","cat":"compute","pid":3,"tid":0,{{.*}}"path":1,"critical":true}},
pipe.schedule @pairs workers 2 microbatches 2 {
  path on [0, 0] takes [0]
  path on [0, 1] takes [1]
  worker 0 runs [0F0 1F0 0F1+1B0 0B0 0B1]
  worker 1 runs [1F1 1B1]
}

// Copies have separate threads; a copy ends and frees memory during F1.

// CHECK: {"ph":"M","name":"thread_name","pid":6,"tid":3,"args":{"name":"offload"}},
// CHECK: {"ph":"M","name":"thread_name","pid":6,"tid":4,"args":{"name":"reload"}},
// CHECK: {"ph":"X","name":"0D0","cat":"offload","pid":6,"tid":3,"ts":10,"dur":5,"args":{"phase":"offload","microbatch":0,"stage":0}},
// CHECK: {"ph":"X","name":"0U0","cat":"reload","pid":6,"tid":4,"ts":20,"dur":6,"args":{"phase":"reload","microbatch":0,"stage":0}},
// CHECK: {"ph":"C","name":"activations held","pid":6,"ts":15,"args":{"activations":1.0}},
pipe.schedule @copies workers 1 microbatches 2 profile <"F=10us,B=20us,D=5us,U=6us"> {
  path on [0]
  worker 0 runs [0F0 0D0 0F1 0U0 0B1 0B0]
}

// The trace shows the stated work of an instruction.

// CHECK: {"ph":"X","name":"0F0","cat":"send","pid":8,"tid":1,"ts":0.0001,"dur":2,{{.*}}"bytes":2000000,"to":1,"critical":true}},
// CHECK: {"ph":"X","name":"0F0","cat":"receive","pid":9,"tid":2,{{.*}}"bytes":2000000,"from":0,"critical":true}},
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
      matrix = <flops_per_s = 1000000000000>,
      vector = <flops_per_s = 1000000000000>,
      memory = <bytes_per_s = 1000000000000>, memory_bytes = 1000000>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000000, latency_ps = 5>>} {
  exec.program @stated {
    worker 0 {
      %f0 = compute 0F0 flops 100
      %s0 = send 0F0 to 1 after %f0 bytes 2000000
    }
    worker 1 {
      %act0 = recv 0F0 from 0
      %f0 = compute 1F0 after %act0 flops 100
    }
  }
}
