//===- Passes.td - Passes on schedules ---------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each pass is an adapter around a function of lib/Schedule. Its description
// shows IR before and after the pass; a test checks these examples.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_PASSES_TD
#define PIPESCHED_TRANSFORMS_PASSES_TD

include "PipeSched/Transforms/CostPasses.td"
include "PipeSched/Transforms/OptimizePasses.td"
include "PipeSched/Transforms/PassBase.td"
include "PipeSched/Transforms/PlacementPasses.td"
include "PipeSched/Transforms/RowPasses.td"
include "PipeSched/Transforms/StagePasses.td"

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

def PipeCreatePass : Pipe_ModulePass<"pipe-create"> {
  let summary = "Add the problem of a schedule to the module";
  let description = [{
    The problem has one linear path through all workers and no rows.
    `pipe-place-*` and `pipe-schedule-*` passes start from it. `slices` is the
    number of slices into which each microbatch is divided along its tokens.

    ```mlir
    module {}
    ```

    After `pipe-create{name=small workers=4 microbatches=8}`:

    ```mlir
    pipe.schedule @small workers 4 microbatches 8 {
      path on [0, 1, 2, 3]
    }
    ```

    Errors: a number of workers, microbatches or slices out of range; a name
    that already exists in the module.
  }];
  let options = [
    Option<"name", "name", "std::string", /*default=*/"\"schedule\"",
           "Name of the schedule">,
    Option<"workers", "workers", "int64_t", /*default=*/"0",
           "Number of workers, from 1 to 65536; required">,
    Option<"microbatches", "microbatches", "int64_t", /*default=*/"0",
           "Number of microbatches, from 1 to 2147483647; required">,
    Option<"slices", "slices", "int64_t", /*default=*/"1",
           "Slices of each microbatch; all microbatches together may have "
           "2147483647">
  ];
}

//===----------------------------------------------------------------------===//
// Families
//
// The list of families generates a pass pipe-schedule-<family> for each
// (lib/Transforms/Generate/FamilyPass.cpp); docs/Schedules.md describes them.
//===----------------------------------------------------------------------===//

