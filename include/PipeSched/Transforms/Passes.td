//===- Passes.td - Passes on schedules ---------------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each pass is an adapter around a function of lib/Schedule; its description
// shows IR before and after, which a test runs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PASSES_TD
#define PIPESCHED_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

class Pipe_ModulePass<string argument> : Pass<argument, "::mlir::ModuleOp"> {
  let dependentDialects = ["::pipesched::pipe::PipeDialect"];
}

def Pipe_ScheduleOption
    : Option<"schedule", "schedule", "std::string", /*default=*/"",
             "Name of the schedule to treat; all where there is none">;

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

def PipeCreatePass : Pipe_ModulePass<"pipe-create"> {
  let summary = "Add the problem of a schedule to the module";
  let description = [{
    One linear path through all workers, without rows: what a `pipe-place-*` or
    a `pipe-schedule-*` pass starts from.

    ```mlir
    module {}
    ```

    After `pipe-create{name=small workers=4 microbatches=8}`:

    ```mlir
    pipe.schedule @small workers 4 microbatches 8 {
      path on [0, 1, 2, 3]
    }
    ```

    Errors: a number of workers or microbatches out of range; a name that the
    module has already.
  }];
  let options = [
    Option<"name", "name", "std::string", /*default=*/"\"schedule\"",
           "Name of the schedule">,
    Option<"workers", "workers", "int64_t", /*default=*/"0",
           "Number of workers, from 1 to 65536; required">,
    Option<"microbatches", "microbatches", "int64_t", /*default=*/"0",
           "Number of microbatches, from 1 to 2147483647; required">
  ];
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

def PipePlaceLinearPass : Pipe_ModulePass<"pipe-place-linear"> {
  let summary = "Place stage s on worker s";
  let description = [{
    Replaces the paths by one with one stage per worker.

    ```mlir
    pipe.schedule @p workers 3 microbatches 6 {
      path on [2, 1, 0]
    }
    ```

    After `pipe-place-linear`:

    ```mlir
    pipe.schedule @p workers 3 microbatches 6 {
      path on [0, 1, 2]
    }
    ```

    Errors: a schedule that has rows; no schedule.
  }];
  let options = [Pipe_ScheduleOption];
}

def PipePlaceInterleavedPass : Pipe_ModulePass<"pipe-place-interleaved"> {
  let summary = "Place stage s on worker s mod D, several stages per worker";
  let description = [{
    Replaces the paths by one that goes through all workers `chunks` times
    (Narayanan 2021, arXiv 2104.04473).

    ```mlir
    pipe.schedule @p workers 3 microbatches 6 {
      path on [0, 1, 2]
    }
    ```

    After `pipe-place-interleaved{chunks=2}`:

    ```mlir
    pipe.schedule @p workers 3 microbatches 6 {
      path on [0, 1, 2, 0, 1, 2]
    }
    ```

    Errors: a schedule that has rows; no schedule; chunks below 1 or for more
    than 16777216 stages.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"chunks", "chunks", "int64_t", /*default=*/"2",
           "Stages per worker">
  ];
}

def PipePlaceVPass : Pipe_ModulePass<"pipe-place-v"> {
  let summary = "Place two stages per worker, down and up again";
  let description = [{
    Replaces the paths by one that goes down the workers and back up, so that
    first and last stage are on one worker (Qi 2024, arXiv 2405.15362).

    ```mlir
    pipe.schedule @p workers 3 microbatches 6 {
      path on [0, 1, 2]
    }
    ```

    After `pipe-place-v`:

    ```mlir
    pipe.schedule @p workers 3 microbatches 6 {
      path on [0, 1, 2, 2, 1, 0]
    }
    ```

    Errors: a schedule that has rows; no schedule.
  }];
  let options = [Pipe_ScheduleOption];
}

def PipePlaceWavePass : Pipe_ModulePass<"pipe-place-wave"> {
  let summary = "Place stages in waves, down and up several times";
  let description = [{
    Replaces the paths by one that goes down the workers and back up `waves`
    times (Hanayo, Liu 2023, arXiv 2308.15762).

    ```mlir
    pipe.schedule @p workers 2 microbatches 6 {
      path on [0, 1]
    }
    ```

    After `pipe-place-wave{waves=2}`:

    ```mlir
    pipe.schedule @p workers 2 microbatches 6 {
      path on [0, 1, 1, 0, 0, 1, 1, 0]
    }
    ```

    Errors: a schedule that has rows; no schedule; waves below 1 or for more
    than 16777216 stages.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"waves", "waves", "int64_t", /*default=*/"1",
           "Times down and up again">
  ];
}

def PipePlaceBidirectionalPass : Pipe_ModulePass<"pipe-place-bidirectional"> {
  let summary = "Place pairs of paths that mirror each other";
  let description = [{
    Replaces the paths by `pairs` pairs, one path down the workers and one back
    up the same workers (Chimera, Li and Hoefler 2021, arXiv 2107.06925). Pair k
    starts at worker k * D / pairs. Each path holds the whole model, so blocks
    are replicated. `assign` deals microbatches to the paths in turn or in equal
    parts.

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3]
    }
    ```

    After `pipe-place-bidirectional`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] takes [0:8:2]
      path on [3, 2, 1, 0] takes [1:8:2]
    }
    ```

    After `pipe-place-bidirectional{pairs=2 assign=halves}`:

    ```mlir
    pipe.schedule @p workers 4 microbatches 8 {
      path on [0, 1, 2, 3] takes [0:2]
      path on [3, 2, 1, 0] takes [2:4]
      path on [2, 3, 0, 1] takes [4:6]
      path on [1, 0, 3, 2] takes [6:8]
    }
    ```

    Errors: a schedule that has rows; no schedule; an odd number of workers;
    pairs that do not divide half of the workers; fewer microbatches than paths;
    equal parts that do not come out even.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"pairs", "pairs", "int64_t", /*default=*/"1", "Pairs of paths">,
    Option<"assign", "assign", "::pipesched::Assign",
           /*default=*/"::pipesched::Assign::Alternate",
           "How microbatches go to the paths",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::Assign::Alternate, "alternate",
                          "In turn"),
               clEnumValN(::pipesched::Assign::Halves, "halves",
                          "In equal parts"))}]>
  ];
}

