// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=1f1c})' 2>&1 | FileCheck %s --check-prefix=FAMILY
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule)' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=VPP options=chunks})' 2>&1 | FileCheck %s --check-prefix=FORM
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=VPP options=chunk=2})' 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=VPP options=chunks=two})' 2>&1 | FileCheck %s --check-prefix=VALUE
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=gpipe options=chunks=2})' 2>&1 | FileCheck %s --check-prefix=TAKES
// RUN: not pipesched-opt %s --pass-pipeline='builtin.module(pipe-schedule{family=DualPipeV})' 2>&1 | FileCheck %s --check-prefix=SIZE

// FAMILY: error: pipe-schedule: there is no schedule family '1f1c', the closest is '1f1b'
// NONE: error: pipe-schedule: there is no schedule family '' (known: gpipe, 1f1b, {{.*}})
// FORM: error: pipe-schedule: an option is name=value, found 'chunks'
// OPTION: error: pipe-schedule: no schedule family has an option 'chunk', the closest is 'chunks'
// VALUE: error: pipe-schedule: the option 'chunks' takes an integer from 1, found 'two'
// TAKES: error: 'pipe.schedule' op gpipe has no option 'chunks'; it has split-backward, gradient-after, forward-only
// SIZE: error: 'pipe.schedule' op dualpipe-v takes at least two microbatches per worker, found 3 on 2 workers; the nearest is 4
pipe.schedule @s workers 2 microbatches 3 {
  path on [0, 1]
}
