// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h10})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=toy accelerators=8})' 2>&1 | FileCheck %s --check-prefix=LINK
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%project_src/examples/groups/h100-a100.json})' 2>&1 | FileCheck %s --check-prefix=GROUPS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/negative.json})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/nan.json})' 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h100 expert-parallel=0})' 2>&1 | FileCheck %s --check-prefix=NOEXPERT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h100 expert-balance=nan})' 2>&1 | FileCheck %s --check-prefix=NUMBER

// NAME: error: unknown system 'h10', the closest is 'h100'
// LINK: error: system 'toy': several accelerators in a worker need a link among them
// NEITHER: error: pipe-attach-system needs one of 'name' and 'file', neither given
// GROUPS: error: system 'h100-a100' has groups of nodes, which IR has no form for; the command and Python take them
// UNREADABLE: error: cannot read '{{.*}}none.json': No such file or directory
// NEGATIVE: error: {{.*}}negative.json: network.bandwidth_gb_per_s: expected a number above 0, found -1
// NAN: error: {{.*}}nan.json:5:25: Invalid JSON value
// NOEXPERT: error: system 'h100-sxm': expected a degree of expert parallelism of at least 1, found 0
// NUMBER: error: system 'h100-sxm': expected an expert balance (rows of the fullest rank divided by the mean) from 1 to 1000, found nan

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
