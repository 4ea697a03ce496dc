pipe.schedule @s workers 2 microbatches 2 {
  path on [0, 1] takes [0] blocks [2, 4]
  path on [1, 0] takes [1] weights [1, 1]
  worker 0 runs [0F0 1F1 1B1 0B0 0G0 1G1 0O0 1O1]
  worker 1 runs [0F1 1F0 1B0 0B1 0G1 1G0 0O1 1O0]
}
