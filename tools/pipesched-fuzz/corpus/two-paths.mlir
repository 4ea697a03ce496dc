pipe.schedule @chimera workers 4 microbatches 4 family "chimera" {pairs = 1} {
  path on [0, 1, 2, 3] takes [0, 1]
  path on [3, 2, 1, 0] takes [2:4]
  worker 0 runs [0F0 0F1 3F2 3B2 3F3 3B3 0B0 0B1]
  worker 1 runs [1F0 2F2 1F1 2B2 2F3 2B3 1B0 1B1]
  worker 2 runs [1F2 2F0 1F3 2B0 2F1 2B1 1B2 1B3]
  worker 3 runs [0F2 0F3 3F0 3B0 3F1 3B1 0B2 0B3]
}
