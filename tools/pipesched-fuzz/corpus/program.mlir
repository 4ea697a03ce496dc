exec.program @two_stages workers 2 microbatches 1 {
  pipe.path on [0, 1]
  worker 0 {
    %f0 = compute 0F0 flops 8000 bytes 100 memory 64
    %s0 = send 0F0 to 1 after %f0 bytes 1024
    %d0 = offload 0D0 after %f0
    wait after %d0
    %u0 = reload 0U0 after %d0
    %g0 = recv 1B0 from 1
    %b0 = compute 0B0 after %f0, %g0, %u0 memory -64
  }
  worker 1 {
    %act0 = recv 0F0 from 0
    %f0 = compute 1F0 after %act0
    %b0 = compute 1B0 after %f0
    %sg0 = send 1B0 to 0 after %b0
  }
}