def PipeSchedulePass : Pipe_SchedulePass<"pipe-schedule"> {
  let summary = "Fill schedules with a family by name";
  let description = [{
    Does the same as `pipe-schedule-<family>`, with the family given by its name
    or an alias: `VPP`, `Interleaved1F1B` and `ScheduleInterleaved1F1B` all mean
    `interleaved-1f1b` (docs/Schedules.md lists the names). Case, `-` and `_` do
    not matter. `options` are the options of the family's own pass.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
    }
    ```

    After `pipe-schedule{family=VPP options=chunks=2,split-backward=true}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2
        family "interleaved-1f1b" {split_backward = true} gradient after W {
      path on [0, 1, 0, 1]
      worker 0 runs [0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1]
      worker 1 runs [1F0 1F1 3F0 3I0 3W0 3F1 3I1 3W1 1I0 1W0 1I1 1W1]
    }
    ```

    Errors: an unknown family, with the closest; an option that is not of the
    form `name=value`, that is unknown or that the family does not have; a value
    that an option does not take; as for the family's own pass.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"family", "family", "std::string", /*default=*/"",
           "Name of the family; required">,
    ListOption<"familyOptions", "options", "std::string",
               "Options of the family, name=value each">
  ];
}

//===----------------------------------------------------------------------===//
// Placements
//===----------------------------------------------------------------------===//

def PipePlaceLinearPass : Pipe_SchedulePass<"pipe-place-linear"> {
  let summary = "Place stage s on worker s";
  let description = [{
    Replaces the paths by a single path with one stage per worker.

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
    Replaces the paths by one that goes down the workers and back up, so the
    first and the last stage are on the same worker (Qi 2024, arXiv 2405.15362).

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
    Replaces the paths by `pairs` pairs of paths: one path goes down the workers
    and the other back up the same workers (Chimera, Li and Hoefler 2021, arXiv
    2107.06925). Pair k starts at worker k * D / pairs. Each path holds the
    whole model, so blocks are replicated. `assign` deals microbatches to the
    paths in turn or in equal parts.

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
    microbatches that do not divide into equal parts.
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
    dependences and the slots of the cells before it allow. It writes the idle
    slots and marks the schedule `aligned`. Idle slots that were there before do
    not count. Family, model and profile stay. Problems stay unchanged.

    In unit slots F, I, W, R, O and G take one slot, B takes two, a pair `a+b`
    the sum of its cells, and copies none. With other slots the clause `slots`
    of the schedule gives the lengths of its cells, and everything that reads
    its table uses these lengths:

    - `slots=blocks`: a phase of a stage takes one slot per block, B takes two.
      Blocks are the path's, or an even split of the layers of the model.
      Without a model, weights count instead; if a path has neither blocks nor
      weights, all its stages have equal length.
    - `slots=durations`: a cell takes as many slots as its duration spans, by
      profile or by model and system; an overlapped pair takes the slots of FB
      in the profile. `slot` is the time of one slot: durations are rounded to
      the nearest number of slots, at least one, with a remark. Without it, a
      slot is the longest time that divides all durations. The slots then equal
      those of a timeline with free messages under transport `delay`.

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
    `slot` without `slots=durations`, or that is not a time above 0; blocks that
    differ from the model's; durations that neither profile nor system give;
    more than 2^62 slots, or rows of more than 2^28 entries, where an idle entry
    counts at most 2^31 - 1 slots.
  }];
  let options = [Pipe_ScheduleOption, Pipe_SlotsOption, Pipe_SlotOption];
}

def PipeCompactPass : Pipe_SchedulePass<"pipe-compact"> {
  let summary = "Remove the idle slots from the rows";
  let description = [{
    The inverse of `pipe-align-slots`: removes the idle slots, so that a row is
    only an order of cells. Family, model, profile and the lengths of cells
    (`slots`) stay; `pipe-align-slots` returns to unit slots. Problems stay
    unchanged.

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

/// The option `messages` of pipe-verify and exec-verify.
def Pipe_MessagesOption
    : Option<"messages", "messages", "::pipesched::MessageSemantics",
             /*default=*/"::pipesched::MessageSemantics::Unbounded",
             "How senders and receivers wait for each other",
             [{::pipesched::enumOptionValues<
                 ::pipesched::MessageSemantics>()}]>;

/// The option `transport` of every pass that computes times.
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

def Pipe_RuntimeOption
    : Option<"runtime", "runtime", "::pipesched::Runtime",
             /*default=*/"::pipesched::Runtime::Table",
             "What executes the cells",
             [{::pipesched::enumOptionValues<::pipesched::Runtime>()}]>;

def PipeVerifyPass : Pipe_SchedulePass<"pipe-verify"> {
  let summary = "Prove schedules complete, free of deadlock, within memory";
  let description = [{
    Checks the rules that span several rows. For every microbatch that takes a
    path, every stage of the path runs F once and either B or both I and W once.
    Offloads are reloaded. Either all replicas of a stage have a G or none has.
    Blocks that several stages of a worker hold are stepped and reduced by the
    stage that owns them, after the gradients of all these stages. The rows
    together have no cycle of waits. In an `aligned` schedule each cell starts
    when everything that it waits for has ended. Changes nothing.

    `messages` states the guarantees of the message layer. One process per
    worker runs its row from front to back; its receives are where
    `receive-placement` puts them, as in `convert-pipe-to-exec`:

    - `unbounded`: a send never waits. A schedule whose rows have no cycle of
      waits finishes, wherever its receives are.
    - `fifo`: a send never waits either, but messages from one worker to another
      are received in the order in which they were sent (a channel without
      tags).
    - `rendezvous`: a send and its receive wait for each other; messages are not
      grouped (MPI_Ssend; NCCL without groups).
    - `batched`: sends and receives between two computes are issued together,
      and the row continues when all of them are complete (batch_isend_irecv; an
      NCCL group).
    - `pairs`: neither a send nor a receive holds the row; a compute waits for
      its inputs. The messages of two workers, both directions, happen in the
      order in which both issue them (isend and irecv of PyTorch over NCCL).

    `memory` is the budget of each worker:

    - a number: activations of one stage and microbatch, without a model. An
      activation that an R computes again counts from R on. One that is
      offloaded counts until its D ends, and again from its U on.
    - bytes (`80GiB`, `64.5GB`, `4096B`): parameters, their gradients, optimizer
      state and activations, as in the report; needs a model.
    - `system`: the same in bytes, where the budget is the memory of the
      attached system.

    The memory of a row depends only on its order, unless cells are offloaded or
    reloaded: copies overlap with the row. For such rows `memory-times` chooses
    the proof:

    - `any`: the budget holds for any times of cells, messages and copies. An
      offload counts until the row, or a reload, waits for it (`0d1`).
    - `given`: the budget holds at the durations by model, system and profile,
      or slots of 1 us, under `transport`; not where a copy takes longer.

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

    Errors: a violation of the rules above, at its row; a deadlock, with one
    note per wait of its cycle at the row that waits; a worker over `memory`, at
    the cell where it holds most, with the amount; text that is not a budget; a
    budget without the model or system that it needs; a schedule without rows;
    no schedule.
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
    Pipe_MemoryTimesOption,
    Pipe_TransportOption
  ];
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def ExecVerifyPass : Pass<"exec-verify", "::mlir::ModuleOp"> {
  let summary = "Prove programs free of deadlock and of early reads";
  let description = [{
    Checks that every `exec.program` finishes if one process per worker runs its
    instructions from front to back and senders and receivers wait as `messages`
    says (`pipe-verify` explains the values). This is stricter than timing a
    program, where sends and receives have queues separate from compute. Changes
    nothing.

    Whatever reads a program, this pass and timing too, refuses an instruction
    that does not wait for an input: a message, a reload, the result of a
    collective, or a cell of its worker. It may wait for it by another token or
    by the computes before it.

    Here both workers send before they receive, which `rendezvous` and `pairs`
    refuse:

    ```mlir
    exec.program @exchange {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %act1 = recv 0F1 from 0
        %f1 = compute 1F1 after %act1
      }
    }
    ```

    After `exec-verify{messages=batched}`:

    ```mlir
    exec.program @exchange {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %act1 = recv 0F1 from 0
        %f1 = compute 1F1 after %act1
      }
    }
    ```

    Errors: a deadlock, with one note per wait of its cycle at the instruction
    that waits; an instruction that does not wait for an input; no program.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
  let options = [Pipe_MessagesOption];
}

def ExecOrderMessagesPass : Pass<"exec-order-messages", "::mlir::ModuleOp"> {
  let summary = "Order messages so that calls which block do not deadlock";
  let description = [{
    Moves the sends and receives of each `exec.program`, so that it finishes if
    every call holds its process until the other side has come
    (`exec-verify{messages=rendezvous}`). Cells, copies and collectives keep
    their order. All workers follow one order of cells, each of which takes a
    slot, and of messages, which come right after the slot of their cell. Of the
    messages after one slot, first all whose lower worker is even.

    A process may wait longer for a message than if it received when it needs
    the message. Whatever has assigned buffers has to do it again, so run this
    pass before `exec-assign-buffers`.

    ```mlir
    exec.program @exchange {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %act1 = recv 0F1 from 0
        %f1 = compute 1F1 after %act1
      }
    }
    ```

    After `exec-order-messages, exec-verify{messages=rendezvous}`:

    ```mlir
    exec.program @exchange {
      worker 0 {
        %f0 = compute 0F0
        %s0 = send 0F0 to 1 after %f0
        %f1 = compute 0F1
        %s1 = send 0F1 to 1 after %f1
        %g0 = recv 1B0 from 1
        %b0 = compute 0B0 after %f0, %g0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %act1 = recv 0F1 from 0
        %b0 = compute 1B0 after %f0
        %sg0 = send 1B0 to 0 after %b0
        %f1 = compute 1F1 after %act1
      }
    }
    ```

    Errors: a program that finishes in no order of its messages, with the cycle
    of waits; one with buffers; no program.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
}

def ExecAnnotateTimelinePass
    : Pass<"exec-annotate-timeline", "::mlir::ModuleOp"> {
  let summary = "Write start and end times onto each instruction";
  let description = [{
    Times every `exec.program` and writes `exec.start_ps` and `exec.end_ps`, in
    picoseconds, onto its instructions. Both ends of a message start together:
    `send` ends when the send queue is free again, `recv` when the message has
    arrived. A `wait` takes no time and gets no attributes. No pass reads these
    attributes: they are for tests and readers. docs/CostModel.md describes
    `transport`, `forward-sends`, `runtime` and `disturbance`.

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
    that lack a time of the program; a disturbance that is none, or of a worker
    or stage that the program does not have.
  }];
  let dependentDialects = ["::pipesched::exec::ExecDialect"];
  let options = [Pipe_TransportOption, Pipe_ForwardSendsOption,
                 Pipe_RuntimeOption,
                 Option<"disturbance", "disturbance", "std::string", "",
                        "Slow workers and stages and jitter: "
                        "worker3=1.3,stage5=1.2,jitter=5%,seed=7">];
}

#endif // PIPESCHED_TRANSFORMS_PASSES_TD
