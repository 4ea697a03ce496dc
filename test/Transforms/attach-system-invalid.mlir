// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h10})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=toy accelerators=8})' 2>&1 | FileCheck %s --check-prefix=LINK
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=toy accelerators=-1})' 2>&1 | FileCheck %s --check-prefix=FEWER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/negative.json})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/nan.json})' 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/field.json})' 2>&1 | FileCheck %s --check-prefix=FIELD

// NAME: error: unknown system 'h10', the closest is 'h100-sxm' (of a100-sxm-80gb, b200-sxm, baseline, dgx-a100, dgx-b200, dgx-h100, dgx-h200,
// NAME-SAME: slow_nw_slow_cp, toy)
// LINK: error: system 'toy': several accelerators in a worker need a link among them
// FEWER: error: system 'toy': expected at least 1 accelerator in a worker, found -1
// NEITHER: error: pipe-attach-system needs one of 'name' and 'file', neither given
// UNREADABLE: error: cannot read '{{.*}}none.json': No such file or directory
// NEGATIVE: error: {{.*}}negative.json: network.bandwidth_gb_per_s: expected a number above 0, found -1
// NAN: error: {{.*}}nan.json:5:25: Invalid JSON value
// FIELD: error: {{.*}}field.json: network: unknown field 'bandwidth_gb', the closest is 'bandwidth_gb_per_s'

//--- s.mlir
module {}

//--- negative.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": -1}}

//--- nan.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network":
 {"bandwidth_gb_per_s": NaN}}

//--- field.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb": 1}}
