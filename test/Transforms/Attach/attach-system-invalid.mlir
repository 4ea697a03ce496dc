// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h10})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=toy accelerators=8})' 2>&1 | FileCheck %s --check-prefix=LINK
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/negative.json})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/nan.json})' 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/field.json})' 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/node.json})' 2>&1 | FileCheck %s --check-prefix=NODE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/large.json})' 2>&1 | FileCheck %s --check-prefix=LARGE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/pod.json})' 2>&1 | FileCheck %s --check-prefix=POD
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/spine.json})' 2>&1 | FileCheck %s --check-prefix=SPINE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/parts.json})' 2>&1 | FileCheck %s --check-prefix=PARTS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/vector.json})' 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/busy.json})' 2>&1 | FileCheck %s --check-prefix=BUSY
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/bare.json})' 2>&1 | FileCheck %s --check-prefix=BARE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h100 expert-parallel=0})' 2>&1 | FileCheck %s --check-prefix=NOEXPERT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h100 expert-balance=nan})' 2>&1 | FileCheck %s --check-prefix=NUMBER

// NAME: error: unknown system 'h10', the closest is 'h100'
// LINK: error: system 'toy': several accelerators in a worker need a link among them
// NEITHER: error: pipe-attach-system needs one of 'name' and 'file', neither given
// UNREADABLE: error: cannot read '{{.*}}none.json': No such file or directory
// NEGATIVE: error: {{.*}}negative.json: network.bandwidth_gb_per_s: expected a number above 0, found -1
// NAN: error: {{.*}}nan.json:5:25: Invalid JSON value
// FIELD: error: {{.*}}field.json: network: unknown field 'bandwidth_gb', the closest is 'bandwidth_gb_per_s'
// NODE: error: {{.*}}node.json: accelerators of a node need the field 'link'
// LARGE: error: {{.*}}large.json: accelerators_per_node: expected a whole number of at most 65536, found 65537
// POD: error: {{.*}}pod.json: accelerators of a pod need the field 'spine', which joins pods
// SPINE: error: {{.*}}spine.json: the field 'spine' needs 'accelerators_per_pod', the number that 'network' joins
// PARTS: error: {{.*}}parts.json: expected accelerators_per_pod to be a multiple of accelerators_per_node, 8, found 12
// VECTOR: error: {{.*}}vector.json: vector: unknown field 'fp8_tflops', the closest is 'tflops'
// BUSY: error: {{.*}}busy.json: multiprocessors.communication: expected fewer than the 16 multiprocessors, found 16
// BARE: error: {{.*}}bare.json: matrix.fp8_tflops: an efficiency in FP8 needs this rate
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

//--- field.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb": 1}}

//--- node.json
{"name": "x", "description": "d", "accelerators_per_node": 8,
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1}}

//--- large.json
{"name": "x", "description": "d", "accelerators_per_node": 65537,
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "link": {"bandwidth_gb_per_s": 1}, "network": {"bandwidth_gb_per_s": 1}}

//--- pod.json
{"name": "x", "description": "d", "accelerators_per_pod": 8,
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1}}

//--- spine.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1},
 "spine": {"bandwidth_gb_per_s": 1}}

//--- parts.json
{"name": "x", "description": "d", "accelerators_per_node": 8,
 "accelerators_per_pod": 12,
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1},
 "link": {"bandwidth_gb_per_s": 1}, "spine": {"bandwidth_gb_per_s": 1}}

//--- vector.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1}, "vector": {"tflops": 1, "fp8_tflops": 2},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1}}

//--- busy.json
{"name": "x", "description": "d",
 "multiprocessors": {"count": 16, "communication": 16},
 "matrix": {"tflops": 1}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1}}

//--- bare.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1, "fp8_efficiency": 0.5}, "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1}}
