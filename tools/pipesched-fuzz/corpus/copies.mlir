pipe.schedule @copies workers 1 microbatches 2 {
  path on [0]
  worker 0 runs [0F0 0D0 0d0 0F1 0U0 0R0 0u0 0I0 0W0 0R1 0B1]
}
