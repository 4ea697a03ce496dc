//===- ExecShards.td - Collectives of shards ---------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The collectives of a vocabulary that is sharded over workers. ExecOps.td
// includes this file after the class that they share.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_EXECSHARDS_TD
#define PIPESCHED_DIALECT_EXEC_IR_EXECSHARDS_TD

def Exec_BroadcastOp
    : Exec_CollectiveOp<"broadcast", "Broadcast", ["Broadcast"]> {
  let summary = "give the output of the last stage to all workers";
  let description = [{
    Brings the output of the last stage to every worker of the path of a
    microbatch; each has a shard of the vocabulary (C0 of arXiv 2411.05288). It
    starts when all of them have reached theirs. It runs on the queue of
    broadcasts, so workers continue meanwhile; an instruction that waits for the
    token has the output. `bytes` is the size of the output.

    ```mlir
    exec.program @shards workers 2 microbatches 1 {
      worker 0 {
        %f0 = compute 0F0
        %sf0 = send 0F0 to 1 after %f0
        %x0 = broadcast 0X0 after %f0
        %s0 = compute 0S0 after %x0
      }
      worker 1 {
        %act0 = recv 0F0 from 0
        %f0 = compute 1F0 after %act0
        %x0 = broadcast 1X0 after %f0
        %s0 = compute 1S0 after %x0
      }
    }
    ```
  }];
}

def Exec_CombineOp
    : Exec_CollectiveOp<"combine", "Combine", ["Reduction"]> {
  let summary = "combine the maxima and sums of the shards of logits";
  let description = [{
    All workers of the path of a microbatch combine the maxima and the sums of
    exponentials of their shards into those of all logits (C1 of arXiv
    2411.05288; Vocab-2 sums the gradient of the last output here). It starts
    when all of them have reached theirs. It runs on the queue of reductions, so
    workers continue meanwhile.

    ```mlir
    exec.program @shards workers 2 microbatches 1 {
      worker 0 {
        %s0 = compute 0S0
        %y0 = combine 0Y0 after %s0
        %t0 = compute 0T0 after %y0
      }
      worker 1 {
        %s0 = compute 1S0
        %y0 = combine 1Y0 after %s0
        %t0 = compute 1T0 after %y0
      }
    }
    ```
  }];
}

def Exec_ReduceOp : Exec_CollectiveOp<"reduce", "Reduce", ["Reduction"]> {
  let summary = "sum the gradient of the last output over the shards";
  let description = [{
    Sums the parts of the gradient of the last output that the workers of the
    path of a microbatch computed, each by its shard of the vocabulary (C2 of
    Vocab-1, arXiv 2411.05288). The backward of the last stage waits for it. It
    starts when all of them have reached theirs. It runs on the queue of
    reductions, so workers continue meanwhile.

    ```mlir
    exec.program @shards workers 2 microbatches 1 {
      worker 0 {
        %t0 = compute 0T0
        %z0 = reduce 0Z0 after %t0
      }
      worker 1 {
        %t0 = compute 1T0
        %z0 = reduce 1Z0 after %t0
        %b0 = compute 1B0 after %z0
      }
    }
    ```
  }];
}

def Exec_ReduceLookupsOp
    : Exec_CollectiveOp<"reduce_lookups", "ReduceLookups", ["Lookup"]> {
  let summary = "sum the lookups of the shards of an embedding";
  let description = [{
    Sums the lookups of the workers of the path of a microbatch in an embedding
    that is spread over them (arXiv 2411.05288): each has some of its rows, and
    zeros for the others. The forward of the first stage waits for it. It starts
    when all of them have reached theirs. It runs on the queue of lookups, so
    workers continue meanwhile. `bytes` is the size of the output.

    ```mlir
    exec.program @shards workers 2 microbatches 1 {
      worker 0 {
        %e0 = compute 0E0
        %a0 = reduce_lookups 0A0 after %e0
        %f0 = compute 0F0 after %a0
      }
      worker 1 {
        %e0 = compute 1E0
        %a0 = reduce_lookups 1A0 after %e0
      }
    }
    ```
  }];
}

def Exec_BroadcastGradientOp
    : Exec_CollectiveOp<"broadcast_gradient", "BroadcastGradient",
                        ["Gradient"]> {
  let summary = "give the gradient of the embedding's output to all workers";
  let description = [{
    Brings the gradient of the first stage's input, which is the output of the
    embedding, to every worker of the path of a microbatch: each adds it to the
    gradients of its rows (arXiv 2411.05288). It starts when all of them have
    reached theirs. It runs on the queue of gradients, so workers continue
    meanwhile. `bytes` is the size of the gradient.

    ```mlir
    exec.program @shards workers 2 microbatches 1 {
      worker 0 {
        %e0 = compute 0E0
        %b0 = compute 0B0
        %c0 = broadcast_gradient 0C0 after %b0
        %v0 = compute 0V0 after %c0
      }
      worker 1 {
        %e0 = compute 1E0
        %b0 = compute 1B0
        %c0 = broadcast_gradient 1C0 after %b0
        %v0 = compute 1V0 after %c0
      }
    }
    ```
  }];
}

#endif // PIPESCHED_DIALECT_EXEC_IR_EXECSHARDS_TD
