// RUN: %cases %s > %t.mlir
// RUN: pipesched-opt %t.mlir -verify-diagnostics -split-input-file

// CASES
@@

// network_spec_c1: negative bandwidth
// error: expected bytes_per_s of at least 1, found -5
#n = #pipe.network_spec<bytes_per_s = -5>
// network_spec_c1: no bandwidth
// error: expected bytes_per_s of at least 1, found 0
#n = #pipe.network_spec<bytes_per_s = 0>
// network_spec_c1: not a number
// error: expected bytes_per_s to be a whole number of at least 1
#n = #pipe.network_spec<bytes_per_s = nan>
// network_spec_c1: a fraction
// error: expected bytes_per_s to be a whole number of at least 1
#n = #pipe.network_spec<bytes_per_s = 1.5e9>
// network_spec_c1: over 64 bits
// error: integer value too large
#n = #pipe.network_spec<bytes_per_s = 9223372036854775808>
// network_spec_c1: negative latency
// error: expected latency_ps of at least 0, found -1
#n = #pipe.network_spec<bytes_per_s = 5, latency_ps = -1>
// network_spec_c1: no bandwidth at all
// error: network_spec needs the field 'bytes_per_s'
#n = #pipe.network_spec<latency_ps = 1>
// network_spec_c2: an unknown field
// error: unknown field 'byte_per_s' in network_spec, the closest is 'bytes_per_s'
#n = #pipe.network_spec<byte_per_s = 5>
// network_spec_c2: a field twice
// error: field 'latency_ps' of network_spec is given twice
#n = #pipe.network_spec<bytes_per_s = 5, latency_ps = 1, latency_ps = 1>
// link_spec_c2: an unknown field
// error: unknown field 'latency_us' in link_spec, the closest is 'latency_ps'
#l = #pipe.link_spec<bytes_per_s = 5, latency_us = 1>
// link_spec_c1: negative latency
// error: expected latency_ps of at least 0, found -2
#l = #pipe.link_spec<bytes_per_s = 5, latency_ps = -2>
// engine_spec_c1: no rate
// error: engine_spec needs the field 'flops_per_s'
#e = #pipe.engine_spec<latency_ps = 5>
// engine_spec_c2: another kind's field
// error: unknown field 'bytes_per_s' in engine_spec, the closest is 'flops_per_s'
#e = #pipe.engine_spec<bytes_per_s = 5>
// efficiency_c1: none
// error: expected an efficiency, or points 'size : efficiency'
#c = #pipe.efficiency<>
// efficiency_c1: zero
// error: expected an efficiency above 0 and at most 1, found 0
#c = #pipe.efficiency<0.0>
// efficiency_c1: more than all
// error: expected an efficiency above 0 and at most 1, found 1.0
#c = #pipe.efficiency<5 : 1.01>
// efficiency_c1: a whole number that is not a share
// error: expected an efficiency above 0 and at most 1, found 2
#c = #pipe.efficiency<2>
// efficiency_c1: seven decimals
// error: expected an efficiency of at most six decimals
#c = #pipe.efficiency<0.1234567>
// efficiency_c1: negative
// error: expected integer value
#c = #pipe.efficiency<-0.5>
// efficiency_c2: sizes that do not ascend
// error: expected sizes that ascend, found 5 after 5
#c = #pipe.efficiency<5 : 0.5, 5 : 0.6>
// efficiency_c2: a negative size
// error: expected a size of at least 0, found -1
#c = #pipe.efficiency<-1 : 0.5>
// efficiency_c2: a flat share among points
// error: expected 'size : efficiency'
#c = #pipe.efficiency<1 : 0.5, 0.6>
// worker_spec_c1: a field is missing
// error: worker_spec needs the field 'matrix'
#w = #pipe.worker_spec<name = "w", accelerators = 1>
// worker_spec_c1: an unknown field
// error: unknown field 'memory_byte' in worker_spec, the closest is 'memory_bytes'
#w = #pipe.worker_spec<name = "w", memory_byte = 1>
// worker_spec_c1: a text that is none
// error: invalid kind of attribute specified
#w = #pipe.worker_spec<name = 5>
// worker_spec_c1: a flag that is none
// error: invalid kind of attribute specified
#w = #pipe.worker_spec<no_overlap = 5>
// worker_spec_c2: no accelerator
// error: expected accelerators of at least 1, found 0
#w = #pipe.worker_spec<name = "w", accelerators = 0>
// worker_spec_c2: no memory
// error: expected memory_bytes of at least 1, found 0
#w = #pipe.worker_spec<memory_bytes = 0>
// worker_spec_c3: nothing joins the accelerators
// error: worker_spec has 2 accelerators and no 'link' among them
#w = #pipe.worker_spec<name = "w", accelerators = 2, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1>
// worker_spec_c3: nothing joins the accelerators of a node
// error: worker_spec has nodes of 8 accelerators and no 'link' among them
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, accelerators_per_node = 8>
// worker_spec_c2: nodes that are too large
// error: expected accelerators_per_node of at most 65536, found 65537
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, accelerators_per_node = 65537>
// worker_spec_c2: pods that are too large
// error: expected accelerators_per_pod of at most 65536, found 65537
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, accelerators_per_pod = 65537>
// worker_spec_c2: more than the data sheet
// error: expected peak_share_ppm of at most 1000000, found 1000001
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, peak_share_ppm = 1000001>
// worker_spec_c3: pods of parts of nodes
// error: expected accelerators_per_pod to be a multiple of accelerators_per_node, 8, found 12
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, accelerators_per_node = 8, accelerators_per_pod = 12>
// worker_spec_c2: no node
// error: expected accelerators_per_node of at least 1, found 0
#w = #pipe.worker_spec<accelerators_per_node = 0>
// worker_spec_c2: too many pipelines
// error: expected data_parallel of at most 2147483647, found 2147483648
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, data_parallel = 2147483648>
// worker_spec_c4: another word
// error: expected sharding to be "none" or "optimizer" or "gradients" or "full-kept" or "full", found "zero"
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, sharding = "zero">
// worker_spec_c4: another word
// error: expected rank_order to be "data" or "pipeline", found "tensor"
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, rank_order = "tensor">
// worker_spec_c4: another word
// error: expected context_exchange to be "ring" or "gather", found "star"
#w = #pipe.worker_spec<name = "w", accelerators = 4, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, context_exchange = "star">
// worker_spec_c4: another word
// error: expected expert_dispatch to be "all-to-all" or "per-node" or "per-rank", found "none"
#w = #pipe.worker_spec<name = "w", accelerators = 4, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, expert_dispatch = "none">
// worker_spec_c4: another word
// error: expected slice_cut to be "tokens" or "work", found "even"
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, slice_cut = "even">
// worker_spec_c4: a slice without tokens
// error: expected slice-cut to give each slice at least 1 of the tokens, found 0 for slice 1 of 3
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, slice_cut = [8, 0, 8]>
// worker_spec_c4: no sizes
// error: expected slice-cut of at least one size, found none
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, slice_cut = []>
// worker_spec_c5: a degree that does not divide
// error: system 'w': 3-way context parallelism does not divide the 4 accelerators of a worker; the nearest degrees that do are 2 and 4
#w = #pipe.worker_spec<name = "w", accelerators = 4, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, context_parallel = 3>
// worker_spec_c5: a degree that does not divide
// error: system 'w': 16-way expert parallelism does not divide the 8 accelerators of a stage in all pipelines; the nearest degrees that do are 8
#w = #pipe.worker_spec<name = "w", accelerators = 4, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, data_parallel = 2, expert_parallel = 16>
// worker_spec_c5: fewer rows than the mean
// error: expected expert_balance_ppm from 1000000 to 1000000000, found 999999
#w = #pipe.worker_spec<name = "w", accelerators = 4, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, link = <bytes_per_s = 1>, expert_balance_ppm = 999999>
// engine_spec_c1: no rate
// error: expected fp8_flops_per_s of at least 1, found 0
#e = #pipe.engine_spec<flops_per_s = 1, fp8_flops_per_s = 0>
// engine_spec_c1: no rate
// error: expected fp4_flops_per_s of at least 1, found 0
#e = #pipe.engine_spec<flops_per_s = 1, fp4_flops_per_s = 0>
// engine_spec_c3: a curve of nothing
// error: fp8_efficiency needs fp8_flops_per_s
#e = #pipe.engine_spec<flops_per_s = 1, fp8_efficiency = <0.5>>
// DLTI takes only devices that implement its interface
// error: value associated with key "worker" is not a DLTI device spec
module attributes {dlti.target_system_spec = #dlti.target_system_spec<"worker" = 5>} {}
// attention_rates_c1: another kernel
// error: expected kernel to be "flash-2" or "flash-3" or "cudnn", found "flash"
#r = #pipe.attention_rates<kernel = "flash", head_size = 64, flops_per_s = 1, forward = <1.0>, backward = <1.0>>
// attention_rates_c2: no heads
// error: expected head_size of at least 1, found 0
#r = #pipe.attention_rates<kernel = "flash-2", head_size = 0, flops_per_s = 1, forward = <1.0>, backward = <1.0>>
// attention_rates_c2: no rate in one direction
// error: attention_rates needs the field 'backward'
#r = #pipe.attention_rates<kernel = "flash-2", head_size = 64, flops_per_s = 1, forward = <1.0>>
// worker_spec_c6: which one
// error: worker_spec has the rates of "flash-2" with heads of 64 twice
#w = #pipe.worker_spec<name = "w", accelerators = 1, matrix = <flops_per_s = 1>, vector = <flops_per_s = 1>, memory = <bytes_per_s = 1>, memory_bytes = 1, attention = [<kernel = "flash-2", head_size = 64, flops_per_s = 1, forward = <1.0>, backward = <1.0>>, <kernel = "flash-2", head_size = 64, flops_per_s = 2, forward = <1.0>, backward = <1.0>>]>
