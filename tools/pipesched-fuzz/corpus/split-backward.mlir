pipe.schedule @split workers 2 microbatches 2 gradient after W {
  path on [0, 1]
  worker 0 runs [0F0 0F1 0I0 0W0 0I1 0W1 0O0]
  worker 1 runs [1F0 1I0 1W0 1F1 1I1 1W1 1O0]
}
