// RUN: pipesched-opt %s -verify-diagnostics -split-input-file --pass-pipeline='builtin.module(pipe-schedule-vocab-v-half)'
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule-vocab-v-half{vocabulary=vocab-3})' -split-input-file 2>&1 | FileCheck %s --check-prefix=OPTION

// OPTION: vocab-3

// no V
// expected-error @+1 {{'pipe.schedule' op vocab-v-half}}
pipe.schedule @p workers 2 microbatches 4 {
  path on [0, 1, 0, 1]
}
