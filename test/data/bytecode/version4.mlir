module {
  pipe.model @toy microbatch_size 2 boundary_bytes 4096 state_bytes [2, 2, 12] sequence 1024 source "made up" {
    block "layer" x 4 parameters 500 activation_bytes 9000 {
      kernel "linear" on matrix F <1000 flops, 800 bytes>
    }
  }
}