//===----------------------------------------------------------------------===//
// Generators
//===----------------------------------------------------------------------===//

class Pipe_GeneratorPass<string argument> : Pipe_ModulePass<argument> {
  let options = [
    Pipe_ScheduleOption,
    Option<"splitBackward", "split-backward", "bool", /*default=*/"false",
           "Split each backward into I and, right behind it, W">,
    Option<"gradientAfter", "gradient-after", "::pipesched::GradientAfter",
           /*default=*/"::pipesched::GradientAfter::WeightGrad",
           "Which cell of a split backward sends the gradient upstream",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::GradientAfter::InputGrad, "I",
                          "The input gradient"),
               clEnumValN(::pipesched::GradientAfter::WeightGrad, "W",
                          "The weight gradient"))}]>
  ];
}

def PipeScheduleGPipePass : Pipe_GeneratorPass<"pipe-schedule-gpipe"> {
  let summary = "Fill schedules with all forwards, then all backwards";
  let description = [{
    GPipe (Huang 2019, arXiv 1811.06965). Fills every schedule without rows; all
    need one path that visits each worker once. Schedules with rows stay as they
    are.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule-gpipe`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-schedule-gpipe{split-backward=true}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3
        family "gpipe" {split_backward = true} gradient after W {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2]
      worker 1 runs [1F0 1F1 1F2 1I0 1W0 1I1 1W1 1I2 1W2]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^32 - 2 cells.
  }];
}

def PipeSchedule1F1BPass : Pipe_GeneratorPass<"pipe-schedule-1f1b"> {
  let summary = "Fill schedules with one forward, one backward in turn";
  let description = [{
    1F1B (PipeDream-flush; Narayanan 2021, arXiv 2104.04473): min(N, D - r)
    forwards on the r-th worker of the path, then one backward and one forward
    in turn, then the remaining backwards. Fills every schedule without rows;
    all need one path that visits each worker once. Schedules with rows stay as
    they are.

    ```mlir
    pipe.schedule @s workers 3 microbatches 4 {
      path on [0, 1, 2]
    }
    ```

    After `pipe-schedule-1f1b`:

    ```mlir
    pipe.schedule @s workers 3 microbatches 4 family "1f1b" {
      path on [0, 1, 2]
      worker 0 runs [0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3]
      worker 1 runs [1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3]
      worker 2 runs [2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3]
    }
    ```

    After `pipe-schedule-1f1b{split-backward=true gradient-after=I}`:

    ```mlir
    pipe.schedule @s workers 3 microbatches 4
        family "1f1b" {split_backward = true} {
      path on [0, 1, 2]
      worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 1F1 1I0 1W0 1F2 1I1 1W1 1F3 1I2 1W2 1I3 1W3]
      worker 2 runs [2F0 2I0 2W0 2F1 2I1 2W1 2F2 2I2 2W2 2F3 2I3 2W3]
    }
    ```

    Errors: no schedule without rows; a named schedule that has rows; another
    placement; more than 2^32 - 2 cells.
  }];
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

def PipeAlignSlotsPass : Pipe_ModulePass<"pipe-align-slots"> {
  let summary = "Put each cell at its slot, with idle slots between";
  let description = [{
    Moves each cell to the earliest slot that the order of its row, its
    dependences and the slots of the cells before it allow, writes the idle
    slots and says `aligned`. In unit slots F, I, W, R, O and G take one slot, B
    two, a pair `a+b` the sum of its cells, copies none. Idle slots that were
    there do not count. Family, model and profile stay. Problems are left alone.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "1f1b" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `pipe-align-slots`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "1f1b" aligned {
      path on [0, 1]
      worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
      worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
    }
    ```

    Errors: a missing forward; rows that deadlock, with the cycle; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"slots", "slots", "::pipesched::pipe::SlotMeasure",
           /*default=*/"::pipesched::pipe::SlotMeasure::Unit",
           "What a slot measures",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::pipe::SlotMeasure::Unit, "unit",
                          "One slot per phase, two for B"))}]>
  ];
}

