// RUN: pipesched-opt %s --verify-roundtrip --exec-verify | FileCheck %s
// RUN: pipesched-opt %s --exec-verify=messages=rendezvous -o /dev/null
// RUN: pipesched-opt %s --exec-verify=messages=pairs -o /dev/null
// RUN: pipesched-opt %s --exec-annotate-timeline | FileCheck %s --check-prefix=TIME
// RUN: pipesched-opt %s --emit-bytecode | pipesched-opt | FileCheck %s

// Worker 0 goes on with F1 while X0 and Y0 wait for worker 1, also where a message
// layer holds senders.
// CHECK-LABEL: exec.program @ahead
// CHECK:       %x0 = broadcast 0X0 after %f0
// CHECK:       %y0 = combine 0Y0 after %s0
// CHECK:       %z0 = reduce 0Z0 after %t0
// TIME: compute 0F1 {exec.end_ps = 20 : i64, exec.start_ps = 10 : i64}
// The group of X0 is complete at 20, when F0 of worker 1 ends, and takes 4.
// TIME: compute 0S0 after %{{.*}} {exec.end_ps = 31 : i64, exec.start_ps = 24 : i64}
// TIME: combine 0Y0 after %{{.*}} {exec.end_ps = 34 : i64, exec.start_ps = 31 : i64}
// TIME: compute 0T0 after %{{.*}} {exec.end_ps = 39 : i64, exec.start_ps = 34 : i64}
// TIME: reduce 0Z0 after %{{.*}} {exec.end_ps = 41 : i64, exec.start_ps = 39 : i64}
// TIME: compute 1B0 after {{.*}} {exec.end_ps = 61 : i64, exec.start_ps = 41 : i64}
exec.program @ahead workers 2 microbatches 2
    profile <"F=10ps,B=20ps,S=7ps,T=5ps,X=4ps,Y=3ps,Z=2ps"> {
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0
    %s = send 0F0 to 1 after %f0
    %x0 = broadcast 0X0 after %f0
    %f1 = compute 0F1
    %s0 = compute 0S0 after %x0
    %y0 = combine 0Y0 after %s0
    %t0 = compute 0T0 after %y0
    %z0 = reduce 0Z0 after %t0
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %x0 = broadcast 1X0 after %f0
    %s0 = compute 1S0 after %x0
    %y0 = combine 1Y0 after %s0
    %t0 = compute 1T0 after %y0
    %z0 = reduce 1Z0 after %t0
    %b0 = compute 1B0 after %f0, %y0, %z0
  }
}
