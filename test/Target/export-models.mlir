// RUN: pipesched-translate --export-models %s | FileCheck %s
// RUN: echo 'module {}' | pipesched-translate --export-models | FileCheck %s --check-prefix=NONE

// Equal blocks are listed once, and copies of parameters do not count. There are 3 x
// 100 FLOPs in each of 6 layers and 3 x 900 in each of 2, for 16 tokens.
// CHECK:      [
// CHECK-NEXT:   {
// CHECK-NEXT:     "model": "in_turn",
// CHECK-NEXT:     "source": "",
// CHECK-NEXT:     "layers": 8,
// CHECK-NEXT:     "parameters": 141,
// CHECK-NEXT:     "active_parameters": 117,
// CHECK-NEXT:     "expert_parameters": null,
// CHECK-NEXT:     "flops_per_token": 450,
// CHECK-NEXT:     "attention_flops_per_token": 337,
// CHECK-NEXT:     "expert_flops_per_token": null,
// CHECK-NEXT:     "microbatch_size": 2,
// CHECK-NEXT:     "sequence": 8,
// CHECK-NEXT:     "vocabulary": 640,
// CHECK-NEXT:     "attention": null,
// CHECK-NEXT:     "activation_bytes_per_block": 257,
// CHECK-NEXT:     "activation_bytes": 2057,
// CHECK-NEXT:     "boundary_bytes": 64,
// CHECK-NEXT:     "weight_bytes": 290,
// CHECK-NEXT:     "expert_weight_bytes": null,
// CHECK-NEXT:     "gradient_bytes": 290,
// CHECK-NEXT:     "optimizer_bytes": 1740,
// CHECK:            "name": "window_layer",
// CHECK-NEXT:       "position": "layer",
// CHECK-NEXT:       "count": 6,
// CHECK:            "name": "full_layer",
// CHECK-NEXT:       "position": "layer",
// CHECK-NEXT:       "count": 2,
// CHECK:            "name": "head",
// CHECK:          "notes": []

// Without a sequence length the number of tokens is not known.
// CHECK:          "model": "no_sequence",
// CHECK:          "flops_per_token": null,
// CHECK-NEXT:     "attention_flops_per_token": null,
// CHECK:          "sequence": null,
// CHECK-NEXT:     "vocabulary": null,

// NONE: []
pipe.model @in_turn microbatch_size 2 boundary_bytes 64 state_bytes [2, 2, 12] sequence 8 vocabulary 640 {
  block "window_layer" x 3 parameters 16 active_parameters 12 activation_bytes 257 {
    kernel "linear" on matrix F <100 flops, 80 bytes> I <100 flops, 80 bytes> W <100 flops, 80 bytes>
  }
  block "full_layer" parameters 22 activation_bytes 256 {
    kernel "attention" on matrix F <900 flops, 80 bytes> I <2000 flops, 80 bytes>
    kernel "gelu" on vector F <7000 flops, 80 bytes>
  }
  repeat "window_layer" x 3
  repeat "full_layer"
  block "head" last parameters 5 tied_parameters 4 activation_bytes 3 {
  }
}

pipe.model @no_sequence microbatch_size 2 boundary_bytes 64 state_bytes [2, 2, 12] {
  block "layer" parameters 16 activation_bytes 256 {
    kernel "linear" on matrix F <100 flops, 80 bytes>
  }
}
