// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-list{paths="0,1,3,2;2,3,1,0"})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-list{paths=0,1,3,2;2,3,1,0})' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-list{paths="0:4, 2 takes 0:8:2 blocks 7,8*3,9; 3:-1:-1 takes 1:8:2"})' | FileCheck %s --check-prefix=CLAUSES
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-list{paths="[0, 1, 2, 3] takes [0:4, 5, 6] weights [1, 1, 2, 2]; [3, 2, 1, 0] takes [4, 7]"})' | FileCheck %s --check-prefix=BRACKETS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-place-list{paths="0:4 takes 0:8:2; 3,2,1,0 takes 1:8:2" schedule=p})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// CHECK-LABEL:    pipe.schedule @p workers 4 microbatches 8 {
// CHECK-NEXT:       path on [0, 1, 3, 2]
// CHECK-NEXT:       path on [2, 3, 1, 0]
// CHECK-NEXT:     }
// CLAUSES-LABEL:  pipe.schedule @p workers 4 microbatches 8 {
// CLAUSES-NEXT:     path on [0, 1, 2, 3, 2] takes [0:8:2] blocks [7, 8, 8, 8, 9]
// CLAUSES-NEXT:     path on [3, 2, 1, 0] takes [1:8:2]
// CLAUSES-NEXT:   }
// BRACKETS-LABEL: pipe.schedule @p workers 4 microbatches 8 {
// BRACKETS-NEXT:    path on [0, 1, 2, 3] takes [0:4, 5, 6] weights [1, 1, 2, 2]
// BRACKETS-NEXT:    path on [3, 2, 1, 0] takes [4, 7]
// BRACKETS-NEXT:  }
// PIPELINE:       pipe-place-list{paths={0:4 takes 0:8:2; 3,2,1,0 takes 1:8:2} schedule=p}
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}
