//===- FamilyPasses.td - Families by name ------------------*- tablegen -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One pass for all families, which also accepts their names in other projects.
// The pass of each family, pipe-schedule-<family>, is made from the list of
// families (lib/Transforms/Generate/FamilyPass.cpp); docs/Schedules.md shows
// them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_FAMILYPASSES_TD
#define PIPESCHED_TRANSFORMS_FAMILYPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def PipeSchedulePass : Pipe_SchedulePass<"pipe-schedule"> {
  let summary = "Fill schedules with a family by name";
  let description = [{
    Does the same as `pipe-schedule-<family>`, with the family given by its name
    or an alias: `VPP`, `Interleaved1F1B` and `ScheduleInterleaved1F1B` all mean
    `interleaved-1f1b` (docs/Schedules.md lists the names). Case, `-` and `_` do
    not matter. `options` are those of the family's own pass.

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
    that an option does not take; those of the family's own pass.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"family", "family", "std::string", /*default=*/"",
           "Name of the family; required">,
    ListOption<"familyOptions", "options", "std::string",
               "Options of the family, name=value each">
  ];
}

#endif // PIPESCHED_TRANSFORMS_FAMILYPASSES_TD
