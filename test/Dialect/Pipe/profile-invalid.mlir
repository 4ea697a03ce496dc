// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
@@

// profile_c1: nothing given
// error: expected times such as F=1ms, found nothing
#p = #pipe.profile<"">
// profile_c1: an unknown name
// error: unknown name 'com', the closest is 'comm'
#p = #pipe.profile<"F=1ms,com=1ms">
// profile_c1: a name twice
// error: 'F' is given twice
#p = #pipe.profile<"F=1ms,F=1ms">
// profile_c2: negative
// error: F: expected a time of at least 0, found '-1ms'
#p = #pipe.profile<"F=-1ms">
// profile_c2: no unit
// error: F: expected a unit (ps, ns, us, ms or s) after '1', found ''
#p = #pipe.profile<"F=1">
// profile_c2: not a number
// error: F: expected a time such as 1.5ms, found 'nan'
#p = #pipe.profile<"F=nan">
// profile_c2: finer than a picosecond
// error: F: '0.1ps' is finer than a picosecond
#p = #pipe.profile<"F=0.1ps">
// profile_c2: over 64 bits
// error: F: '9223373s' is over 2^63 - 1 ps
#p = #pipe.profile<"F=9223373s">
// profile_c1: a name that does not differ by microbatch
// error: unknown name 'microbatches.FB', the closest is 'F'
#p = #pipe.profile<"microbatches.FB=[1ms]">
// profile_c1: a name twice, once by microbatch
// error: 'F' is given twice: microbatches.F has its times by microbatch
#p = #pipe.profile<"F=1ms,microbatches.F=[1ms]">
// profile_c2: no list of microbatches
// error: microbatches.F: expected a list of times, one for each microbatch, found '1ms'
#p = #pipe.profile<"microbatches.F=1ms">
// profile_c2: a list of lists with a time
// error: microbatches.F: expected a list of times, one for each microbatch, found '2ms]'
#p = #pipe.profile<"microbatches.F=[[1ms],2ms]">
