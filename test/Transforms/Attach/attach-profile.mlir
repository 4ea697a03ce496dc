// RUN: split-file %s %t
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=18.522ms,I=18.086ms,W=9.337ms,comm=0.601ms"})' | FileCheck %s
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=1s, B=1s"},pipe-attach-profile{times="F = [0.8ms, 1ms], B = 2us" schedule=s})' | FileCheck %s --check-prefix=LISTS
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{file=%t/p.json})' | FileCheck %s --check-prefix=FILE
// RUN: pipesched-opt-raw %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times="F=[1ms, 2ms],B=3ms"})' --dump-pass-pipeline 2>&1 >/dev/null | FileCheck %s --check-prefix=DUMP
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-profile{times={F=[1ms, 2ms],B=3ms}})' | FileCheck %s --check-prefix=AGAIN

// CHECK: pipe.schedule @s workers 2 microbatches 8 profile <"F=18.522ms,I=18.086ms,W=9.337ms,comm=601us"> {
// CHECK: exec.program @p profile <"F=18.522ms,I=18.086ms,W=9.337ms,comm=601us"> {

// LISTS: pipe.schedule @s workers 2 microbatches 8 profile <"F=[800us,1ms],B=2us"> {
// LISTS: exec.program @p profile <"F=1s,B=1s"> {

// FILE: pipe.schedule @s workers 2 microbatches 8 profile <"F=[1ms,2ms],B=3ms,FB=4ms,send=5ps"> {

// The dumped pipeline can be run again.
// DUMP: pipe-attach-profile{file= schedule= times={F=[1ms, 2ms],B=3ms}}
// AGAIN: pipe.schedule @s workers 2 microbatches 8 profile <"F=[1ms,2ms],B=3ms"> {

//--- s.mlir
pipe.schedule @s workers 2 microbatches 8 {
  path on [0, 1]
}
exec.program @p {
  worker 0 {
    %f0 = compute 0F0
  }
}

//--- p.json
{"F": ["1ms", "2ms"], "B": "3ms", "FB": "4ms", "send": "5ps"}
