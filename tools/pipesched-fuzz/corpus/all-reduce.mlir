exec.program @p workers 2 microbatches 2 {
  pipe.path on [0, 1] takes [0]
  pipe.path on [1, 0] takes [1]
  worker 0 {
    %0 = compute 0B0
    %1 = all_reduce 0G0 blocks 0 to 1 after %0 bytes 8
    %2 = compute 0O0 after %1
  }
  worker 1 {
    %0 = compute 0B1
    %1 = all_reduce 0G1 blocks 0 to 1 after %0 bytes 8
    wait after %1
    %2 = compute 0O1
  }
}
