//===- PipeModelOps.td - Models in facts -------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model as blocks of kernels: FLOPs, bytes and parameters, but no times.
// Facts/Facts.h has the same data as plain structs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPEMODELOPS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPEMODELOPS_TD

include "PipeSched/Dialect/Pipe/IR/PipeDialect.td"
include "PipeSched/Dialect/Pipe/IR/PipeEnums.td"
include "PipeSched/Dialect/Pipe/IR/PipeProperties.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/CommonAttrConstraints.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"

//===----------------------------------------------------------------------===//
// Attributes of models
//===----------------------------------------------------------------------===//

// The values equal the values of the enums in Facts/Facts.h.
def Pipe_KernelEngine : I32EnumAttr<"KernelEngine",
    "unit of a worker that executes a kernel", [
      I32EnumAttrCase<"Matrix", 0, "matrix">,
      I32EnumAttrCase<"Vector", 1, "vector">,
      I32EnumAttrCase<"Link", 2, "link">,
      I32EnumAttrCase<"MatrixFp8", 3, "matrix_fp8">,
      I32EnumAttrCase<"AllToAll", 4, "all_to_all">,
      I32EnumAttrCase<"Context", 5, "context">,
      I32EnumAttrCase<"Attention", 6, "attention">,
      I32EnumAttrCase<"MatrixFp4", 7, "matrix_fp4">]> {
  let cppNamespace = "::pipesched::pipe";
}

def Pipe_BlockPlace : I32EnumAttr<"BlockPlace", "where a block stands", [
      I32EnumAttrCase<"First", 0, "first">,
      I32EnumAttrCase<"Layer", 1, "layer">,
      I32EnumAttrCase<"Last", 2, "last">]> {
  let cppNamespace = "::pipesched::pipe";
}

def Pipe_WorkAttr : AttrDef<Pipe_Dialect, "Work"> {
  let mnemonic = "work";
  let summary = "FLOPs and bytes of a kernel in one phase";
  let description = [{
    For one microbatch, summed over the accelerators of the worker. The bytes of
    a `link`, `all_to_all` or `context` kernel are the payload of its
    collective.

    ```mlir
    module attributes {test.work = #pipe.work<4194304 flops, 12288 bytes>} {}
    ```

    Constraints:
    - `work_c1`: neither number is negative.
    - `work_c2`: not both are zero.
  }];
  let parameters = (ins "int64_t":$flops, "int64_t":$bytes);
  let assemblyFormat = "`<` $flops `flops` `,` $bytes `bytes` `>`";
  let genVerifyDecl = 1;
}

def Pipe_ExpertsAttr : AttrDef<Pipe_Dialect, "Experts"> {
  let mnemonic = "experts";
  let summary = "the experts of a block";
  let description = [{
    A router sends each token to `per_token` of `count` experts, which makes
    `rows` rows in a microbatch. All experts together have `parameters`, and
    their rows take `activation_bytes` and `weight_grad_bytes`; each number is a
    part of the block's. Experts form `groups` of equal size, and the experts of
    a token are in at most `groups_per_token` of them. `wide_activation_bytes`
    and `wide_weight_grad_bytes` are the parts that are as wide as the model;
    ranks that divide the widths of an expert hold all of them.

    ```mlir
    module attributes {test.experts = #pipe.experts<count = 8, per_token = 2,
        rows = 32, parameters = 400, activation_bytes = 96,
        weight_grad_bytes = 64, groups = 4, groups_per_token = 2>} {}
    ```

    Constraints:
    - `experts_c1`: sizes are above 0, bytes and parameters are not negative,
      and no part is more than all.
    - `experts_c2`: `per_token` is at most `count`, and `groups_per_token` at
      most `groups`, which divides `count`.
  }];
  let parameters = (ins "int64_t":$count, "int64_t":$per_token,
      "int64_t":$rows, "int64_t":$parameters, "int64_t":$activation_bytes,
      "int64_t":$weight_grad_bytes,
      DefaultValuedParameter<"int64_t", "1">:$groups,
      DefaultValuedParameter<"int64_t", "1">:$groups_per_token,
      DefaultValuedParameter<"int64_t", "0">:$wide_activation_bytes,
      DefaultValuedParameter<"int64_t", "0">:$wide_weight_grad_bytes);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static ExpertsAttr get(::mlir::MLIRContext *context,
                           const ::pipesched::ExpertFacts &facts);
    ::pipesched::ExpertFacts toFacts() const;
  }];
}

