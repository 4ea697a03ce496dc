// RUN: pipesched-opt %s -split-input-file | FileCheck %s
// RUN: pipesched-opt-raw %s -split-input-file --emit-bytecode -o %t.bc

// Fields print in a fixed order, shares as decimals; defaults are not printed.
// CHECK: module attributes {dlti.target_system_spec = #dlti.target_system_spec<
// CHECK-SAME: "worker" = #pipe.worker_spec<name = "w", accelerators = 8,
// CHECK-SAME: matrix = <flops_per_s = 989400000000000, latency_ps = 2000, efficiency = <0 : 0.077, 1000000000 : 0.46, 128000000000 : 0.728>>,
// CHECK-SAME: vector = <flops_per_s = 100>, memory = <bytes_per_s = 3350000000000, efficiency = <0.4207>>, memory_bytes = 80000000000,
// CHECK-SAME: link = <bytes_per_s = 450000000000, latency_ps = 10000000, efficiency = <0.65>>,
// CHECK-SAME: host = <bytes_per_s = 1>, no_overlap = true, source = "made up">,
// CHECK-SAME: "network" = #pipe.network_spec<bytes_per_s = 400000000000, latency_ps = 5, efficiency = <1.0>>>}
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
  "worker" = #pipe.worker_spec<source = "made up", accelerators = 8, name = "w",
    no_overlap = true,
    link = <efficiency = <0.65>, latency_ps = 10000000, bytes_per_s = 450000000000>,
    matrix = <flops_per_s = 989400000000000, latency_ps = 2000,
      efficiency = <0 : 0.077, 1000000000 : 0.460000, 128000000000 : 7.28e-1>>,
    vector = <flops_per_s = 100, latency_ps = 0>,
    memory = <bytes_per_s = 3350000000000, efficiency = <0.4207>>,
    memory_bytes = 80000000000, host = <bytes_per_s = 1>>,
  "network" = #pipe.network_spec<efficiency = <1>, latency_ps = 5,
    bytes_per_s = 400000000000>>} {
}

// -----

// The smallest system; the attributes are also valid by themselves.
// CHECK: test.curve = #pipe.efficiency<5 : 0.000001, 6 : 1.0>
// CHECK-SAME: test.engine = #pipe.engine_spec<flops_per_s = 7>
// CHECK-SAME: test.link = #pipe.link_spec<bytes_per_s = 8, latency_ps = 9>
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      memory = <bytes_per_s = 1>, memory_bytes = 1>,
    "network" = #pipe.network_spec<bytes_per_s = 1>>,
  test.curve = #pipe.efficiency<5 : 0.000001, 6 : 1>,
  test.engine = #pipe.engine_spec<flops_per_s = 7>,
  test.link = #pipe.link_spec<bytes_per_s = 8, latency_ps = 9>} {
}

// -----

// Nodes and pipelines; the default of a choice is not printed.
// CHECK: "worker" = #pipe.worker_spec<name = "many", accelerators = 4,
// CHECK-SAME: matrix = <flops_per_s = 1, efficiency = <0.5>, fp8_flops_per_s = 2, fp8_efficiency = <1000 : 0.25, 2000 : 0.75>, fp4_flops_per_s = 3>,
// CHECK-SAME: link = <bytes_per_s = 3>, accelerators_per_node = 8, data_parallel = 16, sharding = "full", rank_order = "pipeline", context_parallel = 2, expert_parallel = 32, expert_balance_ppm = 1500000, context_exchange = "gather", expert_dispatch = "per-node">,
// CHECK: test.worker = #pipe.worker_spec<name = "plain", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, data_parallel = 1, sharding = "none", rank_order = "data", context_parallel = 1, expert_parallel = 1, expert_balance_ppm = 1000000, context_exchange = "ring", expert_dispatch = "all-to-all">
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "many", accelerators = 4,
      expert_dispatch = "per-node", context_exchange = "gather",
      expert_balance_ppm = 1500000, expert_parallel = 32, context_parallel = 2,
      rank_order = "pipeline", sharding = "full", data_parallel = 16,
      accelerators_per_node = 8, link = <bytes_per_s = 3>,
      matrix = <fp8_efficiency = <1000 : 0.25, 2000 : 0.75>, fp4_flops_per_s = 3,
        fp8_flops_per_s = 2, flops_per_s = 1, efficiency = <0.5>>,
      vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>,
      memory_bytes = 1>,
    "network" = #pipe.network_spec<bytes_per_s = 1>>,
  test.worker = #pipe.worker_spec<name = "plain", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      memory = <bytes_per_s = 1>, memory_bytes = 1,
      data_parallel = 1, sharding = "none", rank_order = "data",
      context_parallel = 1, expert_parallel = 1, expert_balance_ppm = 1000000,
      context_exchange = "ring", expert_dispatch = "all-to-all">} {
}

