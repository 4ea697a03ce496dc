// RUN: split-file %s %t
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/torn.json})' 2>&1 | FileCheck %s --check-prefix=TORN
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/missing.json})' 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%data/huggingface/gpt2.json})' 2>&1 | FileCheck %s --check-prefix=BATCH
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%data/huggingface/gpt2.json microbatch-size=1 sequence=-1})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/calculon.json})' 2>&1 | FileCheck %s --check-prefix=CALCULON

// TORN: error: {{.*}}torn.json:3:19: Expected , or } after object property
// MISSING: error: {{.*}}missing.json: needs the fields 'num_hidden_layers', 'vocab_size', the closest is 'num_hiden_layers'
// BATCH: has a model without a global batch, 'gpt2'; give microbatch-size or global-batch
// NEGATIVE: error: pipe-attach-model expects microbatch-size, global-batch, sequence and boundary-bytes of at least 0, found -1
// CALCULON: error: {{.*}}calculon.json: needs the field 'attn_size'

//--- s.mlir
pipe.schedule @s workers 2 microbatches 8 {
  path on [0, 1]
}

//--- torn.json
{
  "model_type": "llama",
  "hidden_size": 4"096"
}

//--- missing.json
{"model_type": "llama", "hidden_size": 8, "intermediate_size": 8,
 "num_hiden_layers": 2, "num_attention_heads": 2}

//--- calculon.json
{"hidden": 8, "feedforward": 32, "seq_size": 16, "attn_heads": 2,
 "num_blocks": 4}
