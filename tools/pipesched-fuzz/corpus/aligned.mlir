pipe.schedule @aligned workers 2 microbatches 2 aligned {
  path on [0, 1]
  worker 0 runs [0F0 0F1 _2 0B0 _ 0B1]
  worker 1 runs [_ 1F0 1B0 1F1 1B1 _2]
}
