// RUN: pipesched-translate --export-chrome-trace %s | FileCheck %s --check-prefix=TRACE
// RUN: pipesched-translate --export-svg %s | FileCheck %s --check-prefix=SVG
// RUN: pipesched-translate --export-svg --svg-variant=slots %s | FileCheck %s --check-prefix=SLOTS
// RUN: pipesched-translate --export-text %s | FileCheck %s --check-prefix=SLOTS
// RUN: not pipesched-translate --export-torch-csv %s 2>&1 | FileCheck %s --check-prefix=CSV

// A and C have separate threads, E and V that of compute.
// TRACE-DAG: "name":"thread_name","pid":0,"tid":[[A:[0-9]+]],"args":{"name":"lookup"}
// TRACE-DAG: "name":"thread_name","pid":0,"tid":[[C:[0-9]+]],"args":{"name":"gradient"}
// TRACE-DAG: "name":"0E0","cat":"compute","pid":0,"tid":0,"ts":0,"dur":6,
// TRACE-DAG: "ph":"X","name":"{{.*}}0A0","cat":"lookup","pid":0,"tid":[[A]],"ts":6,"dur":4,
// TRACE-DAG: "ph":"X","name":"{{.*}}0C0","cat":"gradient","pid":0,"tid":[[C]],"ts":76,"dur":2,
// TRACE-DAG: "name":"0V0","cat":"compute","pid":0,"tid":0,"ts":78,"dur":5,
// SVG: .E0{fill:#1e5e5a}
// SVG: E lookup in a shard
// SVG: V gradient of a shard&apos;s rows
// They take no slot, so that pictures of slots do not have them.
// SLOTS-NOT: lookup
// SLOTS-NOT: 0E0
// SLOTS: 6 slots
// CSV: PyTorch's CSV has no token for E (lookup in a shard)
pipe.schedule @whole workers 2 microbatches 1
    profile <"F=10us,B=20us,E=6us,A=4us,C=2us,V=5us,comm=3us"> {
  path on [0, 1]
  worker 0 runs [0E0 0A0 0F0 0B0 0C0 0V0]
  worker 1 runs [1E0 1A0 1F0 1B0 1C0 1V0]
}
