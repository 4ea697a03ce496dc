pipe.schedule @v workers 4 microbatches 8 {
  path on [0, 1, 2, 3, 3, 2, 1, 0]
}
