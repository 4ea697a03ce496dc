// RUN: split-file %s %t
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 embedding=1 head=1})' | FileCheck %s
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 balance=count})' | FileCheck %s --check-prefix=COUNT
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=6,8*3})' | FileCheck %s --check-prefix=COUNTS
// RUN: pipesched-opt %t/paths.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=3,4;1*4})' | FileCheck %s --check-prefix=LISTS
// RUN: pipesched-opt %t/wave.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=9 balance=count head=3})' | FileCheck %s --check-prefix=WAVE
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-place-blocks)' | FileCheck %s --check-prefix=MODEL
// RUN: pipesched-opt %t/llama.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=llama3-70b},pipe-attach-system{name=h100-sxm},pipe-place-blocks{balance=cost})' | FileCheck %s --check-prefix=COST
// RUN: pipesched-opt %t/mixed.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=toy},pipe-place-blocks{balance=cost})' | FileCheck %s --check-prefix=MIXED
// RUN: pipesched-opt %t/rows.mlir --pass-pipeline='builtin.module(pipe-place-blocks{counts=2,1})' | FileCheck %s --check-prefix=ROWS
// RUN: pipesched-opt %t/p.mlir --pass-pipeline='builtin.module(pipe-place-blocks{blocks=30 balance=count})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE
// PIPELINE: pipe-place-blocks{balance=count blocks=30 counts= embedding=0 head=0 schedule=}

//--- p.mlir
// CHECK-LABEL:  pipe.schedule @p workers 4 microbatches 8 {
// CHECK-NEXT:     path on [0, 1, 2, 3] blocks [7, 8, 8, 7]
// CHECK-NEXT:   }
// COUNT-LABEL:  pipe.schedule @p workers 4 microbatches 8 {
// COUNT-NEXT:     path on [0, 1, 2, 3] blocks [7, 7, 8, 8]
// COUNT-NEXT:   }
// COUNTS-LABEL: pipe.schedule @p workers 4 microbatches 8 {
// COUNTS-NEXT:    path on [0, 1, 2, 3] blocks [6, 8, 8, 8]
// COUNTS-NEXT:  }
// MODEL-LABEL:  pipe.schedule @p workers 4 microbatches 8 model @toy {
// MODEL-NEXT:     path on [0, 1, 2, 3] blocks [2, 2, 2, 2]
// MODEL-NEXT:   }
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1, 2, 3]
}

// Weights and blocks are replaced; the microbatches of paths stay.
//--- paths.mlir
// LISTS-LABEL: pipe.schedule @p workers 4 microbatches 8 {
// LISTS-NEXT:    path on [0, 1] takes [0:4] blocks [3, 4]
// LISTS-NEXT:    path on [3, 2, 1, 0] takes [4:8] blocks [1, 1, 1, 1]
// LISTS-NEXT:  }
pipe.schedule @p workers 4 microbatches 8 {
  path on [0, 1] takes [0:4] weights [1, 2]
  path on [3, 2, 1, 0] takes [4:8] blocks [1, 2, 3, 4]
}

// Worker 0 has the head, which takes as long as three layers: 12 on two workers.
//--- wave.mlir
// WAVE-LABEL: pipe.schedule @p workers 2 microbatches 8 {
// WAVE-NEXT:    path on [0, 1, 1, 0] blocks [3, 3, 3, 0]
// WAVE-NEXT:  }
pipe.schedule @p workers 2 microbatches 8 {
  path on [0, 1, 1, 0]
}

// The head of 128,256 words takes the time of several layers.
//--- llama.mlir
// COST-LABEL: pipe.schedule @p workers 8 microbatches 64 model @llama3_70b {
// COST-NEXT:    path on [0, 1, 2, 3, 4, 5, 6, 7] blocks [10, 10, 10, 10, 10, 10, 11, 9]
// COST-NEXT:  }
pipe.schedule @p workers 8 microbatches 64 {
  path on [0, 1, 2, 3, 4, 5, 6, 7]
}

// Two short layers, then four that are three times as long.
//--- mixed.mlir
// MIXED-LABEL: pipe.schedule @p workers 3 microbatches 2 model @mixed {
// MIXED-NEXT:    path on [0, 1, 2] blocks [3, 1, 2]
// MIXED-NEXT:  }
pipe.model @mixed microbatch_size 1 boundary_bytes 64 state_bytes [2, 2, 12] {
  block "short" x 2 parameters 16 activation_bytes 256 {
    kernel "a" on matrix F <1000 flops, 0 bytes>
  }
  block "long" x 4 parameters 16 activation_bytes 256 {
    kernel "a" on matrix F <3000 flops, 0 bytes>
  }
}
pipe.schedule @p workers 3 microbatches 2 model @mixed {
  path on [0, 1, 2]
}

// Rows stay: no stage moves to another worker.
//--- rows.mlir
// ROWS-LABEL: pipe.schedule @r workers 2 microbatches 1 {
// ROWS-NEXT:    path on [0, 1] blocks [2, 1]
// ROWS-NEXT:    worker 0 runs [0F0 0B0]
// ROWS-NEXT:    worker 1 runs [1F0 1B0]
// ROWS-NEXT:  }
pipe.schedule @r workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
