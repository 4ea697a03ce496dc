// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
pipe.model @p @@ {
  block "b" parameters 0 activation_bytes 0 {
  }
}

// model_c1: no sequence in a microbatch
// error: attribute 'microbatch_size' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive
microbatch_size 0 boundary_bytes 1 state_bytes [2, 2, 12]
// model_c1: negative boundary
// error: attribute 'boundary_bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative
microbatch_size 1 boundary_bytes -1 state_bytes [2, 2, 12]
// model_c1: negative state
// error: attribute 'state_bytes' failed to satisfy constraint
microbatch_size 1 boundary_bytes 1 state_bytes [2, -2, 12]
// model_c1: two numbers of state
// error: attribute 'state_bytes' failed to satisfy constraint
microbatch_size 1 boundary_bytes 1 state_bytes [2, 2]
// model_c1: no token in a sequence
// error: attribute 'sequence' failed to satisfy constraint
microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] sequence 0

// CASES
pipe.model @p microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] {
@@
}

// model_c2: another op
  // error: 'builtin.module' op is not a 'pipe.block' or 'pipe.repeat'; a model holds only these
  builtin.module {
  }
// model_c3: a layer after the head
  // note: that block
  block "head" last parameters 0 activation_bytes 0 {
  }
  // error: 'pipe.block' op stands after a 'last' block, expected first, layer, last
  block "b" parameters 0 activation_bytes 0 {
  }
// model_c4: more layers than 64 bits count
  block "a" x 9223372036854775807 parameters 0 activation_bytes 0 {
  }
  // error: 'pipe.block' op brings the layers over 2^63 - 1
  block "b" parameters 0 activation_bytes 0 {
  }
// block_c1: no block
  // error: attribute 'count' failed to satisfy constraint
  block "b" x 0 parameters 0 activation_bytes 0 {
  }
// block_c1: negative parameters
  // error: attribute 'parameters' failed to satisfy constraint
  block "b" parameters -1 activation_bytes 0 {
  }
// block_c2: a block in a block
  block "b" parameters 0 activation_bytes 0 {
    // error: 'pipe.block' op expects parent op 'pipe.model'
    block "c" parameters 0 activation_bytes 0 {
    }
  }
// block_c2: another op
  block "b" parameters 0 activation_bytes 0 {
    // error: 'builtin.module' op is not a 'pipe.kernel', all that a block holds
    builtin.module {
    }
  }
// block_c3: more is kept than there is
  // error: 'pipe.block' op keeps 11 recomputed_bytes, more than its 10 activation_bytes
  block "b" parameters 0 activation_bytes 10 recomputed_bytes 11 {
  }
// block_c3: the core is more than there is
  // error: 'pipe.block' op has 11 core_bytes, more than its 10 activation_bytes
  block "b" parameters 0 activation_bytes 10 core_bytes 11 {
  }
// kernel_c3: kept and recomputed
  block "b" parameters 0 activation_bytes 0 {
    // error: 'pipe.kernel' op is both 'kept', never recomputed, and 'core', always recomputed
    kernel "k" on matrix kept core F <1 flops, 1 bytes>
  }
// kernel_c1: it never runs
  block "b" parameters 0 activation_bytes 0 {
    // error: 'pipe.kernel' op has no work in any phase, expected F, I, W, B, R, O, S or T
    kernel "k" on matrix
  }
// kernel_c2: a link does not compute
  block "b" parameters 0 activation_bytes 0 {
    // error: 'pipe.kernel' op on link has 5 flops, expected bytes only
    kernel "k" on link F <0 flops, 1 bytes> I <5 flops, 1 bytes>
  }
// An engine that does not exist
  block "b" parameters 0 activation_bytes 0 {
    // error: expected string or keyword containing one of the following enum values for attribute 'engine' [matrix, vector, link, matrix_fp8, all_to_all, context, attention, matrix_fp4]
    kernel "k" on tensor F <0 flops, 1 bytes>
  }
// work_c1: negative bytes
  block "b" parameters 0 activation_bytes 0 {
    // error: expected FLOPs and bytes of at least 0, found 5 flops, -1 bytes
    kernel "k" on matrix F <5 flops, -1 bytes>
  }
// work_c2: no work
  block "b" parameters 0 activation_bytes 0 {
    // error: expected work, found 0 flops, 0 bytes; leave out phases in which the kernel does not run
    kernel "k" on matrix F <0 flops, 0 bytes>
  }
// block_c4: more is active than there is
  // error: 'pipe.block' op has 11 active_parameters, more than its 10 parameters
  block "b" parameters 10 active_parameters 11 activation_bytes 0 {
  }
// block_c4: more is tied than is active
  // error: 'pipe.block' op has 9 tied_parameters, more than its 8 active parameters
  block "b" parameters 10 active_parameters 8 tied_parameters 9 activation_bytes 0 {
  }
// repeat_c1: no layer
  block "b" parameters 10 activation_bytes 0 {
  }
  // error: attribute 'count' failed to satisfy constraint
  repeat "b" x 0
