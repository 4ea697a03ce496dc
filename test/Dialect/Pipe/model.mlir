// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s --emit-bytecode | pipesched-opt-raw | FileCheck %s

// CHECK-LABEL: pipe.model @everything microbatch_size 2 boundary_bytes 4096 state_bytes [2, 4, 12] recompute selective source "made up" {
// CHECK-NEXT:    block "embedding" first parameters 1000 activation_bytes 16 weight_grad_bytes 48 recomputed_bytes 16 {
// CHECK-NEXT:      kernel "lookup" on vector kept F <0 flops, 8192 bytes> W <5 flops, 8192 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    block "dense" x 3 parameters 0 activation_bytes 0 {
// CHECK-NEXT:    }
// CHECK-NEXT:    block "layer" x 4 parameters 500 activation_bytes 9000 weight_grad_bytes 12000 recomputed_bytes 4096 core_bytes 77 {
// CHECK-NEXT:      kernel "linear" on matrix F <1000 flops, 800 bytes> I <1001 flops, 801 bytes> W <1002 flops, 802 bytes>
// CHECK-NEXT:      kernel "softmax" on vector core I <7 flops, 0 bytes>
// CHECK-NEXT:      kernel "reduce" on link F <0 flops, 4096 bytes> I <0 flops, 4096 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    block "head" last parameters 10 activation_bytes 20 {
// CHECK-NEXT:      kernel "loss" on vector F <9223372036854775807 flops, 1 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.model @everything microbatch_size 2 boundary_bytes 4096 state_bytes [2, 4, 12] recompute selective source "made up" {
  block "embedding" first parameters 1000 activation_bytes 16 weight_grad_bytes 48 recomputed_bytes 16 {
    kernel "lookup" on vector kept F <0 flops, 8192 bytes> W <5 flops, 8192 bytes>
  }
  block "dense" layer x 3 parameters 0 activation_bytes 0 {
  }
  block "layer" x 4 parameters 500 activation_bytes 9000 weight_grad_bytes 12000 recomputed_bytes 4096 core_bytes 77 {
    kernel "linear" on matrix F <1000 flops, 800 bytes> I <1001 flops, 801 bytes> W <1002 flops, 802 bytes>
    kernel "softmax" on vector core I <7 flops, 0 bytes>
    kernel "reduce" on link F <0 flops, 4096 bytes> I <0 flops, 4096 bytes>
  }
  block "head" last x 1 parameters 10 activation_bytes 20 {
    kernel "loss" on vector F <9223372036854775807 flops, 1 bytes>
  }
}

// Defaults are not printed.
// CHECK-LABEL: pipe.model @defaults microbatch_size 1 boundary_bytes 0 state_bytes [0, 0, 0] {
// CHECK-NEXT:    block "b" parameters 0 activation_bytes 0 {
pipe.model @defaults microbatch_size 1 boundary_bytes 0 state_bytes [0, 0, 0] recompute none {
  block "b" layer x 1 parameters 0 activation_bytes 0 weight_grad_bytes 0 recomputed_bytes 0 core_bytes 0 {
  }
}

// CHECK-LABEL: pipe.schedule @uses workers 1 microbatches 1 model @everything {
pipe.schedule @uses workers 1 microbatches 1 model @everything {
  path on [0]
}

