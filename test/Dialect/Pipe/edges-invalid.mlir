// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pipe-verify

// edge_c2: an edge from nowhere
// expected-error @+1 {{'pipe.schedule' op edge 3 -> 0: there is no stage 3; the path and nodes have stages 0 to 1}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  edge 3 -> 0
}

// -----

// edge_c2: a chain connects them
// expected-error @+1 {{edge 0 -> 1 exists already: a path is a chain}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  edge 0 -> 1
}

// -----

// edge_c3
// expected-error @+1 {{the edges between stages form a circle: stage 0 of path 0 -> stage 1 of path 0 -> node 2 -> stage 0 of path 0}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  node 2 on [0]
  edge 1 -> 2
  edge 2 -> 0
}

// -----

// edge_c4: a trained stage after one without a backward
// expected-error @+1 {{stage 1 of path 0 trains after node 2, which has no backward: freeze node 2, or remove the backward of stage 1 of path 0}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  node 2 on [0] none
  edge 2 -> 1
}

// -----

// edge_c5
// expected-error @+1 {{stage 2 of path 0 gives gradients to stage 1 of path 0 and node 3, which are both on worker 1}}
pipe.schedule @p workers 3 microbatches 1 {
  path on [0, 1, 2]
  node 3 on [1]
  edge 3 -> 2
}

// -----

// edge_c1: several paths
// expected-error @+1 {{nodes and edges are of a schedule with a single path, and there are 2}}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  edge 0 -> 2
}

// -----

// edge_c1
module {
  // expected-error @+1 {{'pipe.edge' op must stand in a pipe.schedule or an exec.program}}
  "pipe.edge"() <{from = 0 : i64, to = 2 : i64}> : () -> ()
}

// -----

// node_c2
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  // expected-error @+1 {{'pipe.node' op is on 2 workers: a node is on one}}
  node 2 on [0, 1]
  edge 2 -> 0
}

// -----

// node_c3
// expected-error @+1 {{node 5 must have the number 2: nodes are numbered after the 2 stages of the path}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  node 5 on [0]
  edge 5 -> 0
}

// -----

// node_c4
// expected-error @+1 {{node 2 has no edge}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  node 2 on [0]
}

// -----

// node_c1: blocks
// expected-error @+1 {{the path has blocks or weights, and node 2 is of another part of the model: give neither}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1] blocks [1, 1]
  node 2 on [0]
  edge 2 -> 0
}

// -----

// program_c19
exec.program @p microbatches 1 {
  // expected-error @+1 {{'pipe.edge' op is in a program without a path}}
  pipe.edge 0 -> 2
  worker 0 {
    %f0 = compute 0F0
  }
}

// -----

// the rows run an encoder against the order of what takes its output
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  node 2 on [0]
  edge 2 -> 0
  // expected-error @+3 {{the rows deadlock: 0F0 waits for itself in a cycle of 2}}
  // expected-note @+2 {{0F0 on worker 0 waits for 2F0 on worker 0}}
  // expected-note @+1 {{2F0 on worker 0 runs after 0F0 in its row}}
  worker 0 runs [0F0 2F0 0B0 2B0]
  worker 1 runs [1F0 1B0]
}
