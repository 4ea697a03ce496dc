// A schedule is one of several pipelines: this changes batch, rates and residual stream.
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-system{name=toy data-parallel=4},pipe-attach-model{name=toy})' | FileCheck %s --check-prefix=BATCH
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-system{name=toy data-parallel=3},pipe-attach-model{name=toy})' 2>&1 | FileCheck %s --check-prefix=RAGGED
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{name=toy precision=fp8 sequence-parallel=false})' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=MODEL
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-1f1b,pipe-attach-model{name=toy precision=fp8},pipe-attach-system{name=toy})' | not pipesched-translate --export-report 2>&1 | FileCheck %s --check-prefix=RATE
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-system{name=toy data-parallel=4},pipe-attach-model{name=toy},pipe-schedule-1f1b,pipe-add-optimizer)' | FileCheck %s --check-prefix=STEP

// Sixteen sequences in four pipelines of two microbatches.
// BATCH: pipe.model @toy microbatch_size 2
// RAGGED: error: 'pipe.schedule' op has 2 microbatches in each of 3 pipelines, 6 in all, which do not divide the global batch of 16; numbers that do: 4 and 8

// MODEL: pipe-attach-model{{{.*}}precision=fp8 {{.*}}sequence-parallel=false}
// MODEL:        block "layer" x 8 parameters 1240 activation_bytes {{[0-9]+}} weight_grad_bytes {{[0-9]+}} recomputed_bytes {{[0-9]+}} core_bytes {{[0-9]+}} whole_bytes [48504, 97008, 16000] {
// MODEL-NEXT:     kernel "attn_fork" on vector whole
// MODEL-NEXT:     kernel "ln1" on vector whole
// MODEL-NEXT:     kernel "qkv" on matrix_fp8 launches 3 F
// MODEL-NEXT:     kernel "context_exchange" on context core sees 100 tokens F
// MODEL-NEXT:     kernel "attention" on matrix core sees 100 tokens F
// MODEL-NEXT:     kernel "proj" on matrix_fp8 launches 3 F
// MODEL-NEXT:     kernel "attention_reduce" on link F
// MODEL-NEXT:     kernel "drop1" on vector whole
// MODEL-NEXT:     kernel "mlp_fork" on vector whole
// MODEL-NEXT:     kernel "ln2" on vector whole
// MODEL-NEXT:     kernel "mlp1" on matrix_fp8 launches 3 F
// MODEL-NEXT:     kernel "gelu" on vector F
// MODEL-NEXT:     kernel "mlp2" on matrix_fp8 launches 3 F

// RATE: error: 'pipe.schedule' op kernel 'qkv' of block 'layer' is in FP8, for which the system 'toy' has no rate; state its matrix.fp8_tflops, or choose another precision

// STEP: worker 0 runs [0F0 0F1 0B0 0B1 0G0 0O0]
// STEP: worker 1 runs [1F0 1B0 1F1 1B1 1G0 1O0]
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
}
