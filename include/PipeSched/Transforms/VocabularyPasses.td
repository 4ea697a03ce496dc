//===- VocabularyPasses.td - Shards of a vocabulary --------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass that spreads the head of the model over the workers.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_VOCABULARYPASSES_TD
#define PIPESCHED_TRANSFORMS_VOCABULARYPASSES_TD

include "PipeSched/Transforms/PassBase.td"

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
    as before. S stands behind the last forward of its microbatch, and T one
    step later or before the backward that waits for it. In unit slots each
    worker runs a step as soon as it can. A worker that has several stages of a
    path runs its shard by the last of them. Families that leave room for the
    steps (`vocab-1f1b`, `vocab-v-half`) wait less and hold more. The family of
    the schedule is dropped. Problems are left alone.

    With `embedding=true` each worker also looks up its rows of the embedding in
    E, A sums the lookups for the first stage, C brings the gradient of that sum
    to all workers, and V adds it to the gradients of the rows. E stands where
    the forward of the first stage two microbatches before has ended, so that
    its worker holds two outputs at most, and V where the next backward of the
    first stage has. They take no slot, and no other cell moves. A worker that
    has several stages of a path runs them by the first.

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

    Errors: those of `pipe-verify`; S, T, X, Y, Z, E, A, C or V cells in the
    rows; O or G cells, which would run before T; an aligned schedule; more than
    2^28 cells; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"vocabulary", "vocabulary", "::pipesched::VocabularyAlgorithm",
           /*default=*/"::pipesched::VocabularyAlgorithm::Vocab1",
           "How shards find the gradient of the last output",
           [{::pipesched::enumOptionValues<
               ::pipesched::VocabularyAlgorithm>()}]>,
    Option<"embedding", "embedding", "bool", /*default=*/"false",
           "Cells of their own for the shards of the embedding">
  ];
}

#endif // PIPESCHED_TRANSFORMS_VOCABULARYPASSES_TD
