// RUN: split-file %s %t
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/m.json microbatch-size=5 attention=flash-3})' | FileCheck %s
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/m.json microbatch-size=5})' | FileCheck %s --check-prefix=DESCRIBED
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/m.json microbatch-size=5},pipe-attach-system{name=h100})' | not pipesched-translate --export-report 2>&1 | FileCheck %s --check-prefix=HEADS
// RUN: not pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-model{file=%t/shared.json microbatch-size=5})' 2>&1 | FileCheck %s --check-prefix=SHARED

// Five sequences of six tokens, which see 21 of 36 scores: 4 * 5 * 21 * 8 FLOPs, and
// 4 * 5 * 15 * 8 that are masked. Keys and values of one head of four elements are
// copied to two: 2 * 30 * (8 + 16) bytes. Each gradient of 8 x 8 parameters is read in
// 2 bytes, and its sum read and written in 4.
// CHECK:      kernel "repeat_kv" on vector F <0 flops, 1440 bytes> I <480 flops, 1440 bytes>
// CHECK-NEXT: kernel "context_exchange" on context core sees 6 tokens F <0 flops, 960 bytes> I <0 flops, 1920 bytes>
// CHECK-NEXT: kernel "attention" on attention shape <kernel = "flash-3", head_size = 4, sequence = 6, masked_flops = 2400> core sees 6 tokens F <3360 flops, 2160 bytes> I <8400 flops, 4080 bytes>
// CHECK-NEXT: kernel "proj" on matrix
// CHECK-NEXT: kernel "proj_accumulate" on vector on_parameters W <64 flops, 640 bytes>

// DESCRIBED: kernel "attention" on attention shape <kernel = "flash-2", head_size = 4,

// HEADS: kernel 'attention' of block 'layer' is flash-2 with heads of 4, for which the system 'h100-sxm' has no rates; it has: flash-2 with heads of 64, 128; flash-3 with heads of 64, 128; cudnn with heads of 64, 128

// SHARED: attention: flash-2 needs heads of one size, but the 3 attention_heads do not divide a width of 8

//--- s.mlir
pipe.schedule @s workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}

//--- m.json
{"name": "tiny", "description": "d", "hidden": 8, "feedforward": 12, "sequence": 6, "layers": 1,
 "attention_heads": 2, "key_value_heads": 1, "activation": "gelu", "norm": "rms",
 "attention": "flash-2", "repeated_key_values": true, "separate_accumulation": true,
 "gradient_bytes_per_parameter": 4}

//--- shared.json
{"name": "tiny", "description": "d", "hidden": 8, "feedforward": 12, "sequence": 6, "layers": 1,
 "attention_heads": 3, "activation": "gelu", "norm": "rms", "attention": "flash-2"}
