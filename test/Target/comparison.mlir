// RUN: pipesched-opt %s --pass-pipeline='builtin.module( \
// RUN:     pipe-schedule-gpipe{schedule=gpipe}, pipe-schedule-1f1b)' -o %t.mlir
// RUN: pipesched-translate --export-comparison --transport=delay %t.mlir \
// RUN:   | FileCheck %s --strict-whitespace --match-full-lines
// RUN: pipesched-translate --export-comparison --transport=blocking %t.mlir \
// RUN:   | FileCheck %s --check-prefix=BLOCKING

// Delay, GPipe: (N+D-1)(F+B) + 2(D-1)Tc = 5 * 30 + 10 us, of which 4 * 30 are work
// and 10 would go with free messages. 1F1B waits for one more round trip.

//      CHECK:schedule     family  D  N      step   speed     idle    table  formula  exposed  memory/worker  where  fits
// CHECK-NEXT:-----------------------------------------------------------------------------------------------------------
// CHECK-NEXT:gpipe        gpipe   2  4  160.0 us  0.9688  25.00 %  20.00 %  20.00 %   6.25 %              -  -      -
// CHECK-NEXT:one_f_one_b  1f1b    2  4  170.0 us  0.9118  29.41 %  20.00 %  20.00 %  11.76 %              -  -      -
// CHECK-NEXT:twice        1f1b    2  8  310.0 us  1.0000  22.58 %  11.11 %  11.11 %  12.90 %              -  -      -
// CHECK-NEXT:by_hand      -       2  1  130.0 us  0.2981  76.92 %        -        -  53.85 %              -  -      -
// CHECK-EMPTY:
// CHECK-NEXT:D workers, N microbatches. speed: microbatches per second, relative to the fastest.
// CHECK-NEXT:idle: of workers x step; table and formula: the same by slots and by closed formula.
// CHECK-NEXT:exposed: part of the step that free messages would save. memory/worker: of the fullest worker, with all its accelerators.
// CHECK-EMPTY:
// CHECK-NEXT:idle by cause     fill    drain  dependency  communication      all
// CHECK-NEXT:-------------------------------------------------------------------
// CHECK-NEXT:gpipe           4.69 %   7.81 %     10.94 %         1.56 %  25.00 %
// CHECK-NEXT:one_f_one_b     4.41 %   7.35 %     11.76 %         5.88 %  29.41 %
// CHECK-NEXT:twice           2.42 %   4.03 %      9.68 %         6.45 %  22.58 %
// CHECK-NEXT:by_hand        17.31 %  21.15 %     25.00 %        13.46 %  76.92 %
// CHECK-EMPTY:
// CHECK-NEXT:- fastest: twice, 3.23 % ahead of gpipe
// CHECK-NEXT:- workers idle mostly by dependency in twice (9.68 % of the step)
// CHECK-NEXT:- workers idle mostly by fill and drain in gpipe, one_f_one_b and by_hand (11.76 % to 38.46 % of the step)
// CHECK-NEXT:- formula and table have gpipe (20.00 %) and one_f_one_b (20.00 %) equal; execution puts gpipe (25.00 %) before one_f_one_b (29.41 %)
//  CHECK-NOT:{{.+}}

// BLOCKING: - workers idle mostly by communication in
// BLOCKING: formula and table have gpipe (20.00 %) and one_f_one_b (20.00 %) equal; execution puts one_f_one_b (33.33 %) before gpipe (36.84 %)

pipe.schedule @gpipe workers 2 microbatches 4 profile <"F=10us,B=20us,comm=5us"> {
  path on [0, 1]
}
pipe.schedule @one_f_one_b workers 2 microbatches 4 profile <"F=10us,B=20us,comm=5us"> {
  path on [0, 1]
}
pipe.schedule @twice workers 2 microbatches 8 profile <"F=10us,B=20us,comm=5us"> {
  path on [0, 1]
}
exec.program @by_hand profile <"F=10us,B=20us,comm=35us"> {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %sg0 = send 1B0 to 0 after %b0
  }
}
