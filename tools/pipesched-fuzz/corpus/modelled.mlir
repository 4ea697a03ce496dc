module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "toy", accelerators = 2,
      matrix = <flops_per_s = 1000000000000, latency_ps = 2000000, efficiency = <1000 : 0.1, 100000 : 0.6>>,
      vector = <flops_per_s = 1000000000000, latency_ps = 2000000>,
      memory = <bytes_per_s = 1000000000000, latency_ps = 0>,
      memory_bytes = 80000000000,
      link = <bytes_per_s = 450000000000, latency_ps = 1000000>,
      host = <bytes_per_s = 50000000000, latency_ps = 1000000>>,
    "network" = #pipe.network_spec<bytes_per_s = 1000000000, latency_ps = 1000>>} {
  pipe.model @toy microbatch_size 2 boundary_bytes 4096 state_bytes [2, 2, 12] {
    block "layer" x 4 parameters 500 activation_bytes 9000 weight_grad_bytes 6000 recomputed_bytes 4096 {
      kernel "linear" on matrix F <1000 flops, 800 bytes> I <1000 flops, 800 bytes> W <1000 flops, 800 bytes>
      kernel "reduce" on link F <0 flops, 4096 bytes> I <0 flops, 4096 bytes>
    }
  }
  pipe.schedule @s workers 2 microbatches 2 model @toy {
    path on [0, 1] blocks [1, 3]
    worker 0 runs [0F0 0F1 0B0 0B1]
    worker 1 runs [1F0 1R0 1B0 1F1 1B1]
  }
}
