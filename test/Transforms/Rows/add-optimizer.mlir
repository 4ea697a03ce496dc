// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer,pipe-verify{messages=batched schedule=chimera})' | FileCheck %s --check-prefixes=CHECK,END
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer{all-reduce=eager},pipe-verify{messages=batched schedule=chimera})' | FileCheck %s --check-prefixes=CHECK,EAGER
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer{all-reduce=none})' | FileCheck %s --check-prefixes=CHECK,NONE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-add-optimizer{all-reduce=eager schedule=linear})' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE

// PIPELINE: pipe-add-optimizer{all-reduce=eager schedule=linear}
// PIPELINE: pipe.schedule @chimera
// PIPELINE: worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1]

// CHECK-LABEL: pipe.schedule @chimera workers 4 microbatches 4 {
// CHECK-NEXT:    path on [0, 1, 2, 3] takes [0, 1]
// CHECK-NEXT:    path on [3, 2, 1, 0] takes [2, 3]
// END-NEXT:      worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1 0G0 3G1 0O0 3O1]
// END-NEXT:      worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 1B1 1G0 2G1 1O0 2O1]
// END-NEXT:      worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 1B3 1G1 2G0 1O1 2O0]
// END-NEXT:      worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3 0G1 3G0 0O1 3O0]
// EAGER-NEXT:    worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 3G1 0B0 0B1 0G0 3O1 0O0]
// EAGER-NEXT:    worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 2G1 1B1 1G0 2O1 1O0]
// EAGER-NEXT:    worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 2G0 1B3 1G1 2O0 1O1]
// EAGER-NEXT:    worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 3G0 0B2 0B3 0G1 3O0 0O1]
// NONE-NEXT:     worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1 0O0 3O1]
// NONE-NEXT:     worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 1B1 1O0 2O1]
// NONE-NEXT:     worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 1B3 1O1 2O0]
// NONE-NEXT:     worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3 0O1 3O0]
pipe.schedule @chimera workers 4 microbatches 4 family "chimera" {
  path on [0, 1, 2, 3] takes [0, 1]
  path on [3, 2, 1, 0] takes [2, 3]
  worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1]
  worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 1B1]
  worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 1B3]
  worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3]
}

// One path has no replicas. Everything except the family stays.
// CHECK-LABEL: pipe.schedule @linear workers 2 microbatches 2 gradient after W profile <"F=1ms,I=1ms,W=1ms"> {
// CHECK-NEXT:    path on [0, 1]
// CHECK-NEXT:    worker 0 runs [0F0 0F1 _ 0I0 0W0 0I1 0W1 0O0]
// CHECK-NEXT:    worker 1 runs [1F0 1I0 1W0 1F1 1I1 1W1 1O0]
pipe.schedule @linear workers 2 microbatches 2 family "1f1b" gradient after W
    profile <"F=1ms,I=1ms,W=1ms"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 _ 0I0 0W0 0I1 0W1]
  worker 1 runs [1F0 1I0 1W0 1F1 1I1 1W1]
}

// CHECK-LABEL: pipe.schedule @problem
// CHECK-NEXT:    path on [0]
// CHECK-NEXT:  }
pipe.schedule @problem workers 1 microbatches 1 {
  path on [0]
}
