pipe.schedule @p workers 2 microbatches 4 {
  path on [1, 0]
}
