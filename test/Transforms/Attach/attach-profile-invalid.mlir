// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1ms,Q=2ms"})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{file=%t/p.json})' 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1ms"})' 2>&1 | FileCheck %s --check-prefix=EMPTY

// NEITHER: error: pipe-attach-profile needs one of 'times' and 'file', neither given
// NAME: error: pipe-attach-profile: unknown name 'Q' (known: F, B, I, W, R, D, U, O, G, S, T, X, Y, Z, E, A, C, V, FB, comm and 1 more)
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
