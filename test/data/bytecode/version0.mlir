module {
  pipe.schedule @all_phases workers 2 microbatches 2 gradient after W slots <F = 2, B = 5, I = 2, W = 3, R = 2> {
    path on [0, 1]
    worker 0 runs [0F0 0D0 0F1 0d0 _3 0U0 0u0 0I0 0W0 0R1 0B1 0O0]
    worker 1 runs [1F0+1F1 1B0 _ 1I1 1W1]
  }
  pipe.schedule @replicas workers 2 microbatches 2 {
    path on [0] takes [0]
    path on [1] takes [1]
    worker 0 runs [0F0 0B0 0G0 0O0]
    worker 1 runs [0F1 0B1 0G1 0O1]
  }
  exec.program @program workers 1 microbatches 1 {
    pipe.path on [0]
    worker 0 {
      %f0 = compute 0F0
      %d0 = offload 0D0 after %f0
      %u0 = reload 0U0 after %d0
      %b0 = compute 0B0 after %f0, %u0
    }
  }
}

