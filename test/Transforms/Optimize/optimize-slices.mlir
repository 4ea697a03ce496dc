// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{max-evaluations=2000 threads=1 explain=false schedule=two},pipe-verify{schedule=two})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-optimize{memory=3 offload=true max-evaluations=2000 threads=1 explain=false schedule=two},pipe-verify{memory=3 schedule=two})' 2>&1 | FileCheck %s --check-prefix=OFFLOAD
// RUN: not pipesched-opt-raw %s --pass-pipeline='builtin.module(pipe-optimize{memory=1 offload=true max-evaluations=10 schedule=two})' 2>&1 | FileCheck %s --check-prefix=LEAST

// Forwards of a microbatch run from its first slice to its last, backwards from
// the last to the first.

// CHECK: remark: @two: makespan {{.+}}, proven optimal; lower bound
// CHECK-LABEL: pipe.schedule @two workers 2 microbatches 2 slices 2
// CHECK: worker 0 runs [0F0.0 0F0.1
// CHECK: worker 1 runs [1F0.0 {{.*}}1I0.1 {{.*}}1I0.0

// A copy has to wait for the last forward of its microbatch.

// OFFLOAD: remark: @two: makespan
// OFFLOAD: worker 0 runs [0F0.0 0F0.1

// LEAST: worker 0 has a capacity of 1, which holds no schedule: 1 more is needed, 2 at least

pipe.schedule @two workers 2 microbatches 2 slices 2 profile <"F=4us,I=4us,W=2us,D=4us,U=4us"> {
  path on [0, 1]
}
