// RUN: split-file %s %t
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h100-sxm},pipe-attach-system{name=toy})' | FileCheck %s
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=dgx-h100 rates=data-sheet})' | FileCheck %s --check-prefix=DGX
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=mid_nw_mid_cp})' | FileCheck %s --check-prefix=PAPER
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/x.json})' | FileCheck %s --check-prefix=FILE
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{file=%t/shared.json})' | FileCheck %s --check-prefix=SHARED
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=h100 rates=data-sheet accelerators=2 data-parallel=16 sharding=optimizer rank-order=pipeline context-parallel=2 expert-parallel=8 expert-balance=1.25 context-exchange=gather expert-dispatch=per-node used-per-node=64 kernel-launch=graphs tensor-exposed=75 expert-exposed=20 gradient-buckets=layers slice-cut=4930,4238,3776,3440 slice-exchange=pairs pair-order=best expert-tensor=2 shard-groups=2 tensor-overlap=backward})' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PARALLEL
// RUN: pipesched-opt %t/s.mlir --pass-pipeline='builtin.module(pipe-attach-system{name=toy data-parallel=1 sharding=none rank-order=data context-parallel=1 expert-parallel=1 expert-balance=1 context-exchange=ring expert-dispatch=all-to-all used-per-node=65536 kernel-launch=single tensor-exposed=100 expert-exposed=100 gradient-buckets=auto slice-cut=tokens slice-exchange=none pair-order=deepseek expert-tensor=1 shard-groups=1 tensor-overlap=none})' | FileCheck %s

// The module keeps the last system.
// CHECK: module attributes {dlti.target_system_spec = #dlti.target_system_spec<
// CHECK-SAME: "worker" = #pipe.worker_spec<name = "toy", accelerators = 1, matrix = <flops_per_s = 1000000000000>, vector = <flops_per_s = 100000000000>, memory = <bytes_per_s = 100000000000>, memory_bytes = 10000000000, host = <bytes_per_s = 20000000000>,
// CHECK-SAME: "network" = #pipe.network_spec<bytes_per_s = 10000000000, latency_ps = 1000000>>} {
// CHECK-NEXT: pipe.schedule @s workers 2 microbatches 8 {

// DGX: accelerators = 8, matrix = <flops_per_s = 989400000000000, efficiency = <0 : 0.077, 1000000000 : 0.46, 16000000000 : 0.69, 128000000000 : 0.728>, fp8_flops_per_s = 1978900000000000>
// DGX-SAME: memory_bytes = 84900000000, attention = [<kernel = "flash-2", head_size = 64, {{.*}}<kernel = "flash-2", head_size = 128, flops_per_s = 335000000000000, forward = <512 : 0.570149, {{.*}}backward = <512 : 0.638806, {{.*}}>>], link = <bytes_per_s = 450000000000, latency_ps = 10000000, efficiency = <0.65>>
// DGX-SAME: "network" = #pipe.network_spec<bytes_per_s = 400000000000, latency_ps = 20000000, efficiency = <0.9>>

// PAPER: name = "baseline", accelerators = 1, matrix = <flops_per_s = 1000000000000000, efficiency = <0.4254>>
// PAPER-SAME: memory = <bytes_per_s = 34000000000000, latency_ps = 50000, efficiency = <0.4207>>

// PARALLEL: pipe-attach-system{accelerators=2 context-exchange=gather context-parallel=2 data-parallel=16 expert-balance=1.250000e+00 expert-dispatch=per-node expert-exposed=20 expert-parallel=8 expert-tensor=2 file= gradient-buckets=layers kernel-launch=graphs name=h100 pair-order=best rank-order=pipeline rates=data-sheet shard-groups=2 sharding=optimizer slice-cut=4930,4238,3776,3440 slice-exchange=pairs tensor-exposed=75 tensor-overlap=backward used-per-node=64}
// PARALLEL: "worker" = #pipe.worker_spec<name = "h100-sxm", accelerators = 2, matrix = <{{.*}}, fp8_flops_per_s = 1978900000000000>
// PARALLEL-SAME: accelerators_per_node = 8, data_parallel = 16, sharding = "optimizer", rank_order = "pipeline", context_parallel = 2, expert_parallel = 8, expert_balance_ppm = 1250000, context_exchange = "gather", expert_dispatch = "per-node", used_per_node = 64, kernel_launch = "graphs", tensor_exposed = 75, gradient_buckets = "layers", expert_exposed = 20, slice_cut = [4930, 4238, 3776, 3440], slice_exchange = "pairs", pair_order = "best", expert_tensor = 2, shard_groups = 2, tensor_overlap = "backward",

// FILE: name = "x", accelerators = 1, matrix = <flops_per_s = 1500000000000, latency_ps = 2500000>
// FILE-SAME: memory = <bytes_per_s = 100000000000, efficiency = <1000000 : 0.5, 2500000 : 1.0>>
// FILE-SAME: "network" = #pipe.network_spec<bytes_per_s = 500000000, latency_ps = 1>

// A quarter of the multiprocessors only communicate, and the load lowers the rates of the others by a fifth.
// SHARED: matrix = <flops_per_s = 2400000000000, efficiency = <0.5>, fp8_flops_per_s = 4800000000000, fp8_efficiency = <2000000000 : 0.25, 8000000000 : 0.75>>, vector = <flops_per_s = 750000000000>
// SHARED-SAME: peak_share_ppm = 600000

//--- s.mlir
pipe.schedule @s workers 2 microbatches 8 {
  path on [0, 1]
}

//--- x.json
{"name": "x", "description": "d",
 "matrix": {"tflops": 1.5, "latency_us": 2.5}, "vector": {"tflops": 0.000001},
 "memory": {"capacity_gb": 0.5, "bandwidth_gb_per_s": 100,
            "efficiency_by_mb": [[1, 0.5], [2.5, 1]]},
 "network": {"bandwidth_gb_per_s": 0.5, "latency_us": 0.000001}}

//--- shared.json
{"name": "x", "description": "d",
 "multiprocessors": {"count": 16, "communication": 4}, "sustained": 0.8,
 "matrix": {"tflops": 4, "efficiency": 0.5, "fp8_tflops": 8,
            "fp8_efficiency_by_gflop": [[2, 0.25], [8, 0.75]]},
 "vector": {"tflops": 1},
 "memory": {"capacity_gb": 1, "bandwidth_gb_per_s": 1},
 "network": {"bandwidth_gb_per_s": 1}}
