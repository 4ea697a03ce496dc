// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
exec.program @p {
@@
}

// program_c1
  // error: 'builtin.module' op is in the body of 'exec.program', which holds 'pipe.path', 'pipe.node', 'pipe.edge' and 'exec.worker' ops and clauses of functions only
  builtin.module {}
  worker 0 {}
// program_c1
  worker 0 {}
  // error: comes after a worker; paths and functions come first
  pipe.path on [0]
// program_c2
  worker 0 {}
  // error: 'exec.worker' op has number 2, wanted 0 to 1
  worker 2 {}
// program_c3
  worker 0 {
    // error: 'exec.compute' op cell 0O1 is of path 1, the program has 1
    %o = compute 0O1
  }
// program_c4
  worker 0 {
    // note: the first is here
    %f0 = compute 0F0
  }
  worker 1 {
    // error: 'exec.compute' op runs cell 0F0 a second time
    %f0 = compute 0F0
  }
// program_c4: also in an overlapped pair.
  worker 0 {
    // note: the first is here
    %f0 = compute 0F0
    // error: 'exec.compute' op runs cell 0F0 a second time
    %f1_f0 = compute 0F1+0F0
  }
// program_c5
  worker 0 {
    %f0 = compute 0F0
    // error: 'exec.send' op has no partner: worker 1 has no 'recv 0F0 from 0'
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {}
// program_c5
  worker 0 {}
  worker 1 {
    // error: 'exec.recv' op has no partner: worker 0 has no 'send 0F0 to 1'
    %act0 = recv 0F0 from 0
  }
// program_c5
  worker 0 {
    %f0 = compute 0F0
    // error: 'exec.send' op names worker 7, wanted 0 to 0
    %s0 = send 0F0 to 7 after %f0
  }

// CASES
exec.program @@ {
  worker 0 {}
}

// program_c2
// error: 'exec.program' op has 65537 workers, wanted 1 to 65536
@p workers 65537
// program_c3
// error: 'exec.program' op has -1 microbatches, wanted 1 to 2147483647
@p microbatches -1
// program_c7
// error: 'exec.program' op names model @missing, but there is no such 'pipe.model'
@modelless model @missing
// program_c9
// error: 'exec.program' op has R cells that recompute 'none', expected selective or full
@p recompute none

// CASES
@@

// program_c2: no worker
// error: 'exec.program' op has no worker 0; workers are numbered 0 to 0, each once
exec.program @p {
}
// program_c2: missing
// error: 'exec.program' op has no worker 1; workers are numbered 0 to 2, each once
exec.program @p workers 3 {
  worker 0 {}
  worker 2 {}
}
// program_c2: twice
exec.program @p workers 2 {
  // note: worker 1 is here
  worker 1 {}
  // error: 'exec.worker' op has number 1 a second time
  worker 1 {}
}
// program_c2: zero
// error: 'exec.program' op has 0 workers, wanted 1 to 65536
exec.program @p workers 0 {
}
// program_c3: late microbatch
exec.program @p microbatches 2 {
  worker 0 {
    // error: 'exec.compute' op cell 0F2 is of microbatch 2, the program has 2
    %f2 = compute 0F2
  }
}
// program_c3: the highest number that a cell can hold is one too many.
// error: 'exec.program' op has 2147483648 microbatches, wanted 1 to 2147483647
exec.program @p {
  worker 0 {
    %f = compute 0F2147483647
  }
}
// program_c5: the message goes to another worker than the one that waits.
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    // error: 'exec.send' op has no partner: worker 1 has no 'recv 0F0 from 0'
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {}
  worker 2 {
    %act0 = recv 0F0 from 0
  }
}
// program_c5: sent twice
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    // note: the first is here
    %s0 = send 0F0 to 1 after %f0
    // error: 'exec.send' op repeats the message 0F0 from worker 0 to worker 1
    %s1 = send 0F0 to 1 after %f0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
  }
}
// program_c5: received twice
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    // note: the first is here
    %act0 = recv 0F0 from 0
    // error: 'exec.recv' op repeats the message 0F0 from worker 0 to worker 1
    %act1 = recv 0F0 from 0
  }
}
// program_c6: unassigned
// error: 'exec.program' op has several paths; say with 'takes' which microbatches take each
exec.program @p microbatches 2 {
  pipe.path on [0]
  pipe.path on [0]
  worker 0 {}
}
// program_c8
// error: 'exec.program' op has family options but no family
"exec.program"() <{sym_name = "no_family", familyOptions = {group = 2}}> ({
  "exec.worker"() <{worker = 0 : i64}> ({
  ^bb0:
  }) : () -> ()
}) : () -> ()
// program_c8: options that are empty
// error: 'exec.program' op has family options that are empty
"exec.program"() <{sym_name = "no_options", family = "x", familyOptions = {}}> ({
  "exec.worker"() <{worker = 0 : i64}> ({
  ^bb0:
  }) : () -> ()
}) : () -> ()

// CASES
exec.program @p microbatches 1 {
@@
}

// program_c6: wrong worker
  pipe.path on [0, 1]
  worker 0 {
    // error: 'exec.compute' op cell 1F0 runs on worker 0, by its path stage 1 is on worker 1
    %f0 = compute 1F0
  }
  worker 1 {}
// program_c6: no such stage
  pipe.path on [0]
  worker 0 {
    // error: 'exec.compute' op cell 1F0 is of stage 1, its path has 1
    %f0 = compute 1F0
  }