def Pipe_AttentionAttr : AttrDef<Pipe_Dialect, "Attention"> {
  let mnemonic = "attention";
  let summary = "attributes that affect the rate of an attention kernel";
  let description = [{
    The kernel is one for which `#pipe.worker_spec` can have rates: "flash-2",
    "flash-3" or "cudnn". Heads of queries and keys have `head_size` elements,
    and each sequence has `sequence` tokens. `masked_flops` are the FLOPs of the
    forward for scores that the causal mask hides; the kernel skips them, so its
    work does not include them, but the FLOPs of a model do.

    ```mlir
    module attributes {test.attention = #pipe.attention<kernel = "flash-2",
        head_size = 128, sequence = 8192, masked_flops = 500>} {}
    ```

    Constraints:
    - `attention_c1`: the kernel is one of the three names.
    - `attention_c2`: head size and sequence are above 0, the masked FLOPs not
      negative.
  }];
  let parameters = (ins "::mlir::StringAttr":$kernel, "int64_t":$head_size,
      "int64_t":$sequence,
      DefaultValuedParameter<"int64_t", "0">:$masked_flops);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static AttentionAttr get(::mlir::MLIRContext *context,
                             const ::pipesched::AttentionShape &shape);
    ::pipesched::AttentionShape toFacts() const;
  }];
}

//===----------------------------------------------------------------------===//
// Ops of models
//===----------------------------------------------------------------------===//

defvar Pipe_Size = ConfinedAttr<I64Attr, [IntNonNegative]>;
defvar Pipe_PositiveSize = ConfinedAttr<I64Attr, [IntPositive]>;

