// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{file=%data/huggingface/mixtral-8x7b.json sequence=4096 microbatch-size=2})' 2>&1 | FileCheck %s --check-prefix=MIXTRAL
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{file=%data/huggingface/deepseek-v2-lite.json microbatch-size=1})' 2>&1 | FileCheck %s --check-prefix=LATENT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{file=%data/huggingface/gemma-3-1b.json microbatch-size=1})' 2>&1 | FileCheck %s --check-prefix=WINDOWS
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{file=%data/calculon/application.json microbatch-size=4})' 2>&1 | FileCheck %s --check-prefix=CALCULON
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-model{name=llama3-8b microbatch-size=1 sequence=1024})' 2>&1 | FileCheck %s --check-prefix=SHIPPED

// There is no remark if nothing is assumed; the option gives the sequence length.
// MIXTRAL-NOT: remark
// MIXTRAL:      pipe.model @mixtral_8x7b microbatch_size 2 boundary_bytes 67108864 state_bytes [2, 2, 12] sequence 4096 vocabulary 32000 source "Hugging Face configuration, model_type mixtral" {
// MIXTRAL:        block "layer" x 32 parameters 1451270144 active_parameters 394305536
// MIXTRAL:          kernel "router" on matrix F <536870912 flops, 67305472 bytes>
// MIXTRAL:          kernel "route" on vector launches 31 synchronizes F <327680 flops, 360448 bytes> I <262144 flops, 294912 bytes>
// MIXTRAL:          kernel "dispatch" on vector F <0 flops, 268435456 bytes> I <67108864 flops, 201326592 bytes>
// MIXTRAL:          kernel "dispatch_exchange" on all_to_all F <0 flops, 134217728 bytes> I <0 flops, 134217728 bytes>
// MIXTRAL:          kernel "sort_rows" on vector routed exchanged F <0 flops, 268435456 bytes> I <0 flops, 268435456 bytes>
// MIXTRAL:          kernel "expert_mlp1" on matrix routed weight_bytes
// MIXTRAL:          kernel "expert_swiglu" on vector
// MIXTRAL:          kernel "expert_mlp2" on matrix routed weight_bytes 939524096
// MIXTRAL:          kernel "combine_exchange" on all_to_all F <0 flops, 134217728 bytes> I <0 flops, 134217728 bytes>
// MIXTRAL:          kernel "combine" on vector F <67108864 flops, 201326592 bytes> I <0 flops, 201326592 bytes>

// LATENT: remark: model 'deepseek-v2-lite' assumes sequences of 8192 tokens of at most 163840
// LATENT:      block "dense_layer" parameters
// LATENT-NOT:    "q_down"
// LATENT:        kernel "q" on matrix
// LATENT-NEXT:   kernel "kv_down" on matrix
// LATENT-NEXT:   kernel "kv_norm" on vector
// LATENT-NEXT:   kernel "kv_up" on matrix
// LATENT-NEXT:   kernel "rope" on vector F <26738688 flops, 118489088 bytes> I <26738688 flops, 118489088 bytes>
// LATENT-NEXT:   kernel "context_exchange" on context
// LATENT-NEXT:   kernel "attention" on matrix
// LATENT:      block "expert_layer" x 26 parameters
// LATENT:        kernel "shared_mlp1" on matrix

// WINDOWS: block "window_layer" x 5 parameters
// WINDOWS: block "full_layer" parameters
// WINDOWS: repeat "window_layer" x 5
// WINDOWS-NEXT: repeat "full_layer"
// WINDOWS-NEXT: repeat "window_layer" x 5
// WINDOWS-NEXT: repeat "full_layer"
// WINDOWS-NEXT: repeat "window_layer" x 5
// WINDOWS-NEXT: repeat "full_layer"
// WINDOWS-NEXT: repeat "window_layer" x 2
// WINDOWS-NEXT: block "head" last parameters 301991040 tied_parameters 301989888

// CALCULON: remark: model 'application' assumes Calculon's vocabulary of 51200 tokens, GELU, LayerNorm, biases and dropout
// CALCULON: pipe.model @application microbatch_size 4 boundary_bytes 100663296
// CALCULON:   block "layer" x 48 parameters 453064704 activation_bytes

// SHIPPED: pipe.model @llama3_8b microbatch_size 1 boundary_bytes 8388608 state_bytes [2, 2, 12] sequence 1024

pipe.schedule @s workers 2 microbatches 8 {
  path on [0, 1]
}
