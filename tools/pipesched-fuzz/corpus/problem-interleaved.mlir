pipe.schedule @interleaved workers 2 microbatches 4 {
  path on [0, 1, 0, 1]
}
