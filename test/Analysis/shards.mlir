// RUN: pipesched-translate --export-report %s | FileCheck %s

// Times by hand, on two workers with one microbatch: F0 and F1, X, S, Y, T, Z, B1, B0,
// with 3 for a message in between: 10+3+10+4+7+3+5+2+20+3+20 = 87.
// CHECK: "schedule": "vocab1"
// CHECK: "makespan_ps": 87
// Vocab-2 has no Z, and B1 waits for Y and not for T: 7 less.
// CHECK: "schedule": "vocab2"
// CHECK: "makespan_ps": 80
pipe.schedule @vocab1 workers 2 microbatches 1
    profile <"F=10ps,B=20ps,S=7ps,T=5ps,X=4ps,Y=3ps,Z=2ps,comm=3ps"> {
  path on [0, 1]
  worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0Z0 0B0]
  worker 1 runs [1F0 1X0 1S0 1Y0 1T0 1Z0 1B0]
}
pipe.schedule @vocab2 workers 2 microbatches 1
    profile <"F=10ps,B=20ps,S=7ps,T=5ps,X=4ps,Y=3ps,Z=2ps,comm=3ps"> {
  path on [0, 1]
  worker 0 runs [0F0 0X0 0S0 0Y0 0T0 0B0]
  worker 1 runs [1F0 1X0 1S0 1Y0 1B0 1T0]
}
