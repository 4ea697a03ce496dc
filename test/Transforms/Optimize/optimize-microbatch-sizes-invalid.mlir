// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-attach-system{name=toy},pipe-optimize{microbatch-sizes=1,3 max-evaluations=10 threads=1 explain=false})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{microbatch-sizes=1})' 2>&1 | FileCheck %s
// CHECK: error: 'pipe.schedule' op has no system; with microbatch-sizes a model and a system say what each takes

// a batch that a size does not divide
pipe.model @one microbatch_size 2 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 10 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
pipe.model @half microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 10 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
// expected-error @+1 {{'pipe.schedule' op has a batch of 8 sequences (4 microbatches of 2), which microbatches of 3 do not divide; sizes that do: 2 and 4}}
pipe.schedule @s workers 2 microbatches 4 model @one {
  path on [0, 1]
}

// -----

// times of one size
// expected-error @+1 {{'pipe.schedule' op has a profile, whose times are those of one microbatch size; with microbatch-sizes a model and a system say what each takes}}
pipe.schedule @s workers 2 microbatches 3 profile <"F=1us,B=1us"> {
  path on [0, 1]
}

// -----

// a model of a single size
pipe.model @only microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 10 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
// expected-error @+1 {{'pipe.schedule' op has model 'only', which does not ship with the library, and the module has none like it with microbatches of 3 sequences: attach it with microbatch-size=3 first, then with microbatch-size=1}}
pipe.schedule @s workers 2 microbatches 3 model @only {
  path on [0, 1]
}

// -----

// two models of the other size
pipe.model @a microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 10 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
pipe.model @b microbatch_size 3 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 20 {
    kernel "matmul" on matrix F <2 flops, 1 bytes>
  }
}
pipe.model @c microbatch_size 3 boundary_bytes 2 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 30 {
    kernel "matmul" on matrix F <2 flops, 1 bytes>
  }
}
// expected-error @+1 {{'pipe.schedule' op has model 'a', and with microbatches of 3 sequences there are both 'b' and 'c'}}
pipe.schedule @s workers 2 microbatches 3 model @a {
  path on [0, 1]
}

// -----

// shares of paths that are not whole microbatches
pipe.model @a microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 10 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
pipe.model @b microbatch_size 3 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 20 {
    kernel "matmul" on matrix F <2 flops, 1 bytes>
  }
}
// expected-error @+1 {{'pipe.schedule' op cannot have microbatch size 3: path 0 takes microbatches from 0 to 4 of 6, which is not a whole number of 2}}
pipe.schedule @s workers 2 microbatches 6 model @a {
  path on [0, 1] takes [0:4]
  path on [1, 0] takes [4:6]
}
