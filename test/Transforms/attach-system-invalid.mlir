// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h10})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/negative.json})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/nan.json})' 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/field.json})' 2>&1 | FileCheck %s --check-prefix=FIELD

// NAME: error: unknown system 'h10', the closest is 'h100-sxm' (of a100-sxm-80gb, baseline, dgx-h100,
// NAME-SAME: slow_nw_slow_cp, toy)
// NEITHER: error: pipe-attach-system needs one of 'name' and 'file', neither given
// UNREADABLE: error: cannot read '{{.*}}none.json': No such file or directory
// NEGATIVE: error: {{.*}}negative.json: network.bandwidth_gb_per_s: expected a number above 0, found -1
// NAN: error: {{.*}}nan.json: [5:{{.*}}]: Invalid JSON value
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
