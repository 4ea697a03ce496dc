pipe.schedule @halves workers 4 microbatches 16 {
  path on [0, 1, 2, 3] takes [0:8]
  path on [3, 2, 1, 0] takes [8:16]
}
