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

include "PipeSched/Transforms/BackwardPasses.td"
include "PipeSched/Transforms/CostPasses.td"
include "PipeSched/Transforms/FamilyPasses.td"
include "PipeSched/Transforms/OffloadPasses.td"
include "PipeSched/Transforms/OptimizePasses.td"
include "PipeSched/Transforms/OptimizerPasses.td"
include "PipeSched/Transforms/PassBase.td"
include "PipeSched/Transforms/PlacementPasses.td"

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

def PipePlaceLinearPass : Pipe_SchedulePass<"pipe-place-linear"> {
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

def PipePlaceInterleavedPass : Pipe_SchedulePass<"pipe-place-interleaved"> {
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

def PipePlaceVPass : Pipe_SchedulePass<"pipe-place-v"> {
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

def PipePlaceWavePass : Pipe_SchedulePass<"pipe-place-wave"> {
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

def PipePlaceBidirectionalPass : Pipe_SchedulePass<"pipe-place-bidirectional"> {
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
           [{::pipesched::enumOptionValues<::pipesched::Assign>()}]>
  ];
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

def PipeAlignSlotsPass : Pipe_SchedulePass<"pipe-align-slots"> {
  let summary = "Put each cell at its slot, with idle slots between";
  let description = [{
    Moves each cell to the earliest slot that the order of its row, its
    dependences and the slots of the cells before it allow, writes the idle
    slots and says `aligned`. Idle slots that were there do not count. Family,
    model and profile stay. Problems are left alone.

    In unit slots F, I, W, R, O and G take one slot, B two, a pair `a+b` the sum
    of its cells, copies none. Otherwise the schedule says how long its cells
    are in a clause `slots`, which all that reads its table goes by:

    - `slots=blocks`: a phase of a stage takes one slot per block, B two. Blocks
      are those of the path, or the layers of the model by an even split;
      without a model, weights do as well, and all stages are alike where a path
      has neither.
    - `slots=durations`: a cell takes as many slots as its duration by profile,
      or model and system, has; a pair those of the profile's FB. `slot` is the
      time of one slot: durations are rounded to the nearest number, one at
      least, with a remark. Without it, a slot is the longest that divides all
      durations, so that free messages under transport `delay` give the slots as
      a timeline.

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

    By blocks, stages of unequal length:

    ```mlir
    pipe.schedule @uneven workers 2 microbatches 2 {
      path on [0, 1] blocks [2, 4]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `pipe-align-slots{slots=blocks}`:

    ```mlir
    pipe.schedule @uneven workers 2 microbatches 2 aligned slots <[2, 4]> {
      path on [0, 1] blocks [2, 4]
      worker 0 runs [0F0 0F1 _10 0B0 _8 0B1]
      worker 1 runs [_2 1F0 1B0 1F1 1B1 _4]
    }
    ```

    Errors: a missing forward; rows that deadlock, with the cycle; no schedule;
    `slot` without `slots=durations`, or no time above 0; blocks that are not
    those of the model, and durations that neither profile nor system give; more
    than 2^62 slots, or rows of more than 2^28 entries, an idle entry counting
    2^31 - 1 slots at most.
  }];
  let options = [Pipe_ScheduleOption, Pipe_SlotsOption, Pipe_SlotOption];
}

def PipeCompactPass : Pipe_SchedulePass<"pipe-compact"> {
  let summary = "Take the idle slots out of the rows";
  let description = [{
    The inverse of `pipe-align-slots`: rows become orders. Family, model,
    profile and the lengths of cells (`slots`) stay; `pipe-align-slots` goes
    back to unit slots. Problems are left alone.

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

/// Of pipe-verify and exec-verify.
def Pipe_MessagesOption
    : Option<"messages", "messages", "::pipesched::MessageSemantics",
             /*default=*/"::pipesched::MessageSemantics::Unbounded",
             "How senders and receivers wait for each other",
             [{::pipesched::enumOptionValues<
                 ::pipesched::MessageSemantics>()}]>;

/// Of everything that times.
def Pipe_TransportOption
    : Option<"transport", "transport", "::pipesched::Transport",
             /*default=*/"::pipesched::Transport::Overlap",
             "How messages occupy workers",
             [{::pipesched::enumOptionValues<::pipesched::Transport>()}]>;

def Pipe_ForwardSendsOption
    : Option<"forwardSends", "forward-sends", "::pipesched::ForwardSends",
             /*default=*/"::pipesched::ForwardSends::Async",
             "What the send of a forward does to a forward behind it",
             [{::pipesched::enumOptionValues<::pipesched::ForwardSends>()}]>;

def PipeVerifyPass : Pipe_SchedulePass<"pipe-verify"> {
  let summary = "Prove schedules complete, free of deadlock, within memory";
  let description = [{
    Checks what a row alone cannot show: every stage of every path runs F once
    and either B or I and W once for every microbatch that takes it; offloads
    are reloaded; of replicas all have a G or none has; the rows together have
    no cycle of waits; in an `aligned` schedule each cell starts when what it
    waits for has ended. Changes nothing.

    `messages` is what the message layer promises. A process per worker runs its
    row from front to back, with its receives where `receive-placement` puts
    them, as in `convert-pipe-to-exec`:

    - `unbounded`: a send never waits. A schedule whose rows have no cycle of
      waits finishes, wherever its receives stand.
    - `fifo`: nor here, but the messages from one worker to another are received
      in the order in which they were sent (a channel without tags).
    - `rendezvous`: a send and its receive wait for each other, one after the
      other (MPI_Ssend; NCCL without groups).
    - `batched`: sends and receives between two computes are issued together and
      the row goes on when all are complete (batch_isend_irecv; an NCCL group).
    - `pairs`: neither a send nor a receive holds the row, a compute waits for
      what it needs. The messages of two workers, both directions, happen in the
      order in which both issue them (isend and irecv of PyTorch over NCCL).

    `memory` is what each worker may hold:

    - a number: activations of one stage and microbatch, without a model. Those
      that an R brings back count from R on, those offloaded until their D ends
      and from their U on.
    - bytes (`80GiB`, `64.5GB`, `4096B`): parameters, their gradients and
      optimizer state, and activations, as the report has them; needs a model.
    - `system`: the same, within the memory of the attached system.

    The order of a row alone decides what it holds; only where cells are
    offloaded or reloaded does time, and so `transport`, model, system and
    profile, or one slot of 1 us.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `pipe-verify{memory=2}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    Errors: a finding of those above, at its row; a deadlock, with one note per
    wait of its cycle at the row that waits; a worker over `memory`, at the cell
    where it holds most, with what that is; a budget that is none, or without
    the model or system that it needs; a schedule without rows; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Pipe_MessagesOption,
    Option<"receivePlacement", "receive-placement",
           "::pipesched::ReceivePlacement",
           /*default=*/"::pipesched::ReceivePlacement::Arrival",
           "Where a receive stands among the instructions of its worker",
           [{::pipesched::enumOptionValues<::pipesched::ReceivePlacement>()}]>,
    Option<"memory", "memory", "std::string", /*default=*/"",
           "Budget of a worker: activations, bytes with a unit, or system">,
    Pipe_TransportOption
  ];
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def ExecVerifyPass : Pass<"exec-verify", "::mlir::ModuleOp"> {
  let summary = "Prove programs free of deadlock";
  let description = [{
    Checks that every `exec.program` finishes when one process per worker runs
    its instructions from front to back, by what `messages` promises about
    senders and receivers (`pipe-verify` says what each value means). This is
    stricter than timing a program, where sends and receives have queues of
    their own beside compute. Changes nothing.

    Here both workers send before they receive, which `rendezvous` and `pairs`
    refuse:

    ```mlir
    exec.program @exchange {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %b0 = compute 1B0
        %sg0 = send 1B0 to 0 after %b0
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
      }
    }
    ```

    After `exec-verify{messages=batched}`:

    ```mlir
    exec.program @exchange {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %b0 = compute 1B0
        %sg0 = send 1B0 to 0 after %b0
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
      }
    }
    ```

    Errors: a deadlock, with one note per wait of its cycle at the instruction
    that waits; no program.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
  let options = [Pipe_MessagesOption];
}

def ExecAnnotateTimelinePass
    : Pass<"exec-annotate-timeline", "::mlir::ModuleOp"> {
  let summary = "Write onto each instruction when it starts and ends";
  let description = [{
    Times every `exec.program` and writes `exec.start_ps` and `exec.end_ps`, in
    picoseconds, onto its instructions. A message starts once: on `send` it ends
    when the send queue is free again, on `recv` when it has arrived. A `wait`
    takes no time and gets none. Nothing reads what this pass writes: it is for
    tests and for readers. `transport` and `forward-sends` are described in
    docs/CostModel.md.

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
  let options = [Pipe_TransportOption, Pipe_ForwardSendsOption];
}

#endif // PIPESCHED_TRANSFORMS_PASSES_TD