// Kinds of layers alternate; some parameters are active or tied; sequences have a length.
// CHECK-LABEL: pipe.model @in_turn microbatch_size 1 boundary_bytes 0 state_bytes [2, 2, 12] recompute full sequence 4096 vocabulary 32000 source "made up" {
// CHECK-NEXT:    block "dense" parameters 7 activation_bytes 0 {
// CHECK-NEXT:    }
// CHECK-NEXT:    block "experts" x 2 parameters 9 active_parameters 3 activation_bytes 0 {
// CHECK-NEXT:    }
// CHECK-NEXT:    repeat "dense"
// CHECK-NEXT:    repeat "experts" x 2
// CHECK-NEXT:    block "head" last parameters 5 tied_parameters 4 activation_bytes 0 {
// CHECK-NEXT:    }
// CHECK-NEXT:  }
pipe.model @in_turn microbatch_size 1 boundary_bytes 0 state_bytes [2, 2, 12] recompute full sequence 4096 vocabulary 32000 source "made up" {
  block "dense" parameters 7 tied_parameters 0 activation_bytes 0 {
  }
  block "experts" x 2 parameters 9 active_parameters 3 activation_bytes 0 {
  }
  repeat "dense" x 1
  repeat "experts" x 2
  block "head" last parameters 5 tied_parameters 4 activation_bytes 0 {
  }
}

// Some work and bytes are whole on every accelerator of a worker; 8-bit floats.
// CHECK-LABEL: pipe.model @whole
// CHECK-NEXT:    block "layer" parameters 1 activation_bytes 9 weight_grad_bytes 5 recomputed_bytes 3 core_bytes 2 whole_bytes [4, 2, 0] {
// CHECK-NEXT:      kernel "norm" on vector whole F <1 flops, 2 bytes>
// CHECK-NEXT:      kernel "both" on vector core whole F <1 flops, 2 bytes>
// CHECK-NEXT:      kernel "linear" on matrix_fp8 F <1 flops, 2 bytes>
pipe.model @whole microbatch_size 1 boundary_bytes 0 state_bytes [2, 2, 12] {
  block "layer" parameters 1 activation_bytes 9 weight_grad_bytes 5 recomputed_bytes 3 core_bytes 2 whole_bytes [4, 2, 0] {
    kernel "norm" on vector whole F <1 flops, 2 bytes>
    kernel "both" on vector core whole F <1 flops, 2 bytes>
    kernel "linear" on matrix_fp8 F <1 flops, 2 bytes>
  }
}

// Blocks state their own bytes and phases.
// CHECK-LABEL: pipe.model @stated microbatch_size 1 boundary_bytes 8 state_bytes [0, 0, 0] {
// CHECK-NEXT:    block "a" parameters 7 activation_bytes 9 state_bytes [14, 28, 0] message_bytes [8, 0] {
// CHECK-NEXT:      kernel "linear" x 3 on matrix F <1 flops, 2 bytes> B <3 flops, 4 bytes> R <5 flops, 6 bytes>
// CHECK-NEXT:      kernel "step" on vector O <7 flops, 8 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    repeat "a" x 2
// CHECK-NEXT:    block "a" parameters 7 activation_bytes 9 state_bytes [14, 28, 1] message_bytes [8, 0] {
pipe.model @stated microbatch_size 1 boundary_bytes 8 state_bytes [0, 0, 0] {
  block "a" parameters 7 activation_bytes 9 state_bytes [14, 28, 0] message_bytes [8, 0] {
    kernel "linear" x 3 on matrix F <1 flops, 2 bytes> B <3 flops, 4 bytes> R <5 flops, 6 bytes>
    kernel "step" x 1 on vector O <7 flops, 8 bytes>
  }
  repeat "a" x 2
  block "a" parameters 7 activation_bytes 9 state_bytes [14, 28, 1] message_bytes [8, 0] {
  }
}

