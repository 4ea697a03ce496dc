// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --transform-interpreter \
// RUN:   --verify-diagnostics

// CASES
module attributes {transform.with_named_sequence} {
  pipe.schedule @s workers 2 microbatches 2 {
    path on [0, 1]
    worker 0 runs [0F0 0F1+0B0 0B1]
    worker 1 runs [1F0 1B0 1F1 1B1]
  }
  transform.named_sequence @__transform_main(
      %root: !transform.any_op {transform.readonly}) {
    %s = transform.pipe.match_schedule "s" in %root
      : (!transform.any_op) -> !transform.any_op
    @@
    transform.yield
  }
}

// an op that is not a module
// error: looks for schedules in a module, found 'pipe.schedule'
transform.pipe.match_schedule in %s : (!transform.any_op) -> !transform.any_op
// an unknown family
// error: there is no schedule family '1f1c', the closest is '1f1b'
transform.pipe.generate %s "1f1c" : (!transform.any_op) -> !transform.any_op
// an unknown placement
// error: pipe-place-u: unknown pass; if it is in a plugin, give --load-pass-plugin
// note: in this 'transform.pipe.place' op
transform.pipe.place %s "u" : (!transform.any_op) -> !transform.any_op
// an unknown option
// error: pipe-verify: <Pass-Options-Parser>: no such option memories
// note: in this 'transform.pipe.verify' op
transform.pipe.verify %s options "memories=2" : !transform.any_op
// a cell that is not there
// error: @s has no cell 0W0
transform.pipe.move_cell %s "0B0" before "0W0" : (!transform.any_op) -> !transform.any_op
// a cell of another row
// error: 0B1 is in the row of worker 0, but 1F0 is in the row of worker 1
transform.pipe.move_cell %s "0B1" before "1F0" : (!transform.any_op) -> !transform.any_op
// one of a pair
// error: 0B0 runs overlapped with another cell
transform.pipe.move_cell %s "0B0" after "0B1" : (!transform.any_op) -> !transform.any_op
// the cell itself
// error: 1F0 cannot be moved to itself
transform.pipe.move_cell %s "1F0" after "1F0" : (!transform.any_op) -> !transform.any_op
// no place
// error: 'transform.pipe.move_cell' op needs either the cell before or the cell after which the cell is to be
transform.pipe.move_cell %s "1F0" : (!transform.any_op) -> !transform.any_op
// no rows
// error: 'transform.pipe.replace_rows' op needs one pipe.schedule with rows in its region
transform.pipe.replace_rows %s with {
} : (!transform.any_op) -> !transform.any_op
// a limit that is none
// error: 'transform.pipe.assert_makespan' op expected a limit as '21 slots' or '1.5ms', found 'many slots'
transform.pipe.assert_makespan %s at_most "many slots" : !transform.any_op
// a time without a unit
// error: 'transform.pipe.assert_makespan' op expected a unit (ps, ns, us, ms or s) after '3', found ''
transform.pipe.assert_makespan %s at_most "3" : !transform.any_op
// an unknown transport
// error: 'transform.pipe.assert_makespan' op unknown transport 'post'
transform.pipe.assert_makespan %s at_most "3s" transport "post" : !transform.any_op

// -----

// An error in the schedule has a note at the script.

module attributes {transform.with_named_sequence} {
  // expected-error@below {{'pipe.schedule' op has no times: it names no model and no profile}}
  pipe.schedule @s workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
  transform.named_sequence @__transform_main(
      %root: !transform.any_op {transform.readonly}) {
    %s = transform.pipe.match_schedule in %root
      : (!transform.any_op) -> !transform.any_op
    // expected-note@below {{in this 'transform.pipe.assert_makespan' op}}
    transform.pipe.assert_makespan %s at_most "1ms" : !transform.any_op
    transform.yield
  }
}

// -----

// A sequence that suppresses such failures goes on with the schedule as it was.

module attributes {transform.with_named_sequence} {
  // expected-error@below {{'pipe.schedule' op has a makespan of 6 slots, at most 5 slots is asserted}}
  pipe.schedule @s workers 1 microbatches 2 {
    path on [0]
    worker 0 runs [0F0 0B0 0F1 0B1]
  }
  transform.named_sequence @__transform_main(
      %root: !transform.any_op {transform.readonly}) {
    transform.sequence %root : !transform.any_op failures(suppress) {
    ^bb0(%module: !transform.any_op):
      %s = transform.pipe.match_schedule in %module
        : (!transform.any_op) -> !transform.any_op
      transform.pipe.move_cell %s "0B1" before "0F1"
        : (!transform.any_op) -> !transform.any_op
    }
    %s = transform.pipe.match_schedule in %root
      : (!transform.any_op) -> !transform.any_op
    transform.pipe.verify %s : !transform.any_op
    // expected-note@below {{in this 'transform.pipe.assert_makespan' op}}
    transform.pipe.assert_makespan %s at_most "5 slots" : !transform.any_op
    transform.yield
  }
}
