pipe.schedule @asymmetric workers 4 microbatches 8 {
  path on [0, 1, 2, 3] takes [0:8:2] weights [1, 1, 2, 2]
  path on [3, 2, 1, 0] takes [1:8:2] blocks [2, 2, 4, 4]
}
