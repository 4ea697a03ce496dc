// RUN: pipesched-opt %s --verify-roundtrip --exec-verify | FileCheck %s
// RUN: pipesched-opt %s --exec-verify=messages=rendezvous -o /dev/null
// RUN: pipesched-opt %s --exec-verify=messages=pairs -o /dev/null
// RUN: pipesched-opt %s --exec-annotate-timeline | FileCheck %s --check-prefix=TIME
// RUN: pipesched-opt %s --emit-bytecode | pipesched-opt | FileCheck %s

// CHECK-LABEL: exec.program @lookups
// CHECK:       %a0 = reduce_lookups 0A0 after %e0
// CHECK:       %c0 = broadcast_gradient 0C0 after %b0
// Worker 0 continues with E1 during A0, and its F waits only for the sum: both E0 end at 3,
// and A takes 4.
// TIME: compute 0E1 {exec.end_ps = 6 : i64, exec.start_ps = 3 : i64}
// TIME: compute 0F0 after %{{.*}} {exec.end_ps = 17 : i64, exec.start_ps = 7 : i64}
// The gradient of the first stage goes to both, and takes 2.
// TIME: compute 0B0 after {{.*}} {exec.end_ps = 67 : i64, exec.start_ps = 47 : i64}
// TIME: compute 0V0 after %{{.*}} {exec.end_ps = 74 : i64, exec.start_ps = 69 : i64}
// TIME: compute 1V0 after %{{.*}} {exec.end_ps = 74 : i64, exec.start_ps = 69 : i64}
exec.program @lookups workers 2 microbatches 2
    profile <"F=10ps,B=20ps,E=3ps,A=4ps,C=2ps,V=5ps"> {
  pipe.path on [0, 1]
  worker 0 {
    %e0 = compute 0E0
    %a0 = reduce_lookups 0A0 after %e0
    %e1 = compute 0E1
    %f0 = compute 0F0 after %a0
    %sf0 = send 0F0 to 1 after %f0
    %grad0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %grad0
    %c0 = broadcast_gradient 0C0 after %b0
    %v0 = compute 0V0 after %c0
  }
  worker 1 {
    %e0 = compute 1E0
    %a0 = reduce_lookups 1A0 after %e0
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %sb0 = send 1B0 to 0 after %b0
    %c0 = broadcast_gradient 1C0 after %b0
    %v0 = compute 1V0 after %c0
  }
}
