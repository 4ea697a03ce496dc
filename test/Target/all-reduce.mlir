// RUN: pipesched-translate --export-chrome-trace %s | FileCheck %s --check-prefix=TRACE
// RUN: pipesched-translate --export-chrome-trace %s | %python %S/Inputs/check-trace.py | FileCheck %s --check-prefix=VALID
// RUN: pipesched-translate --export-chrome-trace --transport=delay %s | %python %S/Inputs/check-trace.py | FileCheck %s --check-prefix=VALID
// RUN: pipesched-translate --export-chrome-trace --transport=blocking %s | %python %S/Inputs/check-trace.py | FileCheck %s --check-prefix=VALID
// RUN: pipesched-translate --export-svg %s | FileCheck %s --check-prefix=SVG
// RUN: pipesched-translate --export-svg --svg-variant=slots %s | FileCheck %s --check-prefix=SLOTS
// RUN: pipesched-translate --export-report %s | FileCheck %s --check-prefix=REPORT

// All-reduces run in parallel with compute and are drawn below it: 1G1 under 0B0.
//
//   worker 0   0F0 [0,10]  1F1 [10,20]  1B1 [20,40]  0B0 [40,60]  1O1 [60,65]  0O0 [75,80]
//                                              1G1 [40,55]   0G0 [60,75]

// TRACE:      {"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"receive"}},
// TRACE-NOT:  offload
// TRACE:      {"ph":"M","name":"thread_name","pid":0,"tid":5,"args":{"name":"all-reduce"}},
// TRACE:      {"ph":"X","name":"1G1","cat":"all-reduce","pid":0,"tid":5,"ts":40,"dur":15,"args":{"phase":"all-reduce","stage":1,"path":1,"blocks":"1 to 2","workers":[0,1]}},
// TRACE-NEXT: {"ph":"X","name":"1G1","cat":"all-reduce","pid":1,"tid":5,"ts":40,"dur":15,
// TRACE:      {"ph":"X","name":"0O0","cat":"compute","pid":0,"tid":0,"ts":75,"dur":5,"args":{"phase":"optimizer","stage":0,"path":0,"critical":true}},

// VALID: 3 processes, 12 cells, 4 messages

// SVG:      >O optimizer</text>
// SVG:      >G all-reduce</text>
// SVG:      >bars below a row: all-reduce</text>
// SVG:      <title>1O1: 60.00 us to 65.00 us</title>
// SVG:      <rect class="G1" opacity=".85" {{.*}}<title>1G1: 40.00 us to 55.00 us</title>
// SVG:      <rect class="G0" opacity=".85" {{.*}}<title>0G0: 60.00 us to 75.00 us</title>

// In the table a G takes a slot, the same one in both rows.
// SLOTS:      <title>1G1: slots 4 to 5</title>
// SLOTS:      <title>1G0: slots 4 to 5</title>

// REPORT:      "slots": 10,
// REPORT-NEXT: "busy_slots": [10, 10],
// REPORT:      "makespan_ps": 80000000,
// REPORT-NEXT: "busy_ps": [70000000, 70000000],
// REPORT:      "communication": [10000000, 10000000]
// REPORT:      "exposed_communication_ps": 10000000,
// REPORT:      "critical_path": ["0F0", "1F1", "1B1", "0B0", "0G0", "0O0"],
pipe.schedule @eager workers 2 microbatches 2 profile <"F=10us,B=20us,G=15us,O=5us"> {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 1G1 0B0 0G0 1O1 0O0]
  worker 1 runs [0F1 1F0 1B0 1G0 0B1 0G1 1O0 0O1]
}
