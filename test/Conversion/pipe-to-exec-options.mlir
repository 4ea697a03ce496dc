// RUN: pipesched-opt %s -convert-pipe-to-exec=schedule=b | FileCheck %s --check-prefix=ONE
// RUN: pipesched-opt %s -convert-pipe-to-exec=keep-schedule | FileCheck %s --check-prefix=KEEP
// RUN: pipesched-opt %s -convert-pipe-to-exec='keep-schedule receive-placement=consumer schedule=a' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE

// The program replaces the schedule at its position.
// ONE:      pipe.schedule @a
// ONE:      exec.program @b
// ONE:      pipe.schedule @c
// ONE-NOT:  pipe.schedule @b

// KEEP:      pipe.schedule @a
// KEEP:      exec.program @a_exec
// KEEP:      pipe.schedule @b
// KEEP:      exec.program @b_exec_0
// KEEP:      pipe.schedule @c
// KEEP:      exec.program @c_exec
// KEEP:      exec.program @b_exec

// PIPELINE: convert-pipe-to-exec{keep-schedule=true receive-placement=consumer schedule=a}
pipe.schedule @a workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
pipe.schedule @b workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0I0 0W0]
}
pipe.schedule @c workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}
exec.program @b_exec {
  worker 0 {}
}
