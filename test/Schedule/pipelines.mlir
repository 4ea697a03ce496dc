// One pipeline goes from an empty module to an aligned, verified table; the pipeline
// that --dump-pass-pipeline prints does the same.

// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-create{name=v workers=2 microbatches=2},pipe-place-v,pipe-create{name=b workers=2 microbatches=4},pipe-place-bidirectional{schedule=b assign=halves},pipe-create{workers=4 microbatches=6},pipe-schedule-1f1b{schedule=schedule split-backward=true gradient-after=I},pipe-align-slots{slots=unit},pipe-verify{schedule=schedule messages=unbounded})' --dump-pass-pipeline -o %t.first.mlir 2> %t.dump
// RUN: FileCheck %s < %t.first.mlir
// RUN: FileCheck %s --check-prefix=DUMP < %t.dump
// RUN: %python -c "import sys; sys.stdout.write(''.join(open(sys.argv[1]).read().partition('builtin.module')[1:]))" %t.dump > %t.pipeline
// RUN: cat %t.pipeline | tr -d '\n' > %t.line
// RUN: %python -c "import subprocess, sys; subprocess.run([*sys.argv[2:], '--pass-pipeline=' + open(sys.argv[1]).read()], check=True)" %t.line pipesched-opt %s -o %t.second.mlir
// RUN: diff %t.first.mlir %t.second.mlir

module {}

// CHECK:      pipe.schedule @v workers 2 microbatches 2 {
// CHECK-NEXT:   path on [0, 1, 1, 0]
// CHECK-NEXT: }
// CHECK-NEXT: pipe.schedule @b workers 2 microbatches 4 {
// CHECK-NEXT:   path on [0, 1] takes [0:2]
// CHECK-NEXT:   path on [1, 0] takes [2:4]
// CHECK-NEXT: }
// CHECK-NEXT: pipe.schedule @schedule workers 4 microbatches 6 family "1f1b" {split_backward = true} aligned {
// CHECK-NEXT:   path on [0, 1, 2, 3]

// DUMP:      builtin.module(
// DUMP-NEXT:   pipe-create{microbatches=2 name=v slices=1 workers=2},
// DUMP-NEXT:   pipe-place-v{schedule=},
// DUMP-NEXT:   pipe-create{microbatches=4 name=b slices=1 workers=2},
// DUMP-NEXT:   pipe-place-bidirectional{assign=halves pairs=1 schedule=b},
// DUMP-NEXT:   pipe-create{microbatches=6 name=schedule slices=1 workers=4},
// DUMP-NEXT:   pipe-schedule-1f1b{forward-only=false gradient-after=I schedule=schedule split-backward=true},
// DUMP-NEXT:   pipe-align-slots{schedule= slot= slots=unit},
// DUMP-NEXT:   pipe-verify{memory= memory-times=any messages=unbounded receive-placement=arrival schedule=schedule transport=overlap}
// DUMP-NEXT: )
