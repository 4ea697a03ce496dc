//===- RowPasses.td - Passes that change rows --------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Backwards that are split, merged or recomputed, offloads, the end of a step,
// shards of a vocabulary and the order of microbatches.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_ROWPASSES_TD
#define PIPESCHED_TRANSFORMS_ROWPASSES_TD

include "PipeSched/Transforms/PassBase.td"

/// How a pass treats backwards that it cannot change.
class Pipe_RemainderOption<string name, string description>
    : Option<name, name, "::pipesched::Remainder",
             /*default=*/"::pipesched::Remainder::Keep", description,
             [{::pipesched::enumOptionValues<::pipesched::Remainder>()}]>;

def PipeSplitBackwardPass : Pipe_SchedulePass<"pipe-split-backward"> {
  let summary = "Split each backward into I and W";
  let description = [{
    Replaces each B by an I directly followed by a W. In an aligned schedule
    these take the slots of the B. Generators do the same with
    `split-backward=true`. Problems stay unchanged. The family stays; if it has
    the option `split_backward`, that is set.

    `gradient-after` says which of the two sends the gradient upstream. All
    split backwards of a schedule follow one rule. If some are split already,
    `gradient-after` must be their rule; `auto` takes it.

    A B that runs overlapped (`0F1+3B0`) stays whole, since PyTorch's
    OVERLAP_F_B and the profile's FB also overlap the whole B. With
    `overlapped=refuse` it is an error.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "1f1b" aligned {
      path on [0, 1]
      worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
      worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
    }
    ```

    After `pipe-split-backward`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2
        family "1f1b" {split_backward = true} gradient after W aligned {
      path on [0, 1]
      worker 0 runs [0F0 0F1 _2 0I0 0W0 _ 0I1 0W1]
      worker 1 runs [_ 1F0 1I0 1W0 1F1 1I1 1W1 _2]
    }
    ```

    Errors: split backwards that do not follow `gradient-after`; an overlapped B
    with `overlapped=refuse`; cells whose number of slots is not known; no
    schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"gradientAfter", "gradient-after",
           "::pipesched::pipe::SplitGradient",
           /*default=*/"::pipesched::pipe::SplitGradient::Auto",
           "Which cell of a split backward sends the gradient upstream",
           [{::pipesched::enumOptionValues<
               ::pipesched::pipe::SplitGradient>()}]>,
    Pipe_RemainderOption<"overlapped", "Backwards that run overlapped">
  ];
}

def PipeMergeBackwardPass : Pipe_SchedulePass<"pipe-merge-backward"> {
  let summary = "Merge each I with the W after it";
  let description = [{
    Replaces each I that its own W follows, apart from idle slots, by a B. This
    is the inverse of `pipe-split-backward`, and PyTorch merges its compute-only
    schedules in the same way. An I stays if it runs overlapped or if its W
    comes later, as in zero-bubble schedules; with `apart=refuse` that is an
    error. Problems stay unchanged. The family stays.

    A B sends the gradient at its end. Where I sent it before W, the previous
    stage may now wait longer. If an aligned schedule has no room for this wait,
    it is aligned again, as by `pipe-align-slots`. A schedule that is free of
    deadlock stays so.

    ```mlir
    pipe.schedule @s workers 2 microbatches 1 aligned {
      path on [0, 1]
      worker 0 runs [0F0 _2 0I0 0W0]
      worker 1 runs [_ 1F0 1I0 1W0 _]
    }
    ```

    After `pipe-merge-backward`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 1 aligned {
      path on [0, 1]
      worker 0 runs [0F0 _3 0B0]
      worker 1 runs [_ 1F0 1B0 _2]
    }
    ```

    Errors: an I that cannot be merged, with `apart=refuse`; cells whose number
    of slots is not known; in an aligned schedule also as for
    `pipe-align-slots`; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Pipe_RemainderOption<"apart", "Backwards whose W is not right behind I">
  ];
}

def PipeAddRecomputePass : Pipe_SchedulePass<"pipe-add-recompute"> {
  let summary = "Recompute activations before their backward";
  let description = [{
    Puts an R before each backward, B or I. F then keeps only the input of R,
    and R computes the activations again (Chen et al. 2016, arXiv 1604.06174).
    `kind` is the part that R runs again: every layer, or only the core of the
    attention (Korthikanti et al. 2022, arXiv 2205.05198); the schedule then has
    the clause `recompute selective`. The model has the costs of both kinds. A
    profile has a time for R; its default, if the kind is full, is the time of
    F.

    An R is directly before its backward, or before the overlapped pair that its
    backward is part of. It needs no gradient, so a worker can recompute while
    it waits for one. R cells that are already there stay, with a remark. An
    aligned schedule is aligned again. The family is dropped. Problems stay
    unchanged.

    These options select the backwards:

    - `stages`, `workers`, `microbatches`: only the backwards of these, given as
      indices and ranges `begin:end` or `begin:end:step`, where `end` is
      excluded. A stage is a position on its path.
    - `keep`: the number of whole activations that a worker may hold. An F that
      finds fewer than this number on its worker gets no R. With 1F1B these are
      the microbatches that Megatron-LM does not recompute because of its number
      of microbatches with partial activation checkpoints.
    - `skip-adjacent`: no R where it would directly follow its own F, apart from
      idle slots, since no memory is freed in between.

    With `ahead=N` an R may be further up the row, in slots in which its worker
    waits for a message, as long as at most N recomputed activations wait for
    their backward. This delays no cell in slots and costs the memory of N
    activations.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-add-recompute`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0R0 0B0 0R1 0B1 0R2 0B2]
      worker 1 runs [1F0 1F1 1F2 1R0 1B0 1R1 1B1 1R2 1B2]
    }
    ```

    After `pipe-add-recompute{kind=selective stages=0 keep=1 ahead=1}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 recompute selective {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0R1 0B0 0B1 0R2 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    Errors: cells that `pipe-verify` finds missing, or a cycle that it finds; R
    cells of the other kind; indices out of range; cells whose number of slots
    is not known; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"kind", "kind", "::pipesched::Recompute",
           /*default=*/"::pipesched::Recompute::Full", "What R runs again",
           [{::pipesched::someEnumOptionValues<
               ::pipesched::Recompute::Full,
               ::pipesched::Recompute::Selective>()}]>,
    ListOption<"stages", "stages", "std::string",
               "Stages to recompute; none: all">,
    ListOption<"workers", "workers", "std::string",
               "Workers to recompute on; none: all">,
    ListOption<"microbatches", "microbatches", "std::string",
               "Microbatches to recompute; none: all">,
    Option<"keep", "keep", "int64_t", /*default=*/"0",
           "Activations that a worker may hold whole">,
    Option<"skipAdjacent", "skip-adjacent", "bool", /*default=*/"false",
           "Leave out backwards that follow their own forward">,
    Option<"ahead", "ahead", "int64_t", /*default=*/"0",
           "Recomputed activations that may wait for their backward">
  ];
}

def PipeAddOffloadPass : Pipe_SchedulePass<"pipe-add-offload"> {
  let summary = "Offload activations to host memory until their backward";
  let description = [{
    Puts a D after forwards, which sends their activations to the host, and a U
    before their backwards, which brings them back (PipeOffload, Wan et al.
    2025, arXiv 2503.01328). Both run on copy queues, in parallel with compute.
    D is issued directly after its F, or after the overlapped pair that its F is
    part of. U is issued so early that `ahead` compute cells run between it and
    its backward. No other cell moves, so an aligned schedule keeps its slots.
    The family is dropped. Problems stay unchanged.

    These options select the activations:

    - `stages`, `workers`, `microbatches`: only the activations of these, given
      as indices and ranges `begin:end` or `begin:end:step`, where `end` is
      excluded. A stage is a position on its path.
    - `amount=half`: on each worker the half that lives longest, in unit slots
      from F to B or W. Among activations that live equally long, every second
      one is taken first.
    - `keep`: the number of selected activations that a worker may hold on the
      device. An F that finds fewer than this number is not offloaded.
    - Left out, with a remark, are activations that are already offloaded, that
      an R computes again, or that have fewer than `ahead` + 1 compute cells
      between F and backward: one cell hides D, the others hide U.

    `memory=N` limits each worker to N activations, including activations being
    copied, for any times of cells and copies: joins (`0d1`) hold compute back
    until an offload has made room. A row that has no room for such early
    reloads issues them later, at a half, a quarter, ... of `ahead`.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "gpipe" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-add-offload`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
      worker 0 runs [0F0 0D0 0F1 0D1 0U0 0F2 0D2 0U1 0B0 0U2 0B1 0B2]
      worker 1 runs [1F0 1D0 1F1 1D1 1U0 1F2 1D2 1U1 1B0 1U2 1B1 1B2]
    }
    ```

    After `pipe-add-offload{amount=half workers=0}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0D1 0F2 0D2 0U1 0B0 0U2 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-add-offload{memory=2}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 {
      path on [0, 1]
      worker 0 runs [0F0 0D0 0F1 0D1 0d0 0d1 0F2 0D2 0U0 0B0 0U1 0B1 0U2 0B2]
      worker 1 runs [1F0 1D0 1F1 1D1 1d0 1d1 1F2 1D2 1U0 1B0 1U1 1B1 1U2 1B2]
    }
    ```

    Errors: as for `pipe-verify`; a worker that holds more than `memory` even if
    every offload is awaited; indices out of range; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"amount", "amount", "::pipesched::OffloadAmount",
           /*default=*/"::pipesched::OffloadAmount::All",
           "How many of the activations go",
           [{::pipesched::enumOptionValues<::pipesched::OffloadAmount>()}]>,
    ListOption<"stages", "stages", "std::string",
               "Stages to offload; none: all">,
    ListOption<"workers", "workers", "std::string",
               "Workers to offload from; none: all">,
    ListOption<"microbatches", "microbatches", "std::string",
               "Microbatches to offload; none: all">,
    Option<"keep", "keep", "int64_t", /*default=*/"0",
           "Activations that may stay on the device of a worker">,
    Option<"ahead", "ahead", "int64_t", /*default=*/"1",
           "Compute cells between the issue of a reload and its backward">,
    Option<"memory", "memory", "int64_t", /*default=*/"0",
           "Activations that a worker may hold; 0: as many as come">
  ];
}

def PipeAddOptimizerPass : Pipe_SchedulePass<"pipe-add-optimizer"> {
  let summary = "Add the optimizer step, and all-reduces of gradients";
  let description = [{
    Appends an O to each row for every stage of its worker that owns blocks: if
    several stages hold the same ones, only the stage that ends last in the
    model (docs/Dialects/RationalePipe.md, "A worker holds a block once"). If
    other workers hold these blocks on another path, a G before it reduces the
    gradients of the replicas (Chimera, Li & Hoefler 2021, arXiv 2107.06925,
    section 3.2). If the attached system has several data-parallel pipelines, or
    the profile has a time for G, every stage has peers and gets a G. The number
    at the end of a G or O is its path. An aligned schedule is aligned again.
    The family is dropped. Problems stay unchanged.

    `all-reduce` is the place of the G cells:

    - `end`: after all other cells, in model order.
    - `eager`: as soon as the weight gradients of the blocks are complete on all
      workers that hold them, by the slots of the unit alignment. The
      all-reduces overlap with compute and fill the remaining bubbles.
    - `none`: nowhere. Something else keeps the replicas equal.

    Workers run the all-reduces that they share in the same order, so a schedule
    that is free of deadlock stays so. With `end` this holds under all
    `messages`; with `eager` only under `messages` with which every schedule
    finishes (docs/Dialects/RationalePipe.md, "Message semantics").

    ```mlir
    pipe.schedule @chimera workers 4 microbatches 4 {
      path on [0, 1, 2, 3] takes [0, 1]
      path on [3, 2, 1, 0] takes [2, 3]
      worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1]
      worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 1B1]
      worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 1B3]
      worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3]
    }
    ```

    After `pipe-add-optimizer`:

    ```mlir
    pipe.schedule @chimera workers 4 microbatches 4 {
      path on [0, 1, 2, 3] takes [0, 1]
      path on [3, 2, 1, 0] takes [2, 3]
      worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1 0G0 3G1 0O0 3O1]
      worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 1B1 1G0 2G1 1O0 2O1]
      worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 1B3 1G1 2G0 1O1 2O0]
      worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3 0G1 3G0 0O1 3O0]
    }
    ```

    After `pipe-add-optimizer{all-reduce=eager}`:

    ```mlir
    pipe.schedule @chimera workers 4 microbatches 4 {
      path on [0, 1, 2, 3] takes [0, 1]
      path on [3, 2, 1, 0] takes [2, 3]
      worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 3G1 0B0 0B1 0G0 3O1 0O0]
      worker 1 runs [1F0 2F2 1F1 2B2 2F3 1B0 2B3 2G1 1B1 1G0 2O1 1O0]
      worker 2 runs [1F2 2F0 1F3 2B0 2F1 1B2 2B1 2G0 1B3 1G1 2O0 1O1]
      worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 3G0 0B2 0B3 0G1 3O0 0O1]
    }
    ```

    One of several pipelines:

    ```mlir
    pipe.schedule @linear workers 2 microbatches 2
        profile <"F=1ms,B=2ms,G=3ms,O=1ms"> {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `pipe-add-optimizer`:

    ```mlir
    pipe.schedule @linear workers 2 microbatches 2
        profile <"F=1ms,B=2ms,O=1ms,G=3ms"> {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1 0G0 0O0]
      worker 1 runs [1F0 1B0 1F1 1B1 1G0 1O0]
    }
    ```

    Errors: as for `pipe-verify`; O or G cells in the rows; paths whose stages
    have no common measure below 2^63; cells whose number of slots is not known;
    in an aligned schedule also as for `pipe-align-slots`; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"allReduce", "all-reduce", "::pipesched::ReductionPlace",
           /*default=*/"::pipesched::ReductionPlace::End",
           "Where the gradient all-reduces of replicas stand",
           [{::pipesched::enumOptionValues<::pipesched::ReductionPlace>()}]>
  ];
}

def PipeSpreadVocabularyPass
    : Pipe_SchedulePass<"pipe-spread-vocabulary"> {
  let summary = "Spread the head of the model over the workers";
  let description = [{
    Gives every worker of a path a shard of the head, and so of the vocabulary
    (Yeung et al. 2024, arXiv 2411.05288): S computes its logits and T the
    gradients, X brings the output of the last stage to all workers, Y makes one
    softmax of the shards, and with `vocabulary=vocab-1` Z sums the gradient of
    that output. With `vocab-2` Y does that as well, and T may come later.

    The other cells keep their order, so that workers hold as many activations
    as before. S comes after the last forward of its microbatch, and T one step
    later or before the backward that waits for it. In unit slots each worker
    runs a step as soon as it can. A worker that has several stages of a path
    runs its shard by the last of them. Families that leave room for the steps
    (`vocab-1f1b`, `vocab-v-half`) wait less and hold more. The family of the
    schedule is dropped. Problems stay unchanged.

    With `embedding=true` each worker also looks up its rows of the embedding in
    E, A sums the lookups for the first stage, C brings the gradient of that sum
    to all workers, and V adds it to the gradients of the rows. E comes once the
    forward of the first stage two microbatches before has ended, so that its
    worker holds two outputs at most, and V once the next backward of the first
    stage has. They take no slot, and no other cell moves. A worker that has
    several stages of a path runs them by the first.

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 family "1f1b" {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0B0 0B1]
      worker 1 runs [1F0 1B0 1F1 1B1]
    }
    ```

    After `pipe-spread-vocabulary`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 2 {
      path on [0, 1]
      worker 0 runs [0F0 0X0 0F1 0X1 0S0 0Y0 0T0 0Z0 0B0 0S1 0Y1 0T1 0Z1 0B1]
      worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0 1F1 1X1 1S1 1Y1 1T1 1Z1 1B1]
    }
    ```

    Errors: as for `pipe-verify`; S, T, X, Y, Z, E, A, C or V cells in the rows;
    O or G cells, which would run before T; an aligned schedule; more than 2^28
    cells; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"vocabulary", "vocabulary", "::pipesched::VocabularyAlgorithm",
           /*default=*/"::pipesched::VocabularyAlgorithm::Vocab1",
           "How shards find the gradient of the last output",
           [{::pipesched::enumOptionValues<
               ::pipesched::VocabularyAlgorithm>()}]>,
    Option<"embedding", "embedding", "bool", /*default=*/"false",
           "Separate cells for the shards of the embedding">
  ];
}

def PipeOrderMicrobatchesPass
    : Pipe_SchedulePass<"pipe-order-microbatches"> {
  let summary = "Order unequal microbatches";
  let description = [{
    Gives the places of the rows to the microbatches in another order, on all
    workers alike. A microbatch is as long as its cells take by the profile,
    which has times by microbatch. `order` is the rule; with 1F1B, `short-ends`
    takes 0 to 2 % longer than the best of all orders, and `longest-first` 6 to
    9 %. `given` has the microbatches in the wanted order instead. On several
    paths each path keeps its microbatches. The family is dropped if the rows
    change. Problems stay unchanged.

    ```mlir
    pipe.schedule @s workers 2 microbatches 3 family "gpipe"
        profile <"B=2ms,microbatches.F=[3ms,1ms,2ms]"> {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0F2 0B0 0B1 0B2]
      worker 1 runs [1F0 1F1 1F2 1B0 1B1 1B2]
    }
    ```

    After `pipe-order-microbatches`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 3
        profile <"B=2ms,microbatches.F=[3ms,1ms,2ms]"> {
      path on [0, 1]
      worker 0 runs [0F2 0F0 0F1 0B2 0B0 0B1]
      worker 1 runs [1F2 1F0 1F1 1B2 1B0 1B1]
    }
    ```

    Errors: no times by microbatch, and no order; an order that does not have
    each microbatch once; a node that would run a microbatch that it does not
    take; as for costs; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"order", "order", "::pipesched::LengthOrder",
           /*default=*/"::pipesched::LengthOrder::ShortEnds",
           "How lengths decide the order",
           [{::pipesched::enumOptionValues<::pipesched::LengthOrder>()}]>,
    ListOption<"given", "given", "int64_t",
               "The microbatches in order; none: by length">
  ];
}

#endif // PIPESCHED_TRANSFORMS_ROWPASSES_TD
