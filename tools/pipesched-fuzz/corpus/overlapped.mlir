pipe.schedule @overlapped workers 2 microbatches 2 profile <"F=1us,B=2us,FB=2500ns,comm=100ns,send=50ns"> {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0B0 0B1]
  worker 1 runs [1F0 1F1+1B0 1B1]
}
