// RUN: pipesched-opt %s | FileCheck %s
// RUN: pipesched-opt-raw %s --emit-bytecode | pipesched-opt-raw | FileCheck %s

// Entries print in a fixed order and in the largest unit that is exact.
// CHECK-LABEL: pipe.schedule @s workers 2 microbatches 1 profile <"F=[18ms,19.5ms],I=18.086ms,W=9.337ms,comm=601us"> {
pipe.schedule @s workers 2 microbatches 1 profile <" comm=0.601ms, W=9337us, I=18.086ms, F=[18ms, 0.0195s]"> {
  path on [0, 1]
}

// CHECK-LABEL: pipe.schedule @all workers 1 microbatches 1 profile <"F=1ps,B=2ps,I=3ps,W=4ps,R=5ps,D=6ps,U=7ps,O=8ps,G=9ps,FB=10ps,comm=0ps,send=9223372.036854775807s"> {
pipe.schedule @all workers 1 microbatches 1 profile <"F=1ps,B=2ps,I=3ps,W=4ps,R=5ps,D=6ps,U=7ps,O=8ps,G=9ps,FB=10ps,comm=0ps,send=9223372036854775807ps"> {
  path on [0]
}

// Times by microbatch come last: a list for all stages, or one for each stage.
// CHECK-LABEL: pipe.schedule @unequal workers 2 microbatches 2 profile <"B=2ms,microbatches.F=[1ms,3ms],microbatches.comm={{\[\[}}1us,2us],[3us,4us]]"> {
pipe.schedule @unequal workers 2 microbatches 2 profile <"microbatches.comm=[[1us, 2us], [3us, 4us]], microbatches.F = [ 1ms, 3ms ], B=2ms"> {
  path on [0, 1]
}
