// RUN: split-file %s %t
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-create)' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-create{workers=-1 microbatches=1})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-create{workers=65537 microbatches=1})' 2>&1 | FileCheck %s --check-prefix=WORKERS
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-create{workers=1 microbatches=2147483648})' 2>&1 | FileCheck %s --check-prefix=MICROBATCHES
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-create{workers=99999999999999999999 microbatches=1})' 2>&1 | FileCheck %s --check-prefix=OVERFLOW
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-create{workers=1 microbatches=1 name=})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/taken.mlir --pass-pipeline='builtin.module(pipe-create{workers=1 microbatches=1})' 2>&1 | FileCheck %s --check-prefix=TAKEN

// NONE: error: pipe-create needs workers from 1 to 65536, got 0
// NEGATIVE: error: pipe-create needs workers from 1 to 65536, got -1
// WORKERS: error: pipe-create needs workers from 1 to 65536, got 65537
// MICROBATCHES: error: pipe-create needs microbatches from 1 to 2147483647, got 2147483648
// OVERFLOW: '99999999999999999999' value invalid
// NAME: error: pipe-create needs a name
// TAKEN: error: pipe-create: the name @schedule is taken; give another name=
// TAKEN: taken.mlir:2:1: note: here

//--- empty.mlir
module {}

//--- taken.mlir

pipe.schedule @schedule workers 1 microbatches 1 {
  path on [0]
}
