module {
  pipe.schedule @rows workers 2 microbatches 2 family "1f1b" {
    path on [0, 1]
    worker 0 runs [0F0 0F1 0B0 0B1]
    worker 1 runs [1F0 1B0 1F1 1B1]
  }
  exec.program @programs workers 2 microbatches 1 {
    pipe.path on [0, 1]
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
}
