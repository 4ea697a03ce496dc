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
// expected-error @+1 {{edge 0 -> 2 and edge 0 -> 3 carry tensor 'features' of stage 0, and say other bytes}}
pipe.schedule @p workers 3 microbatches 1 {
  path on [0, 1, 2]
  node 3 on [1]
  edge 0 -> 2 "features" bytes 8
  edge 0 -> 3 "features"
}

// -----

// edge_c5: bytes of no tensor
// expected-error @+1 {{edge 0 -> 2 has bytes of its own, and carries the output of stage 0: name its tensor}}
pipe.schedule @p workers 3 microbatches 1 {
  path on [0, 1, 2]
  edge 0 -> 2 bytes 8
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

// node_c5
// expected-error @+1 {{node 2 takes [1:3:1], which is not within the 2 microbatches (0 to 1)}}
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  node 2 on [0] takes [1:3]
  edge 2 -> 0
}

// -----

// node_c5: a cell of a microbatch that the node does not run
pipe.schedule @p workers 2 microbatches 2 {
  path on [0, 1]
  node 2 on [0] frozen takes [1]
  edge 2 -> 0
  // expected-error @+1 {{cell 0 (2F0) must not occur: node 2 does not take microbatch 0}}
  worker 0 runs [2F0 2F1 0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}

// -----

// node_c6
// expected-error @+1 {{node 2 holds blocks 'layer' twice: give their number once}}
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  node 2 on [0] holds "layer", "layer" x 2
  edge 2 -> 0
}

// -----

// node_c6
pipe.schedule @p workers 2 microbatches 1 {
  path on [0, 1]
  // expected-error @+1 {{'pipe.node' op holds 1 kinds of blocks and 0 numbers of them}}
  "pipe.node"() <{number = 2 : i64, workers = array<i32: 0>, blocks = ["layer"]}> : () -> ()
  edge 2 -> 0
}

// -----

// node_c1: blocks
// expected-error @+1 {{the path has blocks or weights, and node 2 does not say which blocks it holds}}
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