// -----

// Sizes in place of a word.
// CHECK: test.word = #pipe.worker_spec<{{.*}} memory_bytes = 1, slice_cut = "work">,
// CHECK-SAME: test.worker = #pipe.worker_spec<name = "cut", accelerators = 1, {{.*}} memory_bytes = 1, slice_cut = [4930, 4238, 3776, 3440], slice_exchange = "pairs", pair_order = "fluid">
module attributes {
  test.worker = #pipe.worker_spec<name = "cut", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      memory = <bytes_per_s = 1>, memory_bytes = 1, slice_exchange = "pairs",
      pair_order = "fluid",
      slice_cut = [4930, 4238, 3776, 3440]>,
  test.word = #pipe.worker_spec<name = "cut", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      memory = <bytes_per_s = 1>, memory_bytes = 1, slice_cut = "work">} {
}

// -----

// Pods, and the spine between them.
// CHECK: "worker" = #pipe.worker_spec<name = "pods", {{.*}} accelerators_per_node = 2, accelerators_per_pod = 8, data_parallel = 4>,
// CHECK-SAME: "network" = #pipe.network_spec<bytes_per_s = 5>, "spine" = #pipe.network_spec<bytes_per_s = 1, latency_ps = 3>>
module attributes {dlti.target_system_spec = #dlti.target_system_spec<
    "worker" = #pipe.worker_spec<name = "pods", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 9>,
      accelerators_per_node = 2, accelerators_per_pod = 8, data_parallel = 4>,
    "network" = #pipe.network_spec<bytes_per_s = 5>,
    "spine" = #pipe.network_spec<latency_ps = 3, bytes_per_s = 1>>} {
}

// -----

// Rates of attention kernels.
// CHECK: test.rates = #pipe.attention_rates<kernel = "cudnn", head_size = 64, flops_per_s = 7, forward = <0.5>, backward = <0.8>>,
// CHECK-SAME: test.worker = #pipe.worker_spec<name = "fast", {{.*}} memory_bytes = 1, attention = [<kernel = "flash-2", head_size = 64, flops_per_s = 7, forward = <512 : 0.5, 1024 : 1.0>, backward = <0.8>>, <kernel = "flash-2", head_size = 128, flops_per_s = 8, forward = <1.0>, backward = <1.0>>]>
module attributes {
  test.worker = #pipe.worker_spec<name = "fast", accelerators = 1,
      matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>,
      attention = [<kernel = "flash-2", head_size = 64, flops_per_s = 7,
          backward = <0.8>, forward = <512 : 0.5, 1024 : 1.0>>,
        <kernel = "flash-2", head_size = 128, flops_per_s = 8,
          forward = <1.0>, backward = <1.0>>],
      memory = <bytes_per_s = 1>, memory_bytes = 1>,
  test.rates = #pipe.attention_rates<kernel = "cudnn", head_size = 64,
      flops_per_s = 7, forward = <0.5>, backward = <0.8>>} {
}