// Experts, and what is divided with sequences. Groups of one are not printed.
// CHECK-LABEL: pipe.model @divided
// CHECK-NEXT:    block "layer" parameters 9 activation_bytes 9 weight_grad_bytes 5 experts <count = 8, per_token = 2, rows = 4, parameters = 8, activation_bytes = 7, weight_grad_bytes = 5, groups = 4, groups_per_token = 2, wide_activation_bytes = 3, wide_weight_grad_bytes = 2> {
// CHECK-NEXT:      kernel "pass_on" on context core F <0 flops, 2 bytes>
// CHECK-NEXT:      kernel "send" on all_to_all F <0 flops, 2 bytes>
// CHECK-NEXT:      kernel "expert" on matrix routed weight_bytes 2 F <1 flops, 2 bytes>
// CHECK-NEXT:      kernel "reduce" on link routed F <0 flops, 2 bytes>
// CHECK-NEXT:    }
// CHECK-NEXT:    repeat "layer"
// CHECK-NEXT:    block "layer" parameters 9 activation_bytes 9 experts <count = 8, per_token = 2, rows = 4, parameters = 9, activation_bytes = 0, weight_grad_bytes = 0> {
pipe.model @divided microbatch_size 1 boundary_bytes 0 state_bytes [2, 2, 12] {
  block "layer" parameters 9 activation_bytes 9 weight_grad_bytes 5 experts <count = 8, per_token = 2, rows = 4, parameters = 8, activation_bytes = 7, weight_grad_bytes = 5, groups = 4, groups_per_token = 2, wide_activation_bytes = 3, wide_weight_grad_bytes = 2> {
    kernel "pass_on" on context core F <0 flops, 2 bytes>
    kernel "send" on all_to_all F <0 flops, 2 bytes>
    kernel "expert" on matrix routed weight_bytes 2 F <1 flops, 2 bytes>
    kernel "reduce" on link routed weight_bytes 0 F <0 flops, 2 bytes>
  }
  repeat "layer"
  block "layer" parameters 9 activation_bytes 9 experts <count = 8, per_token = 2, rows = 4, parameters = 9, activation_bytes = 0, weight_grad_bytes = 0, groups = 1, groups_per_token = 1> {
  }
}

// Attention at a separate rate, and work on parameters.
// CHECK-LABEL: pipe.model @flash
// CHECK:         kernel "attention" on attention shape <kernel = "flash-2", head_size = 128, sequence = 1024, masked_flops = 45> core F <50 flops, 160 bytes> I <125 flops, 240 bytes>
// CHECK-NEXT:    kernel "whole_scores" x 2 on attention shape <kernel = "cudnn", head_size = 64, sequence = 8> F <50 flops, 160 bytes>
// CHECK-NEXT:    kernel "add" on vector on_parameters W <9 flops, 90 bytes>
pipe.model @flash microbatch_size 1 boundary_bytes 0 state_bytes [2, 4, 12] {
  block "layer" parameters 1 activation_bytes 9 {
    kernel "attention" on attention shape <kernel = "flash-2", head_size = 128, sequence = 1024, masked_flops = 45> core F <50 flops, 160 bytes> I <125 flops, 240 bytes>
    kernel "whole_scores" x 2 on attention shape <kernel = "cudnn", head_size = 64, sequence = 8, masked_flops = 0> F <50 flops, 160 bytes>
    kernel "add" on vector on_parameters W <9 flops, 90 bytes>
  }
}

// A stage with a shard of the vocabulary as separate work.
// CHECK-LABEL: pipe.model @shard
// CHECK-NEXT:    block "stage 0" parameters 3 activation_bytes 8 shard_bytes [40, 8, 16, 0] {
// CHECK-NEXT:      kernel "linear" on matrix F <4 flops, 8 bytes> B <8 flops, 8 bytes>
// CHECK-NEXT:      kernel "logits" on matrix S <5 flops, 6 bytes> T <10 flops, 0 bytes>
// CHECK-NEXT:      kernel "sum" on link T <0 flops, 7 bytes>
// CHECK-NEXT:    }
pipe.model @shard microbatch_size 1 boundary_bytes 8 state_bytes [2, 2, 12] {
  block "stage 0" parameters 3 activation_bytes 8 shard_bytes [40, 8, 16, 0] {
    kernel "linear" on matrix F <4 flops, 8 bytes> B <8 flops, 8 bytes>
    kernel "logits" on matrix S <5 flops, 6 bytes> T <10 flops, 0 bytes>
    kernel "sum" on link T <0 flops, 7 bytes>
  }
}
