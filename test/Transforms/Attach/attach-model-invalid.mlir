// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=llama3-7b})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model)' 2>&1 | FileCheck %s --check-prefix=NEITHER
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy file=x})' 2>&1 | FileCheck %s --check-prefix=BOTH
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/none.json})' 2>&1 | FileCheck %s --check-prefix=UNREADABLE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/bad.json})' 2>&1 | FileCheck %s --check-prefix=FIELD
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' 2>&1 | FileCheck %s --check-prefix=RAGGED
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/no-batch.json})' 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=-1})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy parameter-bytes=2,4})' 2>&1 | FileCheck %s --check-prefix=PARAMETERS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy parameter-bytes=2,-1,12})' 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=1 global-batch=7})' 2>&1 | FileCheck %s --check-prefix=SIZES
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=llama3-70b microbatch-size=4611686018427387904})' 2>&1 | FileCheck %s --check-prefix=OVERFLOW
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=llama3-70b microbatch-size=99999999999999999999})' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy schedule=sevn})' 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not pipesched-opt %t/weights.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' 2>&1 | FileCheck %s --check-prefix=WEIGHTS
// RUN: not pipesched-opt %t/empty.mlir --pass-pipeline='builtin.module(pipe-attach-model{name=toy})' 2>&1 | FileCheck %s --check-prefix=EMPTY

// NAME: error: unknown model 'llama3-7b', the closest is 'llama3-70b'
// NEITHER: error: pipe-attach-model needs one of 'name' and 'file', neither given
// BOTH: error: pipe-attach-model needs one of 'name' and 'file', both given
// UNREADABLE: error: cannot read '{{.*}}none.json': No such file or directory
// FIELD: error: {{.*}}bad.json: unknown field 'hiden', the closest is 'hidden'
// RAGGED: s.mlir:1:1: error: 'pipe.schedule' op has 7 microbatches, which do not divide the global batch of 16; numbers that do: 4 and 8
// BATCH: s.mlir:1:1: error: 'pipe.schedule' op has a model without a global batch, 'm'; give microbatch-size or global-batch
// PARAMETERS: error: parameter-bytes: expected three numbers (weight, gradient, optimizer state), found 2
// STATE: error: parameter-bytes: expected at least 0, found -1
// NEGATIVE: error: pipe-attach-model expects microbatch-size, global-batch, sequence and boundary-bytes of at least 0, found -1
// SIZES: error: pipe-attach-model needs one of 'microbatch-size' and 'global-batch', both given
// OVERFLOW: error: model 'llama3-70b': the activation between stages is over 2^63 - 1 bytes
// RANGE: '99999999999999999999' value invalid
// SCHEDULE: error: no schedule or program is called @sevn, the closest is 'seven'
// WEIGHTS: weights.mlir:3:3: error: 'pipe.path' op the weights of path 1 make 3 parts, which do not divide the model's 8 layers; layer counts that they do: 6 and 9
// EMPTY: error: the module has no pipe.schedule and no exec.program

//--- s.mlir
pipe.schedule @seven workers 2 microbatches 7 {
  path on [0, 1]
}

//--- weights.mlir
pipe.schedule @weights workers 2 microbatches 8 {
  path on [0, 1] takes [0:8:2] weights [1, 3]
  path on [1, 0] takes [1:8:2] weights [2, 4]
}

//--- empty.mlir
module {}

//--- bad.json
{"name": "m", "description": "d", "hiden": 6}

//--- no-batch.json
{"name": "m", "description": "d", "hidden": 6, "feedforward": 7,
 "sequence": 8, "layers": 9, "attention_heads": 2, "activation": "gelu",
 "norm": "layer"}
