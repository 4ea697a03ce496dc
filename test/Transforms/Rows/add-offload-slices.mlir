// Keys and values of slices stay for later slices.
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-gpipe{schedule=whole},pipe-schedule-seq1f1b{slices=2 schedule=sliced},pipe-schedule-seq1f1b{slices=2 schedule=kept},pipe-add-offload{schedule=whole},pipe-add-offload{schedule=sliced},pipe-add-offload{schedule=kept ahead=50})' 2>&1 \
// RUN:   | FileCheck %s --implicit-check-not='remark: @whole' --implicit-check-not='@kept: keys'

// CHECK: remark: @sliced: keys and values of offloaded slices stay on the device for later slices; bytes count them there, numbers of activations do not
// CHECK: pipe.schedule @sliced
// CHECK: 0F0.0 0D0.0
pipe.schedule @whole workers 2 microbatches 4 {
  path on [0, 1]
}
pipe.schedule @sliced workers 2 microbatches 4 {
  path on [0, 1]
}
pipe.schedule @kept workers 2 microbatches 4 {
  path on [0, 1]
}
