// RUN: split-file %s %t
// RUN: not pipesched-translate --export-report %t/problem.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=PROBLEM
// RUN: not pipesched-translate --export-report %t/incomplete.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=INCOMPLETE
// RUN: not pipesched-translate --export-report %t/no-cost.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NO-COST
// RUN: not pipesched-translate --export-report %t/overflow.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=OVERFLOW
// RUN: not pipesched-translate --export-report %t/deadlock.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=DEADLOCK
// RUN: not pipesched-translate --export-svg --svg-variant=slots %t/program.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NO-SLOTS
// RUN: echo 'module {}' > %t/empty.mlir
// RUN: not pipesched-translate --export-svg %t/empty.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-translate --export-chrome-trace %t/empty.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-translate --export-comparison %t/empty.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=NOTHING
// RUN: not pipesched-translate --export-report %t/program.mlir \
// RUN:   --transport=telepathy 2>&1 | FileCheck %s --check-prefix=OPTION

// A failing export leaves no output, not even that of a good schedule ahead of a
// bad one.
// RUN: rm -f %t/out.json
// RUN: not pipesched-translate --export-report %t/problem.mlir -o %t/out.json
// RUN: not ls %t/out.json
// RUN: not pipesched-translate --export-report %t/problem.mlir 2> %t/err | count 0
// RUN: not pipesched-translate --export-report %t/program.mlir \
// RUN:   -o %t/no-such-directory/out.json 2>&1 | FileCheck %s --check-prefix=UNWRITABLE
// RUN: not pipesched-translate --export-report %t/no-such-file.mlir 2>&1 \
// RUN:   | FileCheck %s --check-prefix=UNREADABLE

// PROBLEM: problem.mlir:7:1: error: 'pipe.schedule' op {{.*}}has no rows to evaluate; fill it with a pipe-schedule-* pass
// INCOMPLETE: incomplete.mlir:{{[0-9:]+}}: error: {{.*}}1B0
// NO-COST: no-cost.mlir:1:1: error: 'pipe.schedule' op {{.*}}I
// OVERFLOW: overflow.mlir:1:1: error: 'pipe.schedule' op {{.*}}2^63
// DEADLOCK: deadlock.mlir:1:1: error: 'exec.program' op {{.*}}deadlocks in a cycle of 6 waits
// DEADLOCK-COUNT-6: note:
// NO-SLOTS: error: {{.*}}program 'alone' has no slots
// NOTHING: error: 'builtin.module' op has no schedule and no program
// OPTION: Cannot find option named 'telepathy'
// UNWRITABLE: no-such-directory{{.*}}No such file or directory
// UNREADABLE: no-such-file.mlir{{.*}}No such file or directory

//--- problem.mlir

pipe.schedule @good workers 1 microbatches 1 {
  path on [0]
  worker 0 runs [0F0 0B0]
}

pipe.schedule @problem workers 2 microbatches 4 {
  path on [0, 1]
}

//--- incomplete.mlir
pipe.schedule @incomplete workers 2 microbatches 1 {
  path on [0, 1]
  worker 0 runs [0F0 0B0]
  worker 1 runs [1F0]
}

//--- no-cost.mlir
pipe.schedule @split workers 1 microbatches 1 profile <"F=1ms,B=2ms"> {
  path on [0]
  worker 0 runs [0F0 0I0 0W0]
}

//--- overflow.mlir
pipe.schedule @overflow workers 1 microbatches 2 profile <"F=9000000s,B=1s"> {
  path on [0]
  worker 0 runs [0F0 0F1 0B0 0B1]
}

//--- deadlock.mlir
exec.program @deadlock {
  worker 0 {
    %r0 = recv 1F0 from 1
    %f0 = compute 0F0 after %r0
    %s0 = send 0F0 to 1 after %f0
  }
  worker 1 {
    %r0 = recv 0F0 from 0
    %f0 = compute 1F0 after %r0
    %s0 = send 1F0 to 0 after %f0
  }
}

//--- program.mlir
exec.program @alone {
  worker 0 {
    %f0 = compute 0F0
  }
}