def Pipe_ModelOp : Pipe_Op<"model", [
    IsolatedFromAbove, NoTerminator, SingleBlock, Symbol,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getDefaultDialect"]>]> {
  let summary = "the trained model, cut into blocks, in facts only";
  let description = [{
    The blocks of the model in their order, with the work of one microbatch of
    `microbatch_size` sequences. `boundary_bytes` is the size of the activation
    between stages, and of its gradient. `state_bytes` are the bytes that each
    parameter takes as weight, as gradient and in the optimizer.

    `recompute` is the part that every backward recomputes before it starts;
    schedules with R cells need no such clause. `sequence` is the number of
    tokens in a sequence, and `vocabulary` the number of entries of the
    vocabulary, if they are known.

    ```mlir
    pipe.model @toy microbatch_size 2 boundary_bytes 4096
        state_bytes [2, 2, 12] sequence 1024 vocabulary 50000
        source "made up" {
      block "embedding" first parameters 1000 activation_bytes 16 {
        kernel "lookup" on vector F <0 flops, 8192 bytes>
            W <0 flops, 8192 bytes>
      }
      block "layer" x 4 parameters 500 active_parameters 300
          activation_bytes 9000 weight_grad_bytes 6000 recomputed_bytes 4096
          core_bytes 3000 {
        kernel "linear" on matrix F <1000 flops, 800 bytes>
            I <1000 flops, 800 bytes> W <1000 flops, 800 bytes>
        kernel "attention" on matrix core F <500 flops, 900 bytes>
            I <1100 flops, 1700 bytes>
        kernel "reduce" on link F <0 flops, 4096 bytes> I <0 flops, 4096 bytes>
      }
    }
    ```

    Constraints:
    - `model_c1`: microbatch size and sequence are positive; bytes are not
      negative.
    - `model_c2`: the body holds `pipe.block` and `pipe.repeat` ops, at least
      one.
    - `model_c3`: `first` blocks come before layers, layers before `last`
      blocks.
    - `model_c4`: the layers of all blocks add up within 64 bits.
    - `model_c5`: there are at most 65,536 blocks and repeats.
    - `model_c6`: the vocabulary is not negative.
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name,
    Pipe_PositiveSize:$microbatch_size,
    Pipe_Size:$boundary_bytes,
    ConfinedAttr<DenseI64ArrayAttr,
                 [DenseArrayCount<3>,
                  DenseArrayNonNegative<DenseI64ArrayAttr>]>:$state_bytes,
    DefaultValuedAttr<Pipe_RecomputeKind, "RecomputeKind::None">:$recompute,
    OptionalAttr<Pipe_PositiveSize>:$sequence,
    OptionalAttr<StrAttr>:$source,
    Pipe_VocabularyProp:$vocabulary
  );
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = [{
    $sym_name `microbatch_size` $microbatch_size
    `boundary_bytes` $boundary_bytes `state_bytes` $state_bytes
    (`recompute` $recompute^)? (`sequence` $sequence^)?
    (`vocabulary` $vocabulary^)? (`source` $source^)?
    attr-dict-with-keyword $bodyRegion
  }];
  let hasRegionVerifier = 1;
  let builders = [OpBuilder<(ins "const ::pipesched::ModelFacts &":$facts)>];
  let extraClassDeclaration = [{
    /// The inverse of the builder.
    ::pipesched::ModelFacts toFacts();
  }];
}

def Pipe_BlockOp : Pipe_Op<"block", [
    HasParent<"ModelOp">, NoTerminator, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getDefaultDialect"]>]> {
  let summary = "equal blocks of a model";
  let description = [{
    `x n` equal blocks. Layers are divided among stages in the order of the
    blocks; `first` and `last` blocks are on the first and last stage of each
    path. A token uses `active_parameters` of `parameters`, or all if they are
    not given. `tied_parameters` are copies of another block's parameters, which
    take memory like the others. Bytes are of one block and one microbatch:

    - `activation_bytes`: kept from F until the last phase that needs them;
    - `weight_grad_bytes`: held between a split I and its W, that is, the inputs
      of weights and the gradients of their outputs;
    - `recomputed_bytes`: kept from F under full recompute;
    - `core_bytes`: not kept from F under selective recompute, which recomputes
      the attention core;
    - `whole_bytes`: the parts of the first three that every accelerator of a
      worker holds in full; the rest is divided among the accelerators;
    - `state_bytes`: the bytes of the parameters as weights, as gradients and in
      the optimizer, if they differ from the model's bytes per parameter;
    - `message_bytes`: the bytes that a stage whose last block this is sends to
      the next one, and a stage whose first block this is sends to the previous
      one, if they differ from the model's `boundary_bytes`.

    `experts` describes the part of the block that belongs to a mixture of
    experts.

    `shard_bytes`: the stage of this block has a shard of the vocabulary, with
    its work in `S` and `T` of the kernels. They are the bytes kept from S to T
    and the bytes of three collectives: X, the last output on its way to all
    workers; Y, the values that all shards share; Z, the gradient of the last
    output.

    ```mlir
    pipe.model @one_layer microbatch_size 1 boundary_bytes 64
        state_bytes [2, 2, 12] {
      block "layer" x 2 parameters 16 activation_bytes 256
          weight_grad_bytes 192 recomputed_bytes 64 core_bytes 32 {
        kernel "linear" on matrix F <100 flops, 80 bytes>
            I <100 flops, 80 bytes> W <100 flops, 80 bytes>
      }
      block "uneven_layer" parameters 10 activation_bytes 256
          state_bytes [40, 40, 80] message_bytes [32, 64] {
        kernel "linear" on matrix F <100 flops, 80 bytes>
            I <100 flops, 80 bytes> W <100 flops, 80 bytes>
      }
      block "layer_and_shard" parameters 30 activation_bytes 256
          shard_bytes [96, 64, 32, 64] {
        kernel "linear" on matrix F <100 flops, 80 bytes>
        kernel "logits" on matrix S <60 flops, 40 bytes> T <120 flops, 80 bytes>
      }
      block "expert_layer" parameters 500 active_parameters 200
          activation_bytes 256 experts <count = 8, per_token = 2, rows = 32,
            parameters = 400, activation_bytes = 96, weight_grad_bytes = 0> {
        kernel "expert_mlp" on matrix routed weight_bytes 40
            F <100 flops, 80 bytes>
        kernel "send_rows" on all_to_all F <0 flops, 64 bytes>
      }
    }
    ```

    Constraints:
    - `block_c1`: at least one block; numbers are not negative.
    - `block_c2`: the body holds `pipe.kernel` ops only.
    - `block_c3`: recomputed bytes and core bytes are each a part of the
      activation bytes.
    - `block_c4`: active parameters are a part of the parameters, and tied
      parameters a part of the active ones.
    - `block_c5`: there are three whole numbers of bytes, each a part of the
      number that it belongs to.
    - `block_c6`: there are three state bytes and two message bytes, if any.
    - `block_c7`: parameters and bytes of the experts are each a part of the
      block's.
    - `block_c8`: a block with `routed` or `all_to_all` kernels has experts.
    - `block_c9`: shard bytes are not negative, and those of X are above 0 if
      any are; a block has them if and only if a kernel runs in S or T.
  }];
  let arguments = (ins
    StrAttr:$name,
    DefaultValuedAttr<Pipe_BlockPlace, "BlockPlace::Layer">:$place,
    DefaultValuedAttr<Pipe_PositiveSize, "1">:$count,
    Pipe_Size:$parameters,
    OptionalAttr<Pipe_Size>:$active_parameters,
    DefaultValuedAttr<Pipe_Size, "0">:$tied_parameters,
    Pipe_Size:$activation_bytes,
    DefaultValuedAttr<Pipe_Size, "0">:$weight_grad_bytes,
    DefaultValuedAttr<Pipe_Size, "0">:$recomputed_bytes,
    DefaultValuedAttr<Pipe_Size, "0">:$core_bytes,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr,
                 [DenseArrayCount<3>,
                  DenseArrayNonNegative<DenseI64ArrayAttr>]>>:$whole_bytes,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr,
                 [DenseArrayCount<3>,
                  DenseArrayNonNegative<DenseI64ArrayAttr>]>>:$state_bytes,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr,
                 [DenseArrayCount<2>,
                  DenseArrayNonNegative<DenseI64ArrayAttr>]>>:$message_bytes,
    OptionalAttr<Pipe_ExpertsAttr>:$experts,
    Pipe_ShardBytesProp:$shard_bytes
  );
  let regions = (region SizedRegion<1>:$bodyRegion);
  let assemblyFormat = [{
    $name ($place^)? (`x` $count^)? `parameters` $parameters
    (`active_parameters` $active_parameters^)?
    (`tied_parameters` $tied_parameters^)? `activation_bytes` $activation_bytes
    (`weight_grad_bytes` $weight_grad_bytes^)?
    (`recomputed_bytes` $recomputed_bytes^)? (`core_bytes` $core_bytes^)?
    (`whole_bytes` $whole_bytes^)? (`state_bytes` $state_bytes^)?
    (`message_bytes` $message_bytes^)? (`experts` $experts^)?
    (`shard_bytes` $shard_bytes^)?
    attr-dict-with-keyword $bodyRegion
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Pipe_RepeatOp : Pipe_Op<"repeat", [HasParent<"ModelOp">]> {
  let summary = "more layers like a block above";
  let description = [{
    Another run of layers that equal the closest block above with that name.
    Models whose kinds of layers alternate, such as five layers with a window
    and then one that sees all tokens, then list the kernels of each kind once.

    ```mlir
    pipe.model @in_turn microbatch_size 1 boundary_bytes 64
        state_bytes [2, 2, 12] {
      block "window_layer" x 5 parameters 16 activation_bytes 256 {
        kernel "attention" on matrix F <100 flops, 80 bytes>
      }
      block "full_layer" parameters 16 activation_bytes 256 {
        kernel "attention" on matrix F <900 flops, 80 bytes>
      }
      repeat "window_layer" x 5
      repeat "full_layer"
    }
    ```

    Constraints:
    - `repeat_c1`: at least one layer.
    - `repeat_c2`: there is a block of that name above, and it holds layers.
  }];
  let arguments = (ins
    StrAttr:$name,
    DefaultValuedAttr<Pipe_PositiveSize, "1">:$count
  );
  let assemblyFormat = "$name (`x` $count^)? attr-dict";
}

def Pipe_KernelOp : Pipe_Op<"kernel", [HasParent<"BlockOp">]> {
  let summary = "one kernel of a block";
  let description = [{
    A roofline point per phase in which the kernel runs. A `link` kernel is an
    all-reduce among the accelerators of a worker, and free if there is only
    one. A `matrix_fp8` or `matrix_fp4` kernel runs on the matrix engine at its
    rate for 8-bit or 4-bit floats. R runs F again of every kernel that is not
    `kept`, or under selective recompute F of the `core` kernels. Every
    accelerator of a worker runs all of a `whole` kernel, not only its part. A
    kernel `x n` runs n times in each phase.

    A `routed` kernel works on the rows of experts: if experts are divided among
    ranks, it runs on the rank that has the expert, and a `routed` kernel on
    `link` is not needed. `weight_bytes` are the part of its bytes that are
    weights of experts with rows. An `all_to_all` kernel brings rows to the
    ranks of their experts, or back. A `context` kernel brings the keys and
    values of a sequence to all ranks that divide it; in I half of its bytes are
    their gradients. It overlaps with the `core` kernels of its block. Both are
    free if experts, or sequences, are not divided.

    A kernel `on_parameters` does the same work for every rank that divides a
    sequence, since each has all parameters: with t tensor-parallel accelerators
    each runs a t-th of it, or with e ranks that divide experts, a `routed` one
    an e-th.

    The host launches `launches` kernels for one run (default 1); with
    `weight_bytes`, for each expert of a rank. If a kernel `synchronizes`, the
    host waits for the end of its F before it launches more. An `exchanged`
    kernel sorts rows at the ranks of their experts, and is free if experts are
    not divided.

    The work of a kernel that `sees n tokens` grows with pairs of tokens: each
    token of a sequence sees at most n tokens, the whole sequence or a window.
    So later slices of a sequence have more work. All other work grows with
    tokens.

    An `attention` kernel runs on the matrix engine at the rate that the system
    has for its `shape`: a kernel such as FlashAttention-2, the size of heads
    and the length of sequences.

    In a block with a shard of the vocabulary kernels may run in `S` and `T`.
    Kernels may also state their work in `B`, in `R`, and in `O` once per step.
    If no kernel of a block does so, B runs I and W, R runs F as above, and O
    reads and writes the weights, gradients and state of the parameters.

    ```mlir
    pipe.model @kernels microbatch_size 1 boundary_bytes 64
        state_bytes [2, 2, 12] {
      block "layer" parameters 16 activation_bytes 256 {
        kernel "linear" on matrix kept F <100 flops, 80 bytes>
            I <100 flops, 80 bytes> W <100 flops, 80 bytes>
        kernel "softmax" on vector core F <50 flops, 160 bytes>
            I <70 flops, 240 bytes>
        kernel "norm" on vector whole F <90 flops, 64 bytes>
        kernel "narrow" on matrix_fp8 F <100 flops, 80 bytes>
        kernel "add_gradients" on vector on_parameters W <9 flops, 90 bytes>
        kernel "flash" on attention shape <kernel = "flash-2", head_size = 128,
          sequence = 1024, masked_flops = 45> core sees 1024 tokens
            F <50 flops, 160 bytes> I <125 flops, 240 bytes>
      }
      block "whole_backward" parameters 16 activation_bytes 256 {
        kernel "linear" x 3 on matrix F <100 flops, 80 bytes>
            B <200 flops, 160 bytes>
        kernel "norm" on vector F <40 flops, 64 bytes> R <40 flops, 64 bytes>
        kernel "step" on vector O <48 flops, 320 bytes>
      }
      block "divided" parameters 16 activation_bytes 256 experts <count = 4,
          per_token = 1, rows = 8, parameters = 12, activation_bytes = 64,
          weight_grad_bytes = 0> {
        kernel "pass_on" on context core F <0 flops, 32 bytes>
            I <0 flops, 64 bytes>
        kernel "attention" on matrix core F <50 flops, 160 bytes>
        kernel "send_rows" on all_to_all F <0 flops, 64 bytes>
        kernel "route" on vector launches 31 synchronizes
            F <50 flops, 160 bytes>
        kernel "sort" on vector routed exchanged F <0 flops, 128 bytes>
        kernel "expert" on matrix routed weight_bytes 24 F <99 flops, 80 bytes>
        kernel "reduce" on link routed F <0 flops, 64 bytes>
      }
    }
    ```

    Constraints:
    - `kernel_c1`: it runs in at least one phase, and at least once.
    - `kernel_c2`: a `link`, `all_to_all` or `context` kernel has bytes and no
      FLOPs.
    - `kernel_c3`: it is not both `kept` and `core`.
    - `kernel_c4`: such a kernel is not `whole`.
    - `kernel_c5`: a kernel with `weight_bytes` is `routed`, and has at least as
      many bytes in each of its phases.
    - `kernel_c6`: a kernel on `attention` has a `shape`, and no other has one.
    - `kernel_c7`: a kernel is not both `whole` and `on_parameters`, and none on
      `link`, `all_to_all` or `context` is the latter.
    - `kernel_c8`: an `exchanged` kernel is `routed`.
    - `kernel_c9`: a kernel sees no negative number of tokens, and not more than
      a sequence of its model has, if that is known.
  }];
  let arguments = (ins
    StrAttr:$name,
    DefaultValuedAttr<Pipe_PositiveSize, "1">:$count,
    Pipe_KernelEngine:$engine,
    OptionalAttr<Pipe_AttentionAttr>:$shape,
    UnitAttr:$kept,
    UnitAttr:$core,
    UnitAttr:$whole,
    UnitAttr:$on_parameters,
    UnitAttr:$routed,
    DefaultValuedAttr<Pipe_Size, "0">:$weight_bytes,
    DefaultValuedAttr<Pipe_PositiveSize, "1">:$launches,
    UnitAttr:$synchronizes,
    UnitAttr:$exchanged,
    OptionalAttr<Pipe_WorkAttr>:$forward,
    OptionalAttr<Pipe_WorkAttr>:$input_grad,
    OptionalAttr<Pipe_WorkAttr>:$weight_grad,
    OptionalAttr<Pipe_WorkAttr>:$backward,
    OptionalAttr<Pipe_WorkAttr>:$recompute,
    OptionalAttr<Pipe_WorkAttr>:$optimizer,
    Pipe_SeenProp:$seen,
    Pipe_ShardWorkProp:$logits,
    Pipe_ShardWorkProp:$logits_grad
  );
  let assemblyFormat = [{
    $name (`x` $count^)? `on` $engine (`shape` $shape^)? (`kept` $kept^)?
    (`core` $core^)? (`whole` $whole^)?
    (`on_parameters` $on_parameters^)? (`routed` $routed^)?
    (`weight_bytes` $weight_bytes^)? (`launches` $launches^)?
    (`synchronizes` $synchronizes^)? (`exchanged` $exchanged^)?
    (`sees` $seen^ `tokens`)?
    (`F` $forward^)? (`I` $input_grad^)?
    (`W` $weight_grad^)? (`B` $backward^)? (`R` $recompute^)?
    (`O` $optimizer^)? (`S` $logits^)? (`T` $logits_grad^)? attr-dict
  }];
  let hasVerifier = 1;
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPEMODELOPS_TD
