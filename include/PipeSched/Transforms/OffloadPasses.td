//===- OffloadPasses.td - Offload passes -------------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Activations in host memory. The rules are in Schedule/Offload.h and
// docs/Transforms.md.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_OFFLOADPASSES_TD
#define PIPESCHED_TRANSFORMS_OFFLOADPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def PipeAddOffloadPass : Pipe_SchedulePass<"pipe-add-offload"> {
  let summary = "Offload activations to host memory until their backward";
  let description = [{
    Puts a D behind forwards, which sends their activations to the host, and a U
    before their backwards, which brings them back (PipeOffload, Wan et al.
    2025, arXiv 2503.01328). Both run on copy queues, beside compute. D is
    issued directly behind its F, or behind the overlapped pair that its F is
    part of. U is issued so early that `ahead` compute cells run between it and
    its backward. No other cell moves, so an aligned schedule keeps its slots.
    The family is dropped. Problems are left alone.

    These options select the activations:

    - `stages`, `workers`, `microbatches`: only the activations of these, given
      as indices and ranges `begin:end` or `begin:end:step`, where `end` is
      excluded. A stage is a position on its path.
    - `amount=half`: on each worker the half that lives longest, in unit slots
      from F to B or W. Among activations that live equally long, every second
      one goes first.
    - `keep`: the number of selected activations that a worker may hold on the
      device. An F that finds fewer than this number is not offloaded.
    - Left out, with a remark, are activations that are already offloaded, that
      an R computes again, or that have fewer than `ahead` + 1 compute cells
      between F and backward: one cell hides D, the others hide U.

    `memory=N` limits each worker to N activations, including those being
    copied, however long cells and copies take: joins (`0d1`) hold compute back
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

    Errors: those of `pipe-verify`; a worker that holds more than `memory` even
    if every offload is awaited; indices out of range; no schedule.
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

#endif // PIPESCHED_TRANSFORMS_OFFLOADPASSES_TD