// repeat_c2: a name that comes later
  // error: 'pipe.repeat' op finds no block "b" above
  repeat "b"
  block "b" parameters 10 activation_bytes 0 {
  }
// repeat_c2: a block that is not a layer
  // note: that block
  block "b" first parameters 10 activation_bytes 0 {
  }
  // error: 'pipe.repeat' op repeats a 'first' block, expected a layer
  repeat "b"
// model_c4: more layers than 64 bits count
  block "b" parameters 10 activation_bytes 0 {
  }
  // error: 'pipe.repeat' op brings the layers over 2^63 - 1
  repeat "b" x 9223372036854775807
// block_c6: two numbers of state
  // error: attribute 'state_bytes' failed to satisfy constraint
  block "b" parameters 0 activation_bytes 0 state_bytes [1, 2] {
  }
// block_c6: a negative message
  // error: attribute 'message_bytes' failed to satisfy constraint
  block "b" parameters 0 activation_bytes 0 message_bytes [1, -2] {
  }
// kernel_c1: it never runs
  block "b" parameters 0 activation_bytes 0 {
    // error: attribute 'count' failed to satisfy constraint
    kernel "k" x 0 on vector F <1 flops, 0 bytes>
  }
// experts_c1: no rows
  // error: expected experts, rows and groups of at least 1
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 2, rows = 0, parameters = 0, activation_bytes = 0, weight_grad_bytes = 0, groups = 2, groups_per_token = 1> {
  }
// experts_c1: negative bytes
  // error: expected parameters and bytes of at least 0
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = -1, groups = 2, groups_per_token = 1> {
  }
// experts_c1: wide bytes over all
  // error: expected wide bytes to be a part of all, found 2 of 1 and 0 of 0
  block "b" parameters 0 activation_bytes 1 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 1, weight_grad_bytes = 0, wide_activation_bytes = 2> {
  }
// experts_c2: more experts than there are
  // error: expected a token to go to at most 4 experts, found 5
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 5, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = 0, groups = 2, groups_per_token = 1> {
  }
// experts_c2: more groups than there are
  // error: expected a token to go to at most 2 groups, found 3
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = 0, groups = 2, groups_per_token = 3> {
  }
// experts_c2: unequal groups
  // error: expected 4 experts in equal groups, found 3
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = 0, groups = 3, groups_per_token = 1> {
  }
// block_c7: more parameters than there are
  // error: has experts with 6 of its 5 parameters
  block "b" parameters 5 activation_bytes 5 weight_grad_bytes 5 experts <count = 4, per_token = 2, rows = 4, parameters = 6, activation_bytes = 0, weight_grad_bytes = 0> {
  }
// block_c7: more rows than there are
  // error: has experts with 7 of its 5 activation_bytes
  block "b" parameters 5 activation_bytes 5 weight_grad_bytes 5 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 7, weight_grad_bytes = 0> {
  }
// block_c7: more gradients than there are
  // error: has experts with 8 of its 5 weight_grad_bytes
  block "b" parameters 5 activation_bytes 5 weight_grad_bytes 5 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = 8> {
  }
// block_c8: rows without experts
  block "b" parameters 0 activation_bytes 0 {
    // error: is about experts, which its block has not
    kernel "k" on matrix routed F <1 flops, 2 bytes>
  }
// block_c8: rows without experts
  block "b" parameters 0 activation_bytes 0 {
    // error: is about experts, which its block has not
    kernel "k" on all_to_all F <0 flops, 2 bytes>
  }
// block_c9: bytes of a shard below 0
  // error: has negative shard_bytes
  block "b" parameters 0 activation_bytes 0 shard_bytes [-1, 1, 0, 0] {
    kernel "k" on matrix S <1 flops, 2 bytes>
  }
// block_c9: a shard without its input
  // error: has a shard and no bytes of X, which brings it the last output
  block "b" parameters 0 activation_bytes 0 shard_bytes [1, 0, 0, 0] {
    kernel "k" on matrix S <1 flops, 2 bytes>
  }
// block_c9: a shard that does nothing
  // error: has shard_bytes, and no kernel that runs in S or T
  block "b" parameters 0 activation_bytes 0 shard_bytes [1, 1, 0, 0] {
    kernel "k" on matrix F <1 flops, 2 bytes>
  }
// block_c9: work of a shard in a block without one
  block "b" parameters 0 activation_bytes 0 {
    // error: runs in S or T, and its block has no shard_bytes
    kernel "k" on matrix T <1 flops, 2 bytes>
  }
// work_c1: work below nothing
  block "b" parameters 0 activation_bytes 0 shard_bytes [1, 1, 0, 0] {
    // error: has negative work in S or T
    kernel "k" on matrix T <1 flops, -2 bytes>
  }
// kernel_c2: a collective does not compute
  block "b" parameters 0 activation_bytes 0 shard_bytes [1, 1, 0, 0] {
    // error: on link has 3 flops, expected bytes only
    kernel "k" on link S <3 flops, 2 bytes>
  }
// kernel_c2: a collective does not compute
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = 0> {
    // error: on all_to_all has 1 flops, expected bytes only
    kernel "k" on all_to_all F <1 flops, 2 bytes>
  }
