//===- CostPasses.td - Passes that attach costs ------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that attach models, systems and profiles, from which times are
// computed.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_COSTPASSES_TD
#define PIPESCHED_TRANSFORMS_COSTPASSES_TD

include "PipeSched/Transforms/PassBase.td"

include "PipeSched/Transforms/DeploymentOptions.td"

def PipeAttachModelPass : Pipe_ModulePass<"pipe-attach-model"> {
  let summary = "Attach a model to schedules and programs";
  let description = [{
    Expands an architecture to a `pipe.model` with the kernels of one
    microbatch, and names this model in the schedules and programs. If the
    module already has an equal model, that one is used. `name` is a description
    that ships with the library, `file` the path of another description. If
    paths have weights, these divide the layers and are replaced by blocks.

    A file is in PipeSched's format, a `config.json` of Hugging Face or an
    application of Calculon; the pass recognizes it by its fields. For the
    latter two, remarks list assumptions and omissions. `sequence` overrides the
    sequence length of the file. A `config.json` gives only the longest
    sequence; without `sequence`, the pass uses that length, but at most 8192
    tokens.

    A microbatch has `microbatch-size` sequences. Without this option, the pass
    divides the global batch (of the option, else of the description) by the
    microbatches of the schedule and by the data-parallel pipelines of the
    attached system. So attach the system first.

    With `precision=fp8` and `nvfp4` linear layers run at the system's rate for
    8-bit and 4-bit floats, except the head and the router; attention keeps its
    precision. With `sequence-parallel=false` every accelerator of a worker
    computes norms and dropout on the whole residual stream and keeps all of it.

    ```mlir
    pipe.schedule @s workers 2 microbatches 8 {
      path on [0, 1]
    }
    ```

    After `pipe-attach-model{name=toy}`:

    ```mlir
    pipe.model @toy microbatch_size 2 boundary_bytes 4000
        state_bytes [2, 2, 12] sequence 100
        source "A made-up model with round numbers" {
      block "layer" x 8 parameters 1240 activation_bytes 65600
          weight_grad_bytes 80000 recomputed_bytes 4000 core_bytes 1600 {
        kernel "attn_fork" on vector I <4000 flops, 12000 bytes>
        kernel "ln1" on vector F <18000 flops, 8000 bytes>
            I <28000 flops, 8000 bytes> W <14000 flops, 8000 bytes>
        kernel "qkv" on matrix F <120000 flops, 16600 bytes>
            I <120000 flops, 16600 bytes> W <120000 flops, 16600 bytes>
        kernel "context_exchange" on context core sees 100 tokens
            F <0 flops, 8000 bytes>
            I <0 flops, 16000 bytes>
        kernel "attention" on matrix core sees 100 tokens
            F <800000 flops, 17600 bytes> I <2000000 flops, 33600 bytes>
        kernel "proj" on matrix F <40000 flops, 8200 bytes>
            I <40000 flops, 8200 bytes> W <40000 flops, 8200 bytes>
        kernel "attention_reduce" on link F <0 flops, 4000 bytes>
            I <0 flops, 4000 bytes>
        kernel "drop1" on vector F <2000 flops, 12000 bytes>
        kernel "mlp_fork" on vector I <4000 flops, 12000 bytes>
        kernel "ln2" on vector F <18000 flops, 8000 bytes>
            I <28000 flops, 8000 bytes> W <14000 flops, 8000 bytes>
        kernel "mlp1" on matrix F <160000 flops, 20800 bytes>
            I <160000 flops, 20800 bytes> W <160000 flops, 20800 bytes>
        kernel "gelu" on vector F <64000 flops, 32000 bytes>
            I <104000 flops, 48000 bytes>
        kernel "mlp2" on matrix F <160000 flops, 20800 bytes>
            I <160000 flops, 20800 bytes> W <160000 flops, 20800 bytes>
        kernel "mlp_reduce" on link F <0 flops, 4000 bytes>
            I <0 flops, 4000 bytes>
        kernel "drop2" on vector F <2000 flops, 12000 bytes>
      }
    }
    pipe.schedule @s workers 2 microbatches 8 model @toy {
      path on [0, 1]
    }
    ```

    Errors: not exactly one of `name` and `file`; an unknown name, with the
    closest; a file that cannot be read or has a bad field, naming it; not three
    parameter bytes, or negative ones; a kind of model that has no cost model; a
    global batch that the microbatches do not divide, or layers that the weights
    of a path do not divide, with the nearest numbers that they do; sizes that
    overflow; no schedule or program.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"name", "name", "std::string", /*default=*/"",
           "Name of a description that ships with the library">,
    Option<"file", "file", "std::string", /*default=*/"",
           "Path of a description">,
    Option<"microbatchSize", "microbatch-size", "int64_t", /*default=*/"0",
           "Sequences per microbatch; 0: the global batch divided">,
    Option<"globalBatch", "global-batch", "int64_t", /*default=*/"0",
           "Sequences per step; 0: those of the description">,
    Option<"sequence", "sequence", "int64_t", /*default=*/"0",
           "Tokens of a sequence; 0: those of the description">,
    Option<"boundaryBytes", "boundary-bytes", "int64_t", /*default=*/"-1",
           "Bytes of a message between stages; -1: those of the activation">,
    ListOption<"parameterBytes", "parameter-bytes", "int64_t",
               "Bytes of a parameter's weight, gradient and optimizer state; "
               "none: those of the description">,
    Option<"recompute", "recompute", "::pipesched::Recompute",
           /*default=*/"::pipesched::Recompute::None",
           "What every backward computes again first",
           [{::pipesched::enumOptionValues<::pipesched::Recompute>()}]>,
    Option<"precision", "precision", "::pipesched::Precision",
           /*default=*/"::pipesched::Precision::BF16",
           "Floats of the linear layers",
           [{::pipesched::enumOptionValues<::pipesched::Precision>()}]>,
    Option<"sequenceParallel", "sequence-parallel", "bool", /*default=*/"true",
           "The accelerators of a worker divide the residual stream">,
    Option<"attention", "attention", "::pipesched::AttentionKernels",
           /*default=*/"::pipesched::AttentionKernels::AsDescribed",
           "Kernels of the attention and what stands around it",
           [{::pipesched::enumOptionValues<::pipesched::AttentionKernels>()}]>
  ];
}

def PipeAttachSystemPass : Pipe_ModulePass<"pipe-attach-system"> {
  let summary = "Attach a target system to the module";
  let description = [{
    Sets the target system of the module. `name` is a description that ships
    with the library, `file` the path of another description, in PipeSched's
    format or Calculon's; for the latter, remarks list omissions. Its rates are
    measured under the load of a training if it has such rates;
    `rates=data-sheet` reads the peaks (docs/CostModel.md, "Rates under load").
    `accelerators` sets the number of devices that share the work of a worker.
    This is the degree of tensor parallelism, and the bandwidth of the network
    grows with it. A system that the module already has is replaced.

    There are `data-parallel` equal pipelines, and the schedule is one of them:
    G reduces among its workers and their peers in the other pipelines.
    `sharding` names the state that the pipelines divide among them: nothing,
    the optimizer's state, gradients too, or weights as well, gathered once per
    step or for each use (docs/CostModel.md, "Sharding"). `rank-order` says
    which ranks are neighbours on a node, the ranks of one pipeline or the
    peers; it matters only if the system gives the size of its nodes
    (docs/CostModel.md, "A training step").

    `context-parallel` of the accelerators of a worker divide a sequence;
    accelerators / context-parallel is the degree of tensor parallelism. The
    accelerators that hold a stage in all pipelines form groups of
    `expert-parallel` consecutive ones, each of which divides the experts;
    `expert-balance` is the rows of the fullest of them divided by the mean
    (docs/CostModel.md, "Expert parallelism", "Context parallelism").

    ```mlir
    module {}
    ```

    After `pipe-attach-system{name=toy}`:

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
        matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 100000000000>,
        memory = <bytes_per_s = 100000000000>, memory_bytes = 10000000000,
        host = <bytes_per_s = 20000000000>,
        source = "A made-up system with round numbers">,
      "network" = #pipe.network_spec<bytes_per_s = 10000000000,
        latency_ps = 1000000>>} {}
    ```

    After `pipe-attach-system{name=toy data-parallel=4 sharding=optimizer}`:

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
        matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 100000000000>,
        memory = <bytes_per_s = 100000000000>, memory_bytes = 10000000000,
        host = <bytes_per_s = 20000000000>,
        data_parallel = 4, sharding = "optimizer",
        source = "A made-up system with round numbers">,
      "network" = #pipe.network_spec<bytes_per_s = 10000000000,
        latency_ps = 1000000>>} {}
    ```

    Errors: not exactly one of `name` and `file`; an unknown name, with the
    closest; a file that cannot be read or has a bad field, naming it; several
    accelerators without a link; no or too many pipelines; degrees that do not
    divide, with the nearest that do; an expert balance below 1 or above 1000.
  }];
  let dependentDialects = ["::mlir::DLTIDialect",
                           "::pipesched::pipe::PipeDialect"];
  let options = [
    Option<"name", "name", "std::string", /*default=*/"",
           "Name of a description that ships with the library">,
    Option<"file", "file", "std::string", /*default=*/"",
           "Path of a description">,
    Option<"rates", "rates", "::pipesched::Rates",
           /*default=*/"::pipesched::Rates::Auto",
           "Those under load, those of data sheets, or those under load where "
           "the description has them",
           [{::pipesched::enumOptionValues<::pipesched::Rates>()}]>,
    Option<"accelerators", "accelerators", "int64_t", /*default=*/"0",
           "Devices of a worker; 0: those of the description">
  ] # DeploymentOptions;
}

def PipeAttachProfilePass : Pipe_ModulePass<"pipe-attach-profile"> {
  let summary = "Attach measured times to schedules and programs";
  let description = [{
    Sets the profile of the schedules and programs, in the notation of
    `#pipe.profile`. `times` is a text in this notation; `file` is the path of a
    JSON object with the same names, and with the times in quotes. A profile
    that is already there is replaced.

    ```mlir
    pipe.schedule @s workers 2 microbatches 8 {
      path on [0, 1]
    }
    ```

    After `pipe-attach-profile{times="F=[18ms, 19.5ms], B=27423us"}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 8
        profile <"F=[18ms,19.5ms],B=27.423ms"> {
      path on [0, 1]
    }
    ```

    Errors: not exactly one of `times` and `file`; text that is not a profile,
    quoted; a file that cannot be read or has a bad field, with its name; no
    schedule or program.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"times", "times", "std::string", /*default=*/"",
           "Times of the phases of a stage, such as \"F=1ms,B=2ms\"">,
    Option<"file", "file", "std::string", /*default=*/"",
           "Path of a JSON file with times">
  ];
}

#endif // PIPESCHED_TRANSFORMS_COSTPASSES_TD