def PipeCompactPass : Pipe_ModulePass<"pipe-compact"> {
  let summary = "Take the idle slots out of the rows";
  let description = [{
    The inverse of `pipe-align-slots`: rows become orders. Family, model and
    profile stay. Problems are left alone.

    ```mlir
    pipe.schedule @s workers 2 microbatches 1 aligned {
      path on [0, 1]
      worker 0 runs [0F0 _3 0B0]
      worker 1 runs [_ 1F0 1B0 _2]
    }
    ```

    After `pipe-compact`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 1 {
      path on [0, 1]
      worker 0 runs [0F0 0B0]
      worker 1 runs [1F0 1B0]
    }
    ```

    Errors: no schedule.
  }];
  let options = [Pipe_ScheduleOption];
}

def PipeVerifyPass : Pipe_ModulePass<"pipe-verify"> {
  let summary = "Prove schedules complete and free of deadlock";
  let description = [{
    Checks what a row alone cannot show: every stage of every path runs F once
    and either B or I and W once for every microbatch that takes it; offloads
    are reloaded; the rows together have no cycle of waits; in an `aligned`
    schedule each cell starts when what it waits for has ended. Changes nothing.

    `messages=unbounded` takes a message as sent without waiting for its
    receiver.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `pipe-verify`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    Errors: a finding of those above, at its row; a schedule without rows; no
    schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"messages", "messages", "::pipesched::pipe::MessageSemantics",
           /*default=*/"::pipesched::pipe::MessageSemantics::Unbounded",
           "How senders and receivers wait for each other",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::pipe::MessageSemantics::Unbounded,
                          "unbounded", "Sends never wait"))}]>
  ];
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def ExecAnnotateTimelinePass
    : Pass<"exec-annotate-timeline", "::mlir::ModuleOp"> {
  let summary = "Write onto each instruction when it starts and ends";
  let description = [{
    Times every `exec.program` and writes `exec.start_ps` and `exec.end_ps`, in
    picoseconds, onto its instructions. A message starts once: on `send` it ends
    when the send queue is free again, on `recv` when it has arrived. A `wait`
    takes no time and gets none. Nothing reads what this pass writes: it is for
    tests and for readers.

    ```mlir
    exec.program @two_stages profile <"F=3ps,send=2ps,comm=5ps"> {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
      }
    }
    ```

    After `exec-annotate-timeline`:

    ```mlir
    exec.program @two_stages profile <"F=3ps,send=2ps,comm=5ps"> {
      worker 0 {
        %f0 = compute 0F0 {exec.end_ps = 3 : i64, exec.start_ps = 0 : i64}
        %s0 = send 0F0 to 1 after %f0
            {exec.end_ps = 5 : i64, exec.start_ps = 3 : i64}
      }
      worker 1 {
        %act0 = recv 0F0 from 0
            {exec.end_ps = 10 : i64, exec.start_ps = 3 : i64}
        %f0 = compute 1F0 after %act0
            {exec.end_ps = 13 : i64, exec.start_ps = 10 : i64}
      }
    }
    ```

    Errors: no program; a deadlock, with one note per wait of its cycle; costs
    that do not price the program.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
  let options = [
    Option<"transport", "transport", "::pipesched::Transport",
           /*default=*/"::pipesched::Transport::Overlap",
           "How messages occupy workers",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::Transport::Overlap, "overlap",
                          "Send and receive queues beside compute"),
               clEnumValN(::pipesched::Transport::Delay, "delay",
                          "A delay, no queues"),
               clEnumValN(::pipesched::Transport::Blocking, "blocking",
                          "Sends and receives hold the worker"))}]>
  ];
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

def PipeAttachModelPass : Pipe_ModulePass<"pipe-attach-model"> {
  let summary = "Say which model schedules train";
  let description = [{
    Expands an architecture to a `pipe.model` with the kernels of one microbatch
    and names it in the schedules and programs. An equal model that is there
    already is used again. `name` is a description that ships with the library,
    `file` the path of another.

    A microbatch has `microbatch-size` sequences; without it, the global batch
    (of the option, else of the description) divided by the schedule's
    microbatches.

    ```mlir
    pipe.schedule @s workers 2 microbatches 8 {
      path on [0, 1]
    }
    ```

    After `pipe-attach-model{name=toy}`:

    ```mlir
    pipe.model @toy microbatch_size 2 boundary_bytes 4000
        state_bytes [2, 2, 12] source "A made-up model with round numbers" {
      block "layer" x 8 parameters 1240 activation_bytes 65600
          weight_grad_bytes 80000 recomputed_bytes 4000 {
        kernel "attn_fork" on vector I <4000 flops, 12000 bytes>
        kernel "ln1" on vector F <18000 flops, 8000 bytes>
            I <28000 flops, 8000 bytes> W <14000 flops, 8000 bytes>
        kernel "qkv" on matrix F <120000 flops, 16600 bytes>
            I <120000 flops, 16600 bytes> W <120000 flops, 16600 bytes>
        kernel "attention" on matrix F <800000 flops, 17600 bytes>
            I <2000000 flops, 33600 bytes>
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
    closest; a file that cannot be read or has a bad field, naming it; a global
    batch that the microbatches do not divide, with the nearest numbers that do;
    sizes that overflow; no schedule or program.
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
    Option<"boundaryBytes", "boundary-bytes", "int64_t", /*default=*/"-1",
           "Bytes of a message between stages; -1: those of the activation">,
    Option<"recompute", "recompute", "::pipesched::Recompute",
           /*default=*/"::pipesched::Recompute::None",
           "What every backward computes again first",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::Recompute::None, "none", "Nothing"),
               clEnumValN(::pipesched::Recompute::Selective, "selective",
                          "The core of the attention"),
               clEnumValN(::pipesched::Recompute::Full, "full",
                          "Every layer"))}]>,
    Option<"attention", "attention", "::pipesched::pipe::AttentionKernels",
           /*default=*/"::pipesched::pipe::AttentionKernels::AsDescribed",
           "Kernels of the attention and what stands around it",
           [{::llvm::cl::values(
               clEnumValN(::pipesched::pipe::AttentionKernels::AsDescribed,
                          "as-described", "Those of the description"),
               clEnumValN(::pipesched::pipe::AttentionKernels::Unfused,
                          "unfused", "One kernel per operation"),
               clEnumValN(::pipesched::pipe::AttentionKernels::Fused, "fused",
                          "FlashAttention and fused pointwise kernels"))}]>
  ];
}

