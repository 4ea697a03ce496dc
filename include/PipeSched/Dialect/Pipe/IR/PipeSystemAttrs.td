//===- PipeSystemAttrs.td - The hardware as attributes -----*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Devices of a DLTI target system: a worker with its engines and memory, and
// the network between workers. Facts/Facts.h has the same data as plain
// structs.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_PIPE_IR_PIPESYSTEMATTRS_TD
#define PIPESCHED_DIALECT_PIPE_IR_PIPESYSTEMATTRS_TD

include "PipeSched/Dialect/Pipe/IR/PipeDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/Interfaces/DataLayoutInterfaces.td"

def Pipe_EfficiencyAttr : AttrDef<Pipe_Dialect, "Efficiency"> {
  let mnemonic = "efficiency";
  let summary = "the share of a peak that is reached, by size";
  let description = [{
    One share for all sizes, or points `size : share`; the share is linear in
    the size between points and constant outside them. A size is the FLOPs of a
    kernel on one accelerator, or the bytes of a transfer.

    ```mlir
    module attributes {
      test.flat = #pipe.efficiency<0.4254>,
      test.curve = #pipe.efficiency<1000000 : 0.1, 1000000000 : 0.6>} {}
    ```

    Constraints:
    - `efficiency_c1`: there is at least one point; a share is above 0, at most
      1, and has at most six decimals.
    - `efficiency_c2`: sizes are not negative and ascend.
  }];
  // Size and parts per million alternate.
  let parameters = (ins ArrayRefParameter<"int64_t">:$points);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static EfficiencyAttr get(::mlir::MLIRContext *context,
                              const ::pipesched::EfficiencyCurve &curve);
    ::pipesched::EfficiencyCurve toFacts() const;
  }];
}

