// RUN: split-file %s %t
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' | FileCheck %s
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy},pipe-attach-model{name=toy})' | FileCheck %s
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=llama3 microbatch-size=3})' | FileCheck %s --check-prefix=ALIAS
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=paper-gpt global-batch=32 schedule=eight})' | FileCheck %s --check-prefix=BATCH
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=1 recompute=selective attention=unfused boundary-bytes=77 parameter-bytes=2,4,12})' | FileCheck %s --check-prefix=OPTIONS
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/m.json})' | FileCheck %s --check-prefix=FILE
// RUN: pipesched-opt %t/weights.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' | FileCheck %s --check-prefix=WEIGHTS
// RUN: pipesched-opt %t/taken.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' | FileCheck %s --check-prefix=TAKEN

// Two schedules of eight microbatches share a model; the one of four has its own.
// CHECK:      pipe.model @toy microbatch_size 2 boundary_bytes 4000 state_bytes [2, 2, 12]
// CHECK:        block "layer" x 8 parameters 1240 activation_bytes 65600 weight_grad_bytes 80000 recomputed_bytes 4000
// CHECK:          kernel "attention" on matrix core sees 100 tokens F <800000 flops, 17600 bytes> I <2000000 flops, 33600 bytes>
// CHECK:      pipe.schedule @eight workers 2 microbatches 8 model @toy {
// CHECK-NOT:  pipe.model
// CHECK:      exec.program @program workers 2 microbatches 8 model @toy {
// CHECK:      pipe.model @[[FOUR:toy_[0-9]+]] microbatch_size 4 boundary_bytes 8000
// CHECK:      pipe.schedule @four workers 2 microbatches 4 model @[[FOUR]] {
// CHECK-NOT:  pipe.model

// ALIAS: pipe.model @llama3_70b microbatch_size 3
// ALIAS: block "embedding" first parameters 1050673152
// ALIAS: block "layer" x 80 parameters 855654400
// ALIAS: block "head" last parameters 1050681344
// ALIAS: pipe.schedule @eight workers 2 microbatches 8 model @llama3_70b {
// ALIAS: pipe.schedule @four workers 2 microbatches 4 model @llama3_70b {

// BATCH: pipe.model @paper_gpt microbatch_size 4 boundary_bytes 134217728
// BATCH: pipe.schedule @eight workers 2 microbatches 8 model @paper_gpt {
// BATCH: pipe.schedule @four workers 2 microbatches 4 {

// OPTIONS: pipe.model @toy microbatch_size 1 boundary_bytes 77 state_bytes [2, 4, 12] recompute selective
// OPTIONS: kernel "ln1" on vector F
// OPTIONS: kernel "sm_max" on vector core sees 100 tokens F

// FILE: pipe.model @model_3_mine microbatch_size 5 boundary_bytes 960 state_bytes [4, 4, 8]

// TAKEN: pipe.model @toy_0 microbatch_size 2
// TAKEN: pipe.schedule @toy workers 2 microbatches 8 model @toy_0 {

// Weights become blocks, even if they have a common divisor.
// WEIGHTS-LABEL: pipe.schedule @weights workers 2 microbatches 8 model @toy {
// WEIGHTS-NEXT:    path on [0, 1] takes [0:8:2] blocks [2, 6]
// WEIGHTS-NEXT:    path on [1, 0] takes [1:8:2]
// WEIGHTS-NEXT:  }
// WEIGHTS:       exec.program @program workers 2 microbatches 8 model @toy {
// WEIGHTS-NEXT:    pipe.path on [0, 1] blocks [4, 4]

//--- weights.mlir
pipe.schedule @weights workers 2 microbatches 8 {
  path on [0, 1] takes [0:8:2] weights [3, 9]
  path on [1, 0] takes [1:8:2]
}
exec.program @program workers 2 microbatches 8 {
  pipe.path on [0, 1] weights [5, 5]
  worker 0 {
    %f0 = compute 0F0
  }
  worker 1 {
  }
}

//--- s.mlir
pipe.schedule @eight workers 2 microbatches 8 {
  path on [0, 1]
}
exec.program @program workers 2 microbatches 8 {
  worker 0 {
    %f0 = compute 0F0
  }
  worker 1 {
  }
}
pipe.schedule @four workers 2 microbatches 4 {
  path on [0, 1]
}

//--- taken.mlir
pipe.schedule @toy workers 2 microbatches 8 {
  path on [0, 1]
}

//--- m.json
{"name": "3-mine", "description": "d", "hidden": 6, "feedforward": 7,
 "sequence": 8, "layers": 9, "attention_heads": 2, "activation": "swiglu",
 "norm": "rms", "bytes_per_element": 4, "weight_bytes_per_parameter": 4,
 "gradient_bytes_per_parameter": 4, "optimizer_bytes_per_parameter": 8,
 "global_batch": 40}
