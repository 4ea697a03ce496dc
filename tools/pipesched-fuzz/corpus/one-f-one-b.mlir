pipe.schedule @s workers 4 microbatches 4 family "1f1b" {
  path on [0, 1, 2, 3]
  worker 0 runs [0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3]
  worker 1 runs [1F0 1F1 1F2 1B0 1F3 1B1 1B2 1B3]
  worker 2 runs [2F0 2F1 2B0 2F2 2B1 2F3 2B2 2B3]
  worker 3 runs [3F0 3B0 3F1 3B1 3F2 3B2 3F3 3B3]
}
