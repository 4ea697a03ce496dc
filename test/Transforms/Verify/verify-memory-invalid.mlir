// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-verify{memory=system})'
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{memory=80gb})' 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{memory=0})' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{memory=-1})' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{memory=1GiB schedule=copies})' 2>&1 | FileCheck %s --check-prefix=BYTES
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-attach-model{name=toy microbatch-size=1},pipe-verify{memory=1GiB memory-times=given schedule=copies})' 2>&1 | FileCheck %s --check-prefix=TIMES
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{memory=1 memory-times=some})' 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: not pipesched-opt %s -split-input-file --pass-pipeline='builtin.module(pipe-verify{transport=pigeon})' 2>&1 | FileCheck %s --check-prefix=TRANSPORT

// UNIT: error: pipe-verify: memory: expected a number of activations (4), bytes with a unit (80GiB, 64.5GB) or system, found '80gb'
// ZERO: error: pipe-verify: memory: expected a number of activations (4), bytes with a unit (80GiB, 64.5GB) or system, found '0'
// NEGATIVE: error: pipe-verify: memory: expected a number of activations (4), bytes with a unit (80GiB, 64.5GB) or system, found '-1'
// BYTES: error: 'pipe.schedule' op has no model, which a memory budget in bytes needs; a number without a unit counts activations
// TIMES: error: 'pipe.schedule' op model 'toy' has no times: attach a system or a profile
// SOME: Cannot find option named 'some'!
// TRANSPORT: Cannot find option named 'pigeon'!

// no system
// expected-error @+1 {{'pipe.schedule' op has no system, whose memory is to be the budget}}
pipe.schedule @copies workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0D0 0U0 0B0]
}

// -----

// no model
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "s", accelerators = 2, link = <bytes_per_s = 1>, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 53>,
    "network" = #pipe.network_spec<bytes_per_s = 1>>} {
  // expected-error @+1 {{'pipe.schedule' op has no model, which a memory budget in bytes needs; a number without a unit counts activations}}
  pipe.schedule @copies workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
}

// -----

// too little
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "s", accelerators = 2, link = <bytes_per_s = 1>, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 53>,
    "network" = #pipe.network_spec<bytes_per_s = 1>>} {
  pipe.model @m microbatch_size 1 boundary_bytes 1 state_bytes [1, 2, 4] {
    block "layer" x 2 parameters 1 activation_bytes 100 {
    }
  }
  pipe.schedule @copies workers 2 microbatches 2 model @m {
    path on [0, 1]
    // expected-error @+3 {{'pipe.worker' op worker 0 holds 207 bytes at cell 1 (0F1), 101 bytes more than the budget of 106 bytes}}
    // expected-note @+2 {{1 byte of weights, 2 bytes of gradients, 4 bytes of optimizer state and 200 bytes of activations, of 2 microbatches}}
    // expected-note @+1 {{1 more worker is over the budget: 1}}
    worker 0 runs [0F0 0F1 0B0 0B1]
    worker 1 runs [1F0 1B0 1F1 1B1]
  }
}
