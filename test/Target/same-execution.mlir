// A schedule and its lowered program have the same times, to the picosecond, under
// every transport and placement of receives: here with copies and all-reduces, for families see
// unittests/Adapter/LoadProgramTest.cpp.

// RUN: pipesched-opt %s -o %t.schedules \
// RUN:   --pass-pipeline='builtin.module(pipe-verify)'
// RUN: pipesched-opt %t.schedules -o %t.arrival \
// RUN:   --pass-pipeline='builtin.module(convert-pipe-to-exec)'
// RUN: pipesched-opt %t.schedules -o %t.consumer \
// RUN:   --pass-pipeline='builtin.module(convert-pipe-to-exec{receive-placement=consumer})'

// RUN: pipesched-translate --export-report --transport=overlap %t.schedules -o %t.pipe
// RUN: pipesched-translate --export-report --transport=overlap %t.arrival -o %t.exec
// RUN: %python %S/Inputs/same-execution.py %t.pipe %t.exec | FileCheck %s
// RUN: pipesched-translate --export-report --transport=delay %t.schedules -o %t.pipe
// RUN: pipesched-translate --export-report --transport=delay %t.arrival -o %t.exec
// RUN: %python %S/Inputs/same-execution.py %t.pipe %t.exec | FileCheck %s
// RUN: pipesched-translate --export-report --transport=blocking %t.schedules -o %t.pipe
// RUN: pipesched-translate --export-report --transport=blocking %t.arrival -o %t.exec
// RUN: %python %S/Inputs/same-execution.py %t.pipe %t.exec | FileCheck %s

// RUN: pipesched-translate --export-report --transport=overlap \
// RUN:   --receive-placement=consumer %t.schedules -o %t.pipe
// RUN: pipesched-translate --export-report --transport=overlap %t.consumer -o %t.exec
// RUN: %python %S/Inputs/same-execution.py %t.pipe %t.exec | FileCheck %s
// RUN: pipesched-translate --export-report --transport=blocking \
// RUN:   --receive-placement=consumer %t.schedules -o %t.pipe
// RUN: pipesched-translate --export-report --transport=blocking %t.consumer -o %t.exec
// RUN: %python %S/Inputs/same-execution.py %t.pipe %t.exec | FileCheck %s

// CHECK: 8 schedules are timed alike

pipe.schedule @copies workers 2 microbatches 2
    profile <"F=10us,B=21us,R=9us,D=15us,U=16us,comm=2us,send=3us"> {
  path on [0, 1]
  worker 0 runs [0F0 0D0 0F1 0U0 0u0 0R1 0B0 0B1]
  worker 1 runs [1F0 1B0 1F1 1B1]
}
pipe.schedule @reduced_at_the_end workers 2 microbatches 2
    profile <"F=10us,B=21us,G=15us,O=4us,comm=2us,send=3us"> {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 0B0 0G0 1G1 0O0 1O1]
  worker 1 runs [0F1 1F0 1B0 0B1 0G1 1G0 0O1 1O0]
}
pipe.schedule @reduced_eagerly workers 2 microbatches 2
    profile <"F=10us,B=21us,G=[15us,16us],O=4us,comm=2us,send=3us"> {
  path on [0, 1] takes [0]
  path on [1, 0] takes [1]
  worker 0 runs [0F0 1F1 1B1 1G1 0B0 0G0 1O1 0O0]
  worker 1 runs [0F1 1F0 1B0 1G0 0B1 0G1 1O0 0O1]
}
pipe.schedule @reduced_in_pieces workers 3 microbatches 2
    profile <"F=10us,B=21us,G=15us,O=4us,comm=2us,send=3us"> {
  path on [0, 1] takes [0] blocks [4, 2]
  path on [2, 2] takes [1] blocks [2, 4]
  worker 0 runs [0F0 0B0 0G0 0O0]
  worker 1 runs [1F0 1B0 1G0 1O0]
  worker 2 runs [0F1 1F1 1B1 0B1 0G1 1G1 0O1 1O1]
}

// Worker 1 steps the middle of the model once, worker 0 in part for both paths.
pipe.schedule @crossing workers 3 microbatches 2
    profile <"F=10us,B=21us,G=15us,O=4us,comm=2us,send=3us"> {
  path on [0, 1, 2] takes [0]
  path on [2, 1, 0] takes [1]
  worker 0 runs [0F0 2F1 2B1 0B0 0G0 2G1 0O0 2O1]
  worker 1 runs [1F0 1F1 1B0 1B1 1G0 1O0]
  worker 2 runs [0F1 2F0 2B0 0B1 0G1 2G0 0O1 2O0]
}
pipe.schedule @partly_shared workers 2 microbatches 2
    profile <"F=10us,B=21us,G=15us,O=6us,comm=2us,send=3us"> {
  path on [0, 1] takes [0] blocks [3, 3]
  path on [1, 0] takes [1] blocks [2, 4]
  worker 0 runs [0F0 0B0 1F1 1B1 0G0 1G1 0O0 1O1]
  worker 1 runs [1F0 1B0 0F1 0B1 0G1 1G0 0O1 1O0]
}

// Copies and joins, with slow copies in both directions that hold up compute.
pipe.schedule @slow_copies workers 2 microbatches 4
    profile <"F=10us,B=21us,D=17us,U=14us,comm=2us,send=3us"> {
  path on [0, 1]
  worker 0 runs [0F0 0D0 0F1 0D1 0d0 0F2 0D2 0d1 0d2 0F3 0D3 0U0 0u0 0B0 0U1 0B1 0U2 0B2 0U3 0B3]
  worker 1 runs [1F0 1F1 1D1 1F2 1B0 1U1 1d1 1F3 1u1 1B1 1B2 1B3]
}
pipe.schedule @split_copies workers 2 microbatches 3
    profile <"F=[10us,9us],I=12us,W=[7us,5us],R=4us,D=30us,U=[1us,40us],comm=2us"> {
  path on [0, 1]
  worker 0 runs [0F0 0D0 0F1 0D1 0d1 0F2 0U0 0I0 0W0 0U1 0u1 0R2 0I1 0W1 0I2 0W2]
  worker 1 runs [1F0 1I0 1F1 1D1 1W0 1U1 1I1 1F2 1W1 1R2 1I2 1W2]
}
