// RUN: split-file %s %t
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=Et|(t*2|)*2,tL})' | FileCheck %s
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout=Et|(t*2|)*2,tL})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: pipesched-opt %t/long.mlir --pass-pipeline='builtin.module(pipe-place-layout{layout="Et*2|(t*2|)*34,t*3|(t*2|)*3,tL"})' -o %t/long.out
// RUN: FileCheck %s --check-prefix=LONG --input-file %t/long.out
// RUN: pipesched-translate --export-megatron-layout %t/long.out | FileCheck %s --check-prefix=LAYOUT
// PIPELINE: pipe-place-layout{layout=Et|(t*2|)*2,tL schedule=}

//--- p.mlir
// CHECK-LABEL: pipe.schedule @p workers 2 microbatches 8 {
// CHECK-NEXT:    path on [0, 1, 0, 1] blocks [1, 2, 2, 1]
// CHECK-NEXT:  }
pipe.schedule @p workers 2 microbatches 8 {
  path on [0, 1]
}

//--- long.mlir
// LONG-LABEL: pipe.schedule @p workers 8 microbatches 64 {
// LONG-NEXT:    path on [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7] blocks [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 2, 2, 1]
// LONG-NEXT:  }
// LAYOUT:     {{^}}Et*2|(t*2|)*34,t*3|(t*2|)*3,tL{{$}}
pipe.schedule @p workers 8 microbatches 64 {
  path on [0, 1, 2, 3, 4, 5, 6, 7]
}
