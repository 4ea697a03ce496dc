// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt-raw %t.mlir --split-input-file --verify-diagnostics

// CASES
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
  @@
}

// stage_c2
// error: has number -1, wanted zero or more
stage -1 forward @f
// stage_c3
// error: names @f as its forward, which is not a function
stage 0 forward @f
// data_c2
// error: names @p as its data, which is not a function
data @p
// target_c2
// error: names @t as its target, which is not a function
target @t
// loss_c2
// error: names @l as its loss, which is not a function
loss @l

// CASES
func.func @f() { return }
pipe.schedule @p workers 1 microbatches 1 {
  path on [0]
@@
}

// stage_c2
  // note: the first one
  stage 0 forward @f
  // error: is a second clause of stage 0
  stage 0 forward @f
// stage_c2: any number may be in the text.
  // note: the first one
  stage 9223372036854775807 forward @f
  // error: is a second clause of stage 9223372036854775807
  stage 9223372036854775807 forward @f
// stage_c2
  // note: the first one
  stage 9223372036854775806 forward @f
  // error: is a second clause of stage 9223372036854775806
  stage 9223372036854775806 forward @f
// data_c1
  // note: the first one
  data @f
  // error: is a second clause of its kind
  data @f

// CASES
@@

// Constraints of the clauses and attributes themselves (PipeStageOps.td).
// stage_c1
// error: must stand in a pipe.schedule or an exec.program
"pipe.stage"() <{stage = 0 : i64, forward = @f}> : () -> ()
// A role that does not exist.
// error: with the attribute "pipe.weight", expected pipe. and one of param, input, output
func.func @f(%w: tensor<8xf32> {pipe.weight}) { return }
// A name where there are none.
// error: gives "pipe.input" the value "x", expected none
func.func @f(%w: tensor<8xf32> {pipe.input = "x"}) { return }
// A name that is not a text.
// error: gives "pipe.param" the value 3 : i64, expected none or a name in quotes
func.func @f(%w: tensor<8xf32> {pipe.param = 3 : i64}) { return }
// Clauses after a worker.
func.func @f() { return }
exec.program @p workers 1 microbatches 1 {
  pipe.path on [0]
  worker 0 {
    %f0 = compute 0F0
  }
  // error: comes after a worker; paths and functions come first
  pipe.stage 0 forward @f
}