def PipeAttachSystemPass : Pipe_ModulePass<"pipe-attach-system"> {
  let summary = "Say what hardware schedules run on";
  let description = [{
    Sets the target system of the module. `name` is a description that ships
    with the library, `file` the path of another. A system that is there is
    replaced.

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

    Errors: not exactly one of `name` and `file`; an unknown name, with the
    closest; a file that cannot be read or has a bad field, naming it.
  }];
  let dependentDialects = ["::mlir::DLTIDialect",
                           "::pipesched::pipe::PipeDialect"];
  let options = [
    Option<"name", "name", "std::string", /*default=*/"",
           "Name of a description that ships with the library">,
    Option<"file", "file", "std::string", /*default=*/"",
           "Path of a description">
  ];
}

def PipeAttachProfilePass : Pipe_ModulePass<"pipe-attach-profile"> {
  let summary = "Give schedules measured times";
  let description = [{
    Sets the profile of the schedules and programs, in the words of
    `#pipe.profile`. `times` is such a text, `file` the path of a JSON object
    with the same names and times in quotes. A profile that is there is
    replaced.

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

    Errors: not exactly one of `times` and `file`; text that is no profile,
    quoting it; a file that cannot be read or has a bad field, naming it; no
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

#endif // PIPESCHED_TRANSFORMS_PASSES_TD
