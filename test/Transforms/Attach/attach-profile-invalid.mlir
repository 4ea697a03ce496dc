// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1ms,Q=2ms"})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1.5"})' 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=-1ms"})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=NaNms"})' 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=10000000s"})' 2>&1 | FileCheck %s --check-prefix=OVERFLOW
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{file=%t/p.json})' 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1ms"})' 2>&1 | FileCheck %s --check-prefix=EMPTY

// NEITHER: error: pipe-attach-profile needs one of 'times' and 'file', neither given
// NAME: error: pipe-attach-profile: unknown name 'Q' (known: F, B, I, W, R, D, U, O, G, S, T, X, Y, Z, E, A, C, V, FB, comm and 1 more)
// UNIT: error: pipe-attach-profile: F: expected a unit (ps, ns, us, ms or s) after '1.5', found ''
// NEGATIVE: error: pipe-attach-profile: F: expected a time of at least 0, found '-1ms'
// NAN: error: pipe-attach-profile: F: expected a time such as 1.5ms, found 'NaNms'
// OVERFLOW: error: pipe-attach-profile: F: '10000000s' is over 2^63 - 1 ps
// UNREADABLE: error: pipe-attach-profile: cannot read '{{.*}}none.json': No such file or directory
// FILE: error: pipe-attach-profile: {{.*}}p.json: F: expected a time in quotes such as "1.5ms", found 1
// EMPTY: error: the module has no pipe.schedule and no exec.program

//--- s.mlir
pipe.schedule @s workers 2 microbatches 8 {
  path on [0, 1]
}

//--- empty.mlir
module {}

//--- p.json
{"F": 1}
