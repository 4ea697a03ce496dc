// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-optimize{memory=300B offload=true max-evaluations=10 threads=1 explain=false})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{objective=idle})' 2>&1 | FileCheck %s --check-prefix=OBJECTIVE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{memory=lots})' 2>&1 | FileCheck %s --check-prefix=MEMORY
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{gap=1.5})' 2>&1 | FileCheck %s --check-prefix=GAP
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{time-limit=-1})' 2>&1 | FileCheck %s --check-prefix=TIME
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{max-evaluations=0})' 2>&1 | FileCheck %s --check-prefix=LIMIT
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{placements=linear,waves})' 2>&1 | FileCheck %s --check-prefix=PLACEMENT
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{placements=v,v})' 2>&1 | FileCheck %s --check-prefix=PLACEMENTS
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{microbatch-sizes=1,0})' 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{microbatch-sizes=2,1,2})' 2>&1 | FileCheck %s --check-prefix=SIZES
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-optimize{microbatch-sizes=one})' 2>&1 | FileCheck %s --check-prefix=NUMBER

// OBJECTIVE: Cannot find option named 'idle'!
// MEMORY: error: pipe-optimize: memory: expected a number of activations (4), bytes with a unit (80GiB, 64.5GB) or system, found 'lots'
// GAP: error: pipe-optimize: gap is 0 to 1, found 1.500000
// TIME: error: pipe-optimize: time-limit is 0 to 10000000 seconds, found -1.000000
// LIMIT: error: pipe-optimize: max-evaluations=0 needs a time-limit: without any limit the search may not end
// PLACEMENT: error: pipe-optimize: placements: no placement is called 'waves', the closest is 'wave'
// PLACEMENTS: error: pipe-optimize: placements: v is listed twice
// SIZE: error: pipe-optimize: microbatch-sizes: expected sizes of 1 or more, found 0
// SIZES: error: pipe-optimize: microbatch-sizes: expected sizes that differ, found 2 twice
// NUMBER: 'one' value invalid for long argument!

// bytes need a model
// expected-error @+1 {{'pipe.schedule' op has no model, which a memory budget in bytes needs; a number without a unit counts activations}}
pipe.schedule @s workers 2 microbatches 2 profile <"F=1us,B=1us,I=1us,W=1us,D=1us,U=1us"> {
  path on [0, 1]
}

// -----

// no room for one activation
pipe.model @wide microbatch_size 1 boundary_bytes 1 state_bytes [1, 1, 1] {
  block "layer" x 2 parameters 1 activation_bytes 400 {
    kernel "matmul" on matrix F <1 flops, 1 bytes>
  }
}
// expected-error @+1 {{'pipe.schedule' op worker 0 has a capacity of 297 bytes, which holds no schedule: 103 more is needed, 400 at least}}
pipe.schedule @s workers 2 microbatches 2 model @wide profile <"F=1us,I=1us,W=1us,D=1us,U=1us"> {
  path on [0, 1]
}

// -----

// a time of W that nobody gives
// expected-error @+1 {{'pipe.schedule' op has a profile that gives only B, and the optimizer splits backwards: give I and W, or split-backward=false (--no-split-backward) to keep them whole}}
pipe.schedule @s workers 2 microbatches 2 profile <"F=1us,B=1us,D=1us,U=1us"> {
  path on [0, 1]
}

// -----

// the optimizer step comes afterwards
// expected-error @+1 {{'pipe.schedule' op has 0O0 on worker 0: optimize first, then add the optimizer step}}
pipe.schedule @s workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0 0O0]
}

// -----

// more slices than are compared with each other; nothing is allocated for them
// expected-error @+1 {{the problem has 33554430 pairs of stage and microbatch of 16777215 slices, 4 at most}}
pipe.schedule @s workers 2 microbatches 1 slices 16777215 {
  path on [0, 1]
}

// -----

// rows that are not a schedule
pipe.schedule @s workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  // expected-error @+1 {{'pipe.worker' op 1B0 is missing: worker 1 runs 1F0 but no backward, whole (B) or split (I and W)}}
  worker 1 runs [1F0]
}

// -----

// no schedule
// expected-error @+1 {{the module has no pipe.schedule}}
module {
}
