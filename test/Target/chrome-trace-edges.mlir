// RUN: pipesched-translate --export-chrome-trace %s | FileCheck %s

// A message has the bytes of the tensors that its receiver takes: of 0F0, 1000
// to worker 1, and the other tensor to worker 2.
pipe.model @toy microbatch_size 1 boundary_bytes 1000 state_bytes [2, 2, 12] {
  block "layer" x 3 parameters 1 activation_bytes 1 {
  }
}

// CHECK-DAG: "name":"0F0","cat":"send",{{.*}}"bytes":1000,"to":1,
// CHECK-DAG: "name":"0F0","cat":"send",{{.*}}"bytes":4096,"to":2}}
// CHECK-DAG: "name":"2B0","cat":"receive",{{.*}}"bytes":4096,"from":2}}
pipe.schedule @skip workers 3 microbatches 1 model @toy profile <"F=1ms,B=2ms"> {
  path on [0, 1, 2]
  edge 0 -> 2 "skip" bytes 4096
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0 1B0]
  worker 2 runs [2F0 2B0]
}
