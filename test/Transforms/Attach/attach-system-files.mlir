// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-system{file=%data/calculon/system.json})' 2>&1 | FileCheck %s
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-system{file=%data/calculon/system.json accelerators=8})' 2>&1 | FileCheck %s --check-prefix=EIGHT
// RUN: pipesched-opt %s --pass-pipeline='builtin.module(pipe-attach-system{name=dgx-b200 accelerators=4})' 2>&1 | FileCheck %s --check-prefix=HALF

// CHECK: remark: system 'system': all-reduces are rings at the network's bandwidth, not the factors of 'ops'
// CHECK: remark: system 'system': messages take nothing from the accelerators, 'processor_usage' is left out
// CHECK: remark: system 'system': the host's memory has no limit, 'mem2.GiB' is left out
// CHECK: "worker" = #pipe.worker_spec<name = "system", accelerators = 1,
// CHECK-SAME: matrix = <flops_per_s = 312000000000000, efficiency = <0 : 0.1, 999999999 : 0.1, 1000000000 : 0.6, 15999999999 : 0.6, 16000000000 : 0.9, 127999999999 : 0.9, 128000000000 : 0.99>>,
// CHECK-SAME: memory = <bytes_per_s = 2048000000000,
// CHECK-SAME: memory_bytes = 85899345920,
// CHECK-SAME: link = <bytes_per_s = 300000000000, latency_ps = 10000000, efficiency = <0.65>>,
// CHECK-SAME: host = <bytes_per_s = 32000000000, efficiency = <1.0>>, no_overlap = true, accelerators_per_node = 8, source = "Calculon system">,
// CHECK-SAME: "network" = #pipe.network_spec<bytes_per_s = 25000000000, latency_ps = 20000000, efficiency = <0.9>>

// EIGHT: name = "system", accelerators = 8,
// EIGHT-SAME: "network" = #pipe.network_spec<bytes_per_s = 200000000000,

// HALF-NOT: remark
// HALF: name = "dgx-b200", accelerators = 4,
// HALF-SAME: "network" = #pipe.network_spec<bytes_per_s = 200000000000,

module {}
