//===- OptimizerPasses.td - Optimizer steps ----------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The end of a training step. The rules are in Schedule/OptimizerStep.h and
// docs/Transforms.md.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_OPTIMIZERPASSES_TD
#define PIPESCHED_TRANSFORMS_OPTIMIZERPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def PipeAddOptimizerPass : Pipe_SchedulePass<"pipe-add-optimizer"> {
  let summary = "Add the optimizer step, and all-reduces of gradients";
  let description = [{
    Appends an O to each row for every stage of its worker that owns blocks: of
    stages that hold the same ones, only the one that ends last in the model
    (docs/Dialects/RationalePipe.md, "A worker holds a block once"). If other
    workers hold these blocks on another path, a G before it reduces the
    gradients of the replicas (Chimera, Li & Hoefler 2021, arXiv 2107.06925,
    section 3.2). If the attached system has several data-parallel pipelines, or
    the profile has a time for G, every stage has peers and gets a G. The number
    at the end of a G or O is its path. An aligned schedule is aligned again.
    The family is dropped. Problems are left alone.

    `all-reduce` says where G stand:

    - `end`: behind all other cells, in model order.
    - `eager`: as soon as the weight gradients of the blocks are complete on all
      workers that hold them, by the slots of the unit alignment. The
      all-reduces run beside compute and fill the remaining bubbles.
    - `none`: nowhere. Something else keeps the replicas equal.

    Workers run the all-reduces that they share in the same order, so a schedule
    that is free of deadlock stays so. With `end` this holds under all
    `messages`; with `eager` it holds under those under which every schedule
    finishes (docs/Dialects/RationalePipe.md, "Four message semantics").

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

    Errors: those of `pipe-verify`; O or G cells in the rows; paths whose stages
    have no common measure below 2^63; cells whose number of slots is not known;
    in an aligned schedule also those of `pipe-align-slots`; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"allReduce", "all-reduce", "::pipesched::ReductionPlace",
           /*default=*/"::pipesched::ReductionPlace::End",
           "Where the gradient all-reduces of replicas stand",
           [{::pipesched::enumOptionValues<::pipesched::ReductionPlace>()}]>
  ];
}

#endif // PIPESCHED_TRANSFORMS_OPTIMIZERPASSES_TD