class Pipe_RateAttr<string name, string mnemonicText>
    : AttrDef<Pipe_Dialect, name> {
  let mnemonic = mnemonicText;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Pipe_EngineSpecAttr : Pipe_RateAttr<"EngineSpec", "engine_spec"> {
  let summary = "an engine of one accelerator";
  let description = [{
    Peak rate, time to start a kernel, and the share of the peak by FLOPs.
    Without `efficiency` the peak is reached; without `latency_ps` a start is
    free. `fp8_flops_per_s` and `fp4_flops_per_s` are the peaks in 8-bit and
    4-bit floats, if the engine has them; the share applies to them too, unless
    `fp8_efficiency` has another.

    ```mlir
    module attributes {test.engine = #pipe.engine_spec<
        flops_per_s = 1000000000000,
        latency_ps = 2000000, efficiency = <0.5>>} {}
    ```

    Constraints:
    - `engine_spec_c1`: rates are above 0, the latency is not below 0.
    - `engine_spec_c2`: there is no other field, and none twice.
    - `engine_spec_c3`: `fp8_efficiency` needs `fp8_flops_per_s`.
  }];
  // A narrow rate of 0 means that there is no such rate.
  let parameters = (ins "int64_t":$flopsPerSecond, "int64_t":$latencyPs,
                        OptionalParameter<"EfficiencyAttr">:$efficiency,
                        "int64_t":$fp8FlopsPerSecond,
                        OptionalParameter<"EfficiencyAttr">:$fp8Efficiency,
                        "int64_t":$fp4FlopsPerSecond);
  let extraClassDeclaration = [{
    static EngineSpecAttr get(::mlir::MLIRContext *context,
                              const ::pipesched::EngineFacts &facts);
    ::pipesched::EngineFacts toFacts() const;
  }];
}

def Pipe_LinkSpecAttr : Pipe_RateAttr<"LinkSpec", "link_spec"> {
  let summary = "a memory or a link";
  let description = [{
    Bandwidth, latency, and the share of the bandwidth by bytes; optional fields
    are as in `#pipe.engine_spec`.

    ```mlir
    module attributes {test.link = #pipe.link_spec<bytes_per_s = 450000000000,
        latency_ps = 1000000, efficiency = <0.65>>} {}
    ```

    Constraints:
    - `link_spec_c1`: the bandwidth is above 0, the latency is not below 0.
    - `link_spec_c2`: there is no other field, and none twice.
  }];
  let parameters = (ins "int64_t":$bytesPerSecond, "int64_t":$latencyPs,
                        OptionalParameter<"EfficiencyAttr">:$efficiency);
  let extraClassDeclaration = [{
    static LinkSpecAttr get(::mlir::MLIRContext *context,
                            const ::pipesched::LinkFacts &facts);
    ::pipesched::LinkFacts toFacts() const;
  }];
}

def Pipe_AttentionRatesAttr
    : Pipe_RateAttr<"AttentionRates", "attention_rates"> {
  let summary = "how fast an attention kernel is";
  let description = [{
    The rates of one attention kernel for heads of one size, as shares of
    `flops_per_s`, by the tokens of a sequence. They count the FLOPs of scores
    that no mask hides.

    ```mlir
    module attributes {test.rates = #pipe.attention_rates<kernel = "flash-2",
        head_size = 128, flops_per_s = 335000000000000,
        forward = <512 : 0.57, 16384 : 1.0>, backward = <0.9>>} {}
    ```

    Constraints:
    - `attention_rates_c1`: the kernel is "flash-2", "flash-3" or "cudnn".
    - `attention_rates_c2`: all fields are given, and no other; `head_size` and
      `flops_per_s` are above 0.
  }];
  let parameters = (ins "::mlir::StringAttr":$kernel, "int64_t":$headSize,
                        "int64_t":$flopsPerSecond, "EfficiencyAttr":$forward,
                        "EfficiencyAttr":$backward);
  let extraClassDeclaration = [{
    static AttentionRatesAttr get(::mlir::MLIRContext *context,
                                  const ::pipesched::AttentionRates &rates);
    ::pipesched::AttentionRates toFacts() const;
  }];
}

class Pipe_DeviceSpecAttr<string name, string mnemonicText>
    : AttrDef<Pipe_Dialect, name,
              [DeclareAttrInterfaceMethods<TargetDeviceSpecInterface,
                                           ["getEntries"]>,
               DeclareAttrInterfaceMethods<DLTIQueryInterface>]> {
  let mnemonic = mnemonicText;
  let parameters = (ins
    ArrayRefParameter<"::mlir::DataLayoutEntryInterface", "">:$fields);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Pipe_WorkerSpecAttr : Pipe_DeviceSpecAttr<"WorkerSpec", "worker_spec"> {
  let summary = "a worker: equal accelerators that share work evenly";
  let description = [{
    A device of `#dlti.target_system_spec`, under the key "worker". Engines,
    memory and `host` (the link to host memory) describe one accelerator; `link`
    joins the accelerators of a worker. With `no_overlap` the time of a kernel
    is the sum of the times of its FLOPs and its bytes; without it, the longer
    of the two. `source` names the origin of the numbers.

    `attention` lists the rates of attention kernels (`#pipe.attention_rates`),
    which `pipe.kernel` ops on `attention` need.

    `accelerators_per_node` is the number that `link` joins, so that workers on
    one node send each other messages over it; without it, only the network
    joins workers. `accelerators_per_pod` is the number that the network joins;
    between pods messages take a further device, "spine"; without it, the
    network joins all. A training uses at most `used_per_node` accelerators of
    each node (default: all).

    `operation_ps` is the time of the host for an operation with its first
    kernel (default: `launch_ps`), `launch_ps` the time for each further kernel
    of it, and `synchronize_ps` the time from the end of a kernel that it waits
    for to the start of the next. Without them devices never wait for the host.
    `peak_share_ppm` is the ratio of the rates of `matrix` to the peaks of the
    data sheet, in parts per million (default: all): power limits and
    multiprocessors that communicate take the rest, and MFU counts it.
    `kernel_launch` says how kernels are started, "single" or in "graphs".
    `tensor_exposed` is the percentage of the collectives of tensor parallelism
    that no linear layer hides (default 100); with 100, `tensor_overlap` names
    the collectives that run alongside linear layers. `expert_exposed` is the
    percentage of the exchange of rows with experts that the compute of another
    microbatch does not hide (default 100).

    `data_parallel` is the number of equal pipelines (default 1), of which a
    schedule describes one. `sharding` names the state that the pipelines divide
    among them: "none", "optimizer", "gradients", "full-kept" or "full".
    `rank_order` names the neighbours on a node: the "data"-parallel peers of a
    worker, or the workers of a "pipeline" (docs/CostModel.md, "A training
    step").

    `context_parallel` (default 1) of the accelerators of a worker divide a
    sequence; `context_exchange` is the way in which they exchange keys and
    values, in a "ring" or by a "gather". The accelerators that hold a stage in
    all pipelines form groups of `expert_parallel` consecutive ones (default 1),
    each of which divides the experts. `expert_balance_ppm` is the rows of the
    fullest of them divided by the mean, in parts per million. `expert_dispatch`
    says what tokens send to other nodes: a copy for each expert ("all-to-all"),
    one "per-node", or one per node and within a node one "per-rank"
    (docs/CostModel.md, "Expert parallelism", "Context parallelism").
    `slice_cut` says where sequences are cut into slices, by equal "tokens", by
    equal "work", or after the tokens of each, `[4930, 4238, 3776, 3440]`, and
    `slice_exchange` whether workers even out their attention, in "pairs"
    (docs/CostModel.md, "Slices"). `pair_order` is the order in which workers
    issue the parts of layers of cells that overlap, "deepseek" by default, or
    "in-turn", "megatron", "best" or "fluid" (docs/CostModel.md, "Overlapped
    pairs"). The first word of each other choice is the default. Defaults are
    not printed.

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "worker" = #pipe.worker_spec<name = "toy", accelerators = 1,
        matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 1000000000>,
        memory = <bytes_per_s = 1000000000>, memory_bytes = 1000000>,
      "network" = #pipe.network_spec<bytes_per_s = 1000000000>>} {}
    ```

    Sixteen such pipelines on nodes of eight:

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "worker" = #pipe.worker_spec<name = "many", accelerators = 4,
        matrix = <flops_per_s = 1000000000000,
          fp8_flops_per_s = 2000000000000>,
        vector = <flops_per_s = 1000000000>,
        memory = <bytes_per_s = 1000000000>, memory_bytes = 1000000,
        link = <bytes_per_s = 4000000000>, accelerators_per_node = 8,
        data_parallel = 16, sharding = "optimizer", rank_order = "pipeline">,
      "network" = #pipe.network_spec<bytes_per_s = 1000000000>>} {}
    ```

    Attention with separate rates:

    ```mlir
    module attributes {test.worker = #pipe.worker_spec<name = "fast",
        accelerators = 1, matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 1000000000>,
        memory = <bytes_per_s = 1000000000>, memory_bytes = 1000000,
        attention = [<kernel = "flash-2", head_size = 64,
            flops_per_s = 400000000000, forward = <0.9>, backward = <0.8>>,
          <kernel = "flash-3", head_size = 64,
            flops_per_s = 500000000000, forward = <0.9>, backward = <0.8>>]>} {}
    ```

    Experts divided over 64 accelerators, and a sequence over two:

    ```mlir
    module attributes {test.worker = #pipe.worker_spec<name = "split",
        accelerators = 4, matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 1000000000>,
        memory = <bytes_per_s = 1000000000>, memory_bytes = 1000000,
        link = <bytes_per_s = 4000000000>, data_parallel = 16,
        context_parallel = 2, expert_parallel = 64,
        expert_balance_ppm = 1250000, context_exchange = "gather",
        expert_dispatch = "per-node">} {}
    ```

    Constraints:
    - `worker_spec_c1`: `name`, `accelerators`, `matrix`, `vector`, `memory` and
      `memory_bytes` are given, each field once, and no other field except
      `attention`, `link`, `host`, `no_overlap`, `accelerators_per_node`,
      `accelerators_per_pod`, `operation_ps`, `launch_ps`, `synchronize_ps`,
      `peak_share_ppm`, `source`, and a field for each option of a training, as
      `pipe-attach-system` lists them, from `data_parallel` on.
    - `worker_spec_c2`: `accelerators` and `memory_bytes` are above 0,
      `accelerators_per_node` and `accelerators_per_pod` are at most 65,536,
      `data_parallel` at most 2^31 - 1, `peak_share_ppm` at most 10^6.
    - `worker_spec_c3`: several accelerators need a `link`, and so do nodes;
      pods consist of whole nodes.
    - `worker_spec_c4`: `sharding` and all other choices are among their words;
      `slice_cut` may be sizes instead, each above 0.
    - `worker_spec_c5`: `context_parallel` divides `accelerators`,
      `expert_parallel` divides `accelerators` times `data_parallel`, and
      `expert_balance_ppm` is from 10^6 to 10^9.
    - `worker_spec_c6`: `attention` has each kernel once for a size of heads.
  }];
  let extraClassDeclaration = [{
    static WorkerSpecAttr get(::mlir::MLIRContext *context,
                              const ::pipesched::SystemFacts &facts);
    /// Everything except the network.
    ::pipesched::SystemFacts toFacts() const;
  }];
}

def Pipe_NetworkSpecAttr : Pipe_DeviceSpecAttr<"NetworkSpec", "network_spec"> {
  let summary = "the network between workers, or the spine between pods";
  let description = [{
    A device of `#dlti.target_system_spec`, under the key "network"; the
    bandwidth is of a whole worker, in each direction. Under the key "spine" it
    joins pods; a system that has it says `accelerators_per_pod`, and the other
    way round.

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "network" = #pipe.network_spec<bytes_per_s = 50000000000,
        latency_ps = 2000000, efficiency = <65536 : 0.3, 1048576 : 0.9>>>} {}
    ```

    Pods of 64 workers, between which each worker has an eighth of that:

    ```mlir
    module attributes {dlti.target_system_spec = #dlti.target_system_spec<
      "worker" = #pipe.worker_spec<name = "pods", accelerators = 1,
        matrix = <flops_per_s = 1000000000000>,
        vector = <flops_per_s = 1000000000>,
        memory = <bytes_per_s = 1000000000>, memory_bytes = 1000000,
        accelerators_per_pod = 64>,
      "network" = #pipe.network_spec<bytes_per_s = 50000000000>,
      "spine" = #pipe.network_spec<bytes_per_s = 6250000000>>} {}
    ```

    Constraints:
    - `network_spec_c1`: the bandwidth is above 0, the latency is not below 0.
    - `network_spec_c2`: there is no other field, and none twice.
  }];
  let extraClassDeclaration = [{
    static NetworkSpecAttr get(::mlir::MLIRContext *context,
                               const ::pipesched::LinkFacts &facts);
    ::pipesched::LinkFacts toFacts() const;
  }];
}

#endif // PIPESCHED_DIALECT_PIPE_IR_PIPESYSTEMATTRS_TD
