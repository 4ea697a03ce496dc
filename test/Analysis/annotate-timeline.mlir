// RUN: pipesched-opt %s -exec-annotate-timeline -split-input-file | FileCheck %s --check-prefixes=CHECK,OVERLAP
// RUN: pipesched-opt %s -exec-annotate-timeline=transport=delay -split-input-file | FileCheck %s --check-prefixes=CHECK,DELAY
// RUN: pipesched-opt %s -exec-annotate-timeline=transport=blocking -split-input-file | FileCheck %s --check-prefixes=CHECK,BLOCKING

// 1F1B on two workers, computed by hand. F takes 3, B 4, a message holds its queues for
// 4 and arrives 5 later.
//
//   overlap    0: F0 0-3   F1 3-6                        B0 28-32    B1 35-39
//              s: 0F0 3-7, 0F1 7-11
//              1: F0 12-15 B0 15-19 F1 19-22 B1 22-26    s: 1B0 19-23, 1B1 26-30
//   delay      as overlap, but 0F1 leaves at 6 and arrives at 15
//   blocking   0: F0 0-3 s 3-12 F1 12-15 s 15-24         B0 37-41    B1 53-57
//              1: F0 12-15, waits for 0F1 until 24, B0 24-28 s 28-37 F1 37-40
//                 B1 40-44 s 44-53

// CHECK-LABEL: exec.program @one_f_one_b
// CHECK:         %f0 = compute 0F0 {exec.end_ps = 3 : i64, exec.start_ps = 0 : i64}
// OVERLAP-NEXT:  send 0F0 {{.*}} {exec.end_ps = 7 : i64, exec.start_ps = 3 : i64}
// OVERLAP-NEXT:  compute 0F1 {exec.end_ps = 6 : i64, exec.start_ps = 3 : i64}
// OVERLAP-NEXT:  send 0F1 {{.*}} {exec.end_ps = 11 : i64, exec.start_ps = 7 : i64}
// OVERLAP-NEXT:  recv 1B0 {{.*}} {exec.end_ps = 28 : i64, exec.start_ps = 19 : i64}
// OVERLAP-NEXT:  compute 0B0 {{.*}} {exec.end_ps = 32 : i64, exec.start_ps = 28 : i64}
// OVERLAP-NEXT:  recv 1B1 {{.*}} {exec.end_ps = 35 : i64, exec.start_ps = 26 : i64}
// OVERLAP-NEXT:  compute 0B1 {{.*}} {exec.end_ps = 39 : i64, exec.start_ps = 35 : i64}
// OVERLAP:       recv 0F0 {{.*}} {exec.end_ps = 12 : i64, exec.start_ps = 3 : i64}
// OVERLAP-NEXT:  compute 1F0 {{.*}} {exec.end_ps = 15 : i64, exec.start_ps = 12 : i64}
// OVERLAP-NEXT:  recv 0F1 {{.*}} {exec.end_ps = 16 : i64, exec.start_ps = 7 : i64}
// OVERLAP-NEXT:  compute 1B0 {{.*}} {exec.end_ps = 19 : i64, exec.start_ps = 15 : i64}
// OVERLAP-NEXT:  send 1B0 {{.*}} {exec.end_ps = 23 : i64, exec.start_ps = 19 : i64}
// OVERLAP-NEXT:  compute 1F1 {{.*}} {exec.end_ps = 22 : i64, exec.start_ps = 19 : i64}
// OVERLAP-NEXT:  compute 1B1 {{.*}} {exec.end_ps = 26 : i64, exec.start_ps = 22 : i64}
// OVERLAP-NEXT:  send 1B1 {{.*}} {exec.end_ps = 30 : i64, exec.start_ps = 26 : i64}
// DELAY:         recv 0F1 {{.*}} {exec.end_ps = 15 : i64, exec.start_ps = 6 : i64}
// BLOCKING:      send 1B1 {{.*}} {exec.end_ps = 53 : i64, exec.start_ps = 44 : i64}
exec.program @one_f_one_b profile <"F=3ps,B=4ps,send=4ps,comm=5ps"> {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0
    %g1 = recv 1B1 from 1
    %b1 = compute 0B1 after %f1, %g1
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %act1 = recv 0F1 from 0
    %b0 = compute 1B0 after %f0
    %sg0 = send 1B0 to 0 after %b0
    %f1 = compute 1F1 after %act1
    %b1 = compute 1B1 after %f1
    %sg1 = send 1B1 to 0 after %b1
  }
}

// -----

// Copies run in parallel with compute, each direction in its own queue. A wait holds
// the next compute and takes no time. An overlapped pair is one task.

// CHECK-LABEL: exec.program @copies
// CHECK:      compute 0F0 {exec.end_ps = 3 : i64, exec.start_ps = 0 : i64}
// CHECK-NEXT: offload 0D0 {{.*}} {exec.end_ps = 13 : i64, exec.start_ps = 3 : i64}
// CHECK-NEXT: compute 0F1 {exec.end_ps = 6 : i64, exec.start_ps = 3 : i64}
// CHECK-NEXT: offload 0D1 {{.*}} {exec.end_ps = 23 : i64, exec.start_ps = 13 : i64}
// CHECK-NEXT: reload 0U0 {{.*}} {exec.end_ps = 20 : i64, exec.start_ps = 13 : i64}
// CHECK-NEXT: wait after %d0{{$}}
// CHECK-NEXT: compute 0F2 {exec.end_ps = 16 : i64, exec.start_ps = 13 : i64}
// CHECK-NEXT: compute 0F3+0B0 {{.*}} {exec.end_ps = 26 : i64, exec.start_ps = 20 : i64}
exec.program @copies profile <"F=3ps,B=4ps,FB=6ps,D=10ps,U=7ps"> {
  worker 0 {
    %f0 = compute 0F0
    %d0 = offload 0D0 after %f0
    %f1 = compute 0F1
    %d1 = offload 0D1 after %f1
    %u0 = reload 0U0 after %d0
    wait after %d0
    %f2 = compute 0F2
    %f3_b0 = compute 0F3+0B0 after %f0, %u0
  }
}

// -----

// Attributes from an earlier run are replaced; other attributes stay.

// CHECK-LABEL: exec.program @again
// CHECK:      compute 0F0 {exec.end_ps = 1000000 : i64, exec.start_ps = 0 : i64, test.a}
// CHECK-NEXT: wait after %f0{{$}}
exec.program @again {
  worker 0 {
    %f0 = compute 0F0 {exec.end_ps = 7 : i64, exec.start_ps = 6 : i64, test.a}
    wait after %f0 {exec.end_ps = 7 : i64}
  }
}
