// RUN: pipesched-opt %s -verify-diagnostics --pass-pipeline='builtin.module(pipe-optimize{time-limit=1})'
// RUN: sed 's/1000000/100/; /expected/d' %s | pipesched-opt --pass-pipeline='builtin.module(pipe-optimize{time-limit=1})' -o /dev/null

// A problem whose cells take longer than the limit is refused before they are read.

// expected-error @+1 {{'pipe.schedule' op the problem has 12000000 cells, for which a search takes at least about 60 s; 0.75 s of the time limit are there for it: give more time, or fewer microbatches}}
pipe.schedule @long workers 4 microbatches 1000000 profile <"F=1us,I=1us,W=1us"> {
  path on [0, 1, 2, 3]
}
