pipe.schedule @wave workers 2 microbatches 4 {
  path on [0, 1, 1, 0, 0, 1, 1, 0]
}
