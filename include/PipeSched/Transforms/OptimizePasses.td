//===- OptimizePasses.td - The optimizer -------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Schedules found by search (docs/Optimize.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TRANSFORMS_OPTIMIZEPASSES_TD
#define PIPESCHED_TRANSFORMS_OPTIMIZEPASSES_TD

include "PipeSched/Transforms/PassBase.td"

def PipeOptimizePass : Pipe_ModulePass<"pipe-optimize"> {
  let summary = "Find the fastest schedule within a memory budget";
  let description = [{
    Searches for the rows with the shortest makespan (or period) under the
    paths, times and memory of a schedule, and proves a bound on their distance
    from the optimum (docs/Optimize.md). Problems are filled. If a schedule
    already has rows, the search starts from these among others and replaces
    them by better ones. Gradients go upstream after I, and the family is
    dropped. In rows that use offload, joins (`0d3`) hold a cell back until a
    copy has made room for it. The times found are exactly the times of the
    timeline under `transport=delay`.

    `memory` is the budget of each worker, as in `pipe-verify`: activations of
    one stage and microbatch, bytes with a unit, or `system`. By default it is
    the memory of the system if a model and a system are attached; otherwise
    there is no budget. The result is checked against the budget in the same way
    as by `pipe-verify`. With `memory-times=any`, the default, the rows and
    their joins keep the budget whatever times cells, messages and copies take
    when the schedule runs. With `memory-times=given` they keep it at the times
    that the search knows, and may exceed it at others.

    Besides the order of each row, the pass may choose, if an option allows it:

    - `split-backward`: I and W as separate cells.
    - `offload`: D and U, with the times of the profile or of model and system.
    - `recompute=selective|full`: R of that kind. A model in which every
      backward already recomputes is an error.
    - `placements`: the best of these placements. `interleaved` has `chunks`
      stages per worker, `wave` goes down and up `waves` times.
    - `microbatch-sizes`: the best of these sizes, in sequences, for the batch
      of the schedule. The schedule then names the model of that size, and its
      number of microbatches changes to make up the batch. The model of another
      size is taken from the module or expanded from the description that ships
      with the library. If `memory` is a number of activations, it counts
      activations of the size tried.

    Half of the limits is divided equally among all placements and sizes that no
    bound rules out; the best of them gets the rest. If the pass chooses other
    paths, they replace the paths of the schedule.

    The search ends when the result meets the lower bound, when it is within
    `gap` of it (0.01: one percent), or after `max-evaluations` schedules,
    2000000 by default. The same input then gives the same output on any
    machine, with any load and number of threads. A `time-limit` in seconds
    (default: none) also ends the search, but then the output depends on the
    machine. With `max-evaluations=0` only the time limit counts. All searches
    for one schedule share its limits. With `cache`, a folder keeps the best
    known schedule of each problem, so a result may come from an earlier run.

    The pass uses at most `threads` threads of the thread pool of its context,
    and runs sequentially if the context has no pool. It handles no signals.

    Remarks state the objective, its lower bound and gap, why the search ended,
    which placement and size were chosen, the results of the others, and the
    result without each technique. Solving without each technique takes a
    quarter of the limits; `explain=false` leaves it out.

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
    }
    ```

    After `pipe-optimize{memory=2 max-evaluations=1000 threads=1}`:

    ```mlir
    pipe.schedule @s workers 2 microbatches 4 {
      path on [0, 1]
      worker 0 runs [0F0 0F1 0I0 0W0 0F2 0I1 0W1 0F3 0I2 0W2 0I3 0W3]
      worker 1 runs [1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1F3 1I3 1W2 1W3]
    }
    ```

    A batch of 8 sequences in half as many microbatches, which read the weights
    half as often:

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
        "worker" = #pipe.worker_spec<name = "small", accelerators = 1,
            matrix = <flops_per_s = 1000000000000>,
            vector = <flops_per_s = 100000000000>,
            memory = <bytes_per_s = 100000000000>, memory_bytes = 10000000>,
        "network" = #pipe.network_spec<bytes_per_s = 10000000000,
            latency_ps = 1000000>>} {
      pipe.model @one microbatch_size 1 boundary_bytes 1000
          state_bytes [2, 2, 12] {
        block "layer" x 4 parameters 100000 activation_bytes 10000 {
          kernel "linear" on matrix F <1000000 flops, 210000 bytes>
              I <1000000 flops, 210000 bytes> W <1000000 flops, 210000 bytes>
        }
      }
      pipe.model @two microbatch_size 2 boundary_bytes 2000
          state_bytes [2, 2, 12] {
        block "layer" x 4 parameters 100000 activation_bytes 20000 {
          kernel "linear" on matrix F <2000000 flops, 220000 bytes>
              I <2000000 flops, 220000 bytes> W <2000000 flops, 220000 bytes>
        }
      }
      pipe.schedule @s workers 2 microbatches 8 model @one {
        path on [0, 1]
      }
    }
    ```

    After `pipe-optimize{microbatch-sizes=1,2 max-evaluations=2000 threads=1}`:

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
        "worker" = #pipe.worker_spec<name = "small", accelerators = 1,
            matrix = <flops_per_s = 1000000000000>,
            vector = <flops_per_s = 100000000000>,
            memory = <bytes_per_s = 100000000000>, memory_bytes = 10000000>,
        "network" = #pipe.network_spec<bytes_per_s = 10000000000,
            latency_ps = 1000000>>} {
      pipe.model @one microbatch_size 1 boundary_bytes 1000
          state_bytes [2, 2, 12] {
        block "layer" x 4 parameters 100000 activation_bytes 10000 {
          kernel "linear" on matrix F <1000000 flops, 210000 bytes>
              I <1000000 flops, 210000 bytes> W <1000000 flops, 210000 bytes>
        }
      }
      pipe.model @two microbatch_size 2 boundary_bytes 2000
          state_bytes [2, 2, 12] {
        block "layer" x 4 parameters 100000 activation_bytes 20000 {
          kernel "linear" on matrix F <2000000 flops, 220000 bytes>
              I <2000000 flops, 220000 bytes> W <2000000 flops, 220000 bytes>
        }
      }
      pipe.schedule @s workers 2 microbatches 4 model @two {
        path on [0, 1]
        worker 0 runs [0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3]
        worker 1 runs [1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3]
      }
    }
    ```

    Errors: costs that lack a time of the schedule; a budget that holds no
    schedule, with the smallest one that does; several paths that do not say
    which microbatches they take; G or O cells, which are added after this pass;
    microbatch sizes that do not divide the batch, with the nearest that do, or
    that have no model; options out of range, or no limit at all; no schedule.
  }];
  let options = [
    Pipe_ScheduleOption,
    Option<"objective", "objective", "::pipesched::optimize::Objective",
           /*default=*/"::pipesched::optimize::Objective::Makespan",
           "What is to be short",
           [{::pipesched::enumOptionValues<
               ::pipesched::optimize::Objective>()}]>,
    Option<"memory", "memory", "std::string", /*default=*/"",
           "Budget of a worker: activations, bytes with a unit, or system">,
    Pipe_MemoryTimesOption,
    Option<"splitBackward", "split-backward", "bool", /*default=*/"true",
           "Backwards may be split">,
    Option<"offload", "offload", "bool", /*default=*/"false",
           "Activations may go to host memory">,
    Option<"recompute", "recompute", "::pipesched::Recompute",
           /*default=*/"::pipesched::Recompute::None",
           "What may be recomputed",
           [{::pipesched::enumOptionValues<::pipesched::Recompute>()}]>,
    ListOption<"placements", "placements", "std::string",
               "linear, interleaved, v or wave; none: the paths there are">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"2",
           "Stages per worker of placements=interleaved">,
    Option<"waves", "waves", "int64_t", /*default=*/"2",
           "Times down and up of placements=wave">,
    ListOption<"microbatchSizes", "microbatch-sizes", "int64_t",
               "Sequences of a microbatch; none: those that there are">,
    Option<"timeLimit", "time-limit", "double",
           /*default=*/"::pipesched::optimize::kNoTimeLimit",
           "Seconds, inf: no limit; 0: seeds and heuristics alone">,
    Option<"gap", "gap", "double", /*default=*/"0",
           "Distance from the lower bound that is near enough, 0 to 1">,
    Option<"seed", "seed", "uint64_t", /*default=*/"0",
           "Of the random numbers">,
    Option<"threads", "threads", "unsigned", /*default=*/"0",
           "Most threads of the context to use; 0: all of them">,
    Option<"maxEvaluations", "max-evaluations", "uint64_t",
           /*default=*/"::pipesched::optimize::kDefaultMaxEvaluations",
           "Schedules to evaluate (2000000); 0: no limit">,
    Option<"cache", "cache", "std::string", /*default=*/"",
           "Folder with the best schedules known">,
    Option<"explain", "explain", "bool", /*default=*/"true",
           "Solve again without each technique">
  ];
}

#endif // PIPESCHED_TRANSFORMS_OPTIMIZEPASSES_TD
