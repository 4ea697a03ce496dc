// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
pipe.schedule @@ {
  path on [0]
}

// schedule_c1: no worker
// error: 'pipe.schedule' op 0 workers: there must be 1 to 65536
@p workers 0 microbatches 1
// schedule_c1: no microbatch
// error: 'pipe.schedule' op 0 microbatches: there must be 1 to 2147483647
@p workers 1 microbatches 0
// schedule_c5: no such model
// error: 'pipe.schedule' op names @toy, which is not a pipe.model
@s workers 1 microbatches 1 model @toy
// gradient: a phase that sends no gradient
// error: expected I or W, the phase that sends the gradient upstream
@p workers 1 microbatches 1 gradient after B
// schedule_c9: R cells that do nothing
// error: 'pipe.schedule' op has R cells that recompute 'none', expected selective or full
@p workers 1 microbatches 1 recompute none

// CASES
"pipe.schedule"() <{@@ microbatches = 1, sym_name = "s", workers = 1}> ({
  "pipe.path"() <{workers = array<i32: 0>}> : () -> ()
}) : () -> ()

// schedule_c6: options without a family
// error: 'pipe.schedule' op has family options but no family
familyOptions = {group = 4},
// schedule_c6: options that are empty
// error: 'pipe.schedule' op has family options that are empty
family = "x", familyOptions = {},
// gradient: likewise in the generic form
// error: expected gradientAfter "I" or "W", got "B"
gradientAfter = "B",

// -----

// schedule_c1: a number that overflows
// expected-error @+2 {{integer value too large}}
// expected-error @+1 {{invalid value for property microbatches}}
pipe.schedule @s workers 1 microbatches 99999999999999999999 {
  path on [0]
}

// CASES
@@

// schedule_c2: another op in the body
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  // error: 'builtin.module' op cannot stand in a pipe.schedule, which holds pipe.path, pipe.node, pipe.edge and pipe.worker ops, and clauses of functions
  builtin.module {
  }
}
// schedule_c2: no path
// error: 'pipe.schedule' op there is no path: at least one is needed
pipe.schedule @s workers 1 microbatches 1 {
}
// schedule_c3: a microbatch on no path
// error: 'pipe.schedule' op microbatch 3 is on no path
pipe.schedule @s workers 2 microbatches 4 {
  path on [0, 1] takes [0:2]
  path on [1, 0] takes [2]
}
// schedule_c3: rows, and several paths that do not say what they take
// error: 'pipe.schedule' op has rows and several paths, which must say with 'takes' which microbatches they take
pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1]
  path on [1, 0]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
}
// schedule_c4: a row is missing
// error: 'pipe.schedule' op has 2 rows for 3 workers; worker 1 has none
pipe.schedule @s workers 3 microbatches 1 {
  path on [0, 1, 2]
  worker 0 runs [0F0 0B0]
  worker 2 runs [2F0 2B0]
}
// schedule_c4: two rows of a worker
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0]
  // error: 'pipe.worker' op is a second row of worker 0
  worker 0 runs [0B0]
}
// schedule_c5: a symbol that is not a model
// error: 'pipe.schedule' op names @t, which is not a pipe.model
pipe.schedule @s workers 1 microbatches 1 model @t {
  path on [0]
}
pipe.schedule @t workers 1 microbatches 1 {
  path on [0]
}