// kernel_c4: a collective is of all
  block "b" parameters 0 activation_bytes 0 {
    // error: on context is 'whole', while its accelerators share it
    kernel "k" on context whole F <0 flops, 2 bytes>
  }
// kernel_c5: weights of no expert
  block "b" parameters 0 activation_bytes 0 {
    // error: has weight_bytes, but is not 'routed'
    kernel "k" on matrix weight_bytes 1 F <1 flops, 2 bytes>
  }
// kernel_c5: more weights than bytes
  block "b" parameters 0 activation_bytes 0 experts <count = 4, per_token = 2, rows = 4, parameters = 0, activation_bytes = 0, weight_grad_bytes = 0> {
    // error: has a phase of 2 bytes, fewer than its 3 weight_bytes
    kernel "k" on matrix routed weight_bytes 3 F <1 flops, 4 bytes> I <1 flops, 2 bytes>
  }
// kernel_c6: a rate of what
  block "b" parameters 0 activation_bytes 0 {
    // error: on attention has no 'shape'
    kernel "k" on attention F <1 flops, 2 bytes>
  }
// kernel_c6: a GEMM has no heads
  block "b" parameters 0 activation_bytes 0 {
    // error: on matrix has a 'shape', which only attention kernels have
    kernel "k" on matrix shape <kernel = "flash-2", head_size = 1, sequence = 1> F <1 flops, 2 bytes>
  }
// kernel_c7: all of it, or a part
  block "b" parameters 0 activation_bytes 0 {
    // error: is 'on_parameters', which is for work of every rank that has the parameters, and 'whole'
    kernel "k" on vector whole on_parameters W <1 flops, 2 bytes>
  }
// kernel_c8: rows that are sorted are rows of experts
  block "b" parameters 0 activation_bytes 0 {
    // error: is 'exchanged', but not 'routed'
    kernel "k" on vector exchanged F <1 flops, 2 bytes>
  }
// kernel_c7: a collective is of all
  block "b" parameters 0 activation_bytes 0 {
    // error: is 'on_parameters', which is for work of every rank that has the parameters, and a collective
    kernel "k" on link on_parameters W <0 flops, 2 bytes>
  }

// CASES
@@

// model_c1: a size over 63 bits
// error: attribute 'boundary_bytes' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative
pipe.model @m microbatch_size 1 boundary_bytes 9223372036854775808 state_bytes [2, 2, 12] {
}
// model_c1: a size over 64 bits
// error: integer constant out of range for attribute
pipe.model @m microbatch_size 1 boundary_bytes 18446744073709551617 state_bytes [2, 2, 12] {
}
// model_c2: no block
// error: 'pipe.model' op has no blocks
pipe.model @m microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] {
}
// The schedule's model is another thing (schedule_c5)
pipe.schedule @other workers 1 microbatches 1 {
  path on [0]
}
// error: 'pipe.schedule' op names @other, which is not a pipe.model
pipe.schedule @s workers 1 microbatches 1 model @other {
  path on [0]
}
// model_c6: a vocabulary of fewer than no entries
// error: has a vocabulary of -1 entries, expected at least 0
pipe.model @m microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] vocabulary -1 {
  block "b" parameters 1 activation_bytes 1 {
  }
}
// model_c3: layers after the head
pipe.model @m microbatch_size 1 boundary_bytes 1 state_bytes [2, 2, 12] {
  block "b" parameters 10 activation_bytes 0 {
  }
  // note: that block
  block "h" last parameters 10 activation_bytes 0 {
  }
  // error: 'pipe.repeat' op stands after a 'last' block, expected a layer
  repeat "b"
}
// repeat_c2: outside of a model
// error: 'pipe.repeat' op expects parent op 'pipe.model'
pipe.repeat "b"
// attention_c1: another kernel
// error: expected an attention kernel "flash-2" or "flash-3" or "cudnn", found "flash-4"
#a = #pipe.attention<kernel = "flash-4", head_size = 128, sequence = 1024>
// attention_c2: no heads
// error: expected head_size and sequence of at least 1, found 0 and 1024
#a = #pipe.attention<kernel = "flash-2", head_size = 0, sequence = 1024>
// attention_c2: fewer than none
// error: expected masked_flops of at least 0, found -1
#a = #pipe.attention<kernel = "flash-2", head_size = 1, sequence = 1024, masked_flops = -1>

// CASES
pipe.model @m microbatch_size 1 boundary_bytes 0 state_bytes [0, 0, 0] {
@@
}

// block_c5: more is whole than there is
  // error: 'pipe.block' op has 4 whole_bytes of its 3 weight_grad_bytes
  block "b" parameters 0 activation_bytes 9 weight_grad_bytes 3 whole_bytes [9, 4, 0] {
  }
// kernel_c4: a collective is of all
  block "b" parameters 0 activation_bytes 0 {
    // error: 'pipe.kernel' op on link is 'whole', while its accelerators share it
    kernel "k" on link whole F <0 flops, 1 bytes>
  }
