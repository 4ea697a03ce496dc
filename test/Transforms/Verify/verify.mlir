// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify)' | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-verify{messages=unbounded schedule=s})' --dump-pass-pipeline -o /dev/null 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-verify{memory= memory-times=any messages=unbounded receive-placement=arrival schedule=s transport=overlap}

// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 2 {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 0B0 0B1]
// CHECK-NEXT:    worker 1 runs [1F0 1B0 1F1 1B1]
// CHECK-NEXT:  }
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// Every complete order without a cycle is a schedule, however slow.
// CHECK-LABEL: pipe.schedule @mixed
pipe.schedule @mixed workers 2 microbatches 3 {
  path on [0, 1] takes [0, 2]
  path on [1, 0] takes [1]
  worker 0 runs [0F2 0D2 1F1 0F0 1I1 0U2 0u2 0B2 1W1 1G1 0B0 0O0 1O1]
  worker 1 runs [0F1 1F0 1B0 1F2 1R2 1I2 0I1 0W1 1W2 0O1 1G0 1O0]
}

// CHECK-LABEL: pipe.schedule @aligned
pipe.schedule @aligned workers 2 microbatches 1 aligned {
  path on [0, 1]
  worker 0 runs [0F0 _12 0B0]
  worker 1 runs [_ 1F0 1B0]
}
