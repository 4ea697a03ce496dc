"""The bytes that frameworks hold for each parameter, with the lines that a plan prints for them.

Both train in bfloat16 with Adam and sums of gradients in 4 bytes, and hold 18 bytes for a parameter
that nothing shards: 2 of the weight that computes, 4 of its gradient, and 12 of state, which are
the weight in 4 bytes and Adam's two moments of 4 bytes each. They differ in the sharded parts.

- Megatron-LM (Megatron-Core 0.16.1). `--bf16` sets `accumulate_allreduce_grads_in_fp32`
  (`megatron/training/arguments.py`), so that gradients are summed in buffers of 4 bytes. The
  distributed optimizer shards the 12 bytes of state: 6 + 12 / d (its documentation, "Distributed
  Optimizer"; `theoretical_memory_usage.py` has the same numbers).
- torchtitan 0.3.0. `fully_shard` is applied at every degree, also of 1, with parameters in
  `float32`, `mixed_precision_param` `bfloat16` and `mixed_precision_reduce` `float32`
  (`torchtitan/config/configs.py`, `models/llama3/parallelize.py`). Parameters and moments are
  sharded, 12 / d bytes; the gathered copy has 2. In a pipeline only the last microbatch reduces,
  and until then FSDP2 sums whole gradients in the type of the reduction, 4 bytes
  (`to_accumulated_grad_if_needed` in PyTorch's `_fsdp_param.py`; `PipelineStage` turns
  `set_requires_gradient_sync` off). Without a pipeline every microbatch reduces into sharded
  gradients, 4 / d bytes. If it reshards after each layer (`full`), the only copy in 2 bytes is that
  of gathered layers, so that weight and state take 12 / d: 2 / d count as weight and 10 / d as
  state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..support.options import ContextExchange, PairOrder, Precision, Sharding, names_of

LauncherName = Literal["megatron", "torchtitan"]

FrameworkName = Literal["megatron", "torchtitan", "none"]
"""A framework, or none: then there are no assumed options."""

DEFAULT: LauncherName = "megatron"
"""The framework whose memory a plan assumes by default."""

ParameterBytes = tuple[int, int, int]
"""Bytes of a parameter's weight, gradient and optimizer state, before any sharding."""


@dataclass(frozen=True)
class Framework:
    """A framework, and the version against which its lines and its memory were checked."""

    name: LauncherName
    title: str
    version: str

    @property
    def described(self) -> str:
        """Such as `torchtitan 0.3.0`."""
        return f"{self.title} {self.version}"


FRAMEWORKS: dict[LauncherName, Framework] = {
    "torchtitan": Framework("torchtitan", "torchtitan", "0.3.0"),
    "megatron": Framework("megatron", "Megatron-LM", "(Megatron-Core 0.16.1)"),
}


def parameter_bytes(
    launcher: LauncherName, precision: Precision, sharding: Sharding
) -> ParameterBytes:
    """The bytes of a parameter in a framework. With `--fp8-format` Megatron-LM's linear layers keep
    an 8-bit copy of their weights and its transpose from one microbatch to the next. With the
    distributed optimizer `--fp8-param-gather` drops the 16-bit weights, which leaves 2 bytes;
    without it all 4 stay. In NVFP4 the 16-bit weights stay with copies in 4 bits for both
    directions, 3 bytes without the scales of these. torchtitan's `full` has no sharded weight
    alongside the state.
    """
    if launcher == "torchtitan" and sharding == "full":
        return 2, 4, 10
    if launcher == "megatron" and precision == "nvfp4":
        return 3, 4, 12
    both = launcher == "megatron" and precision == "fp8" and sharding == "none"
    return 4 if both else 2, 4, 12


OWN_BYTES = tuple(f"{part}_bytes_per_parameter" for part in ("weight", "gradient", "optimizer"))
"""The fields by which a model states the bytes of a parameter."""

UNSAID_BYTES: ParameterBytes = 2, 2, 12
"""The values of fields that such a model file leaves out (lib/Description/ModelJson.cpp)."""


def habits(framework: LauncherName, shares: int) -> dict[str, Any]:
    """The defaults of a framework, by the names of options of a deployment, if `shares` ranks hold
    the same weights.

    Both send each rank the rows of its experts, and divide among equal ranks: Megatron-LM the state
    of the optimizer (`--use-distributed-optimizer`, as in all recipes of Megatron-Bridge),
    torchtitan weights too (`fully_shard`), which it gathers once for a step in a pipeline.
    Megatron-LM runs collectives of a backward alongside its products
    (`megatron/core/tensor_parallel/layers.py`).
    """
    shared: Sharding = "optimizer" if framework == "megatron" else "full-kept"
    return {
        "sharding": shared if shares > 1 else "none",
        "tensor_overlap": "backward" if framework == "megatron" else "none",
        "expert_dispatch": "per-rank",
    }


FAST = 4 * 10**15
"""The rate in 8 bits, in FLOP/s, above which kernels are so short that trainings record them as
graphs.
"""


def records_graphs(framework: LauncherName, sizes: Mapping[str, int]) -> bool:
    """Whether a framework records the kernels of these sizes of a model and a system as graphs:
    Megatron-LM does so for models with experts on Blackwell (`--cuda-graph-impl transformer_engine`
    in the recipes of Megatron-Bridge; Megatron-LM, docs/discussions/deepseek-v3-gb200-optimization,
    section 2.3).
    """
    is_fast = sizes["has_cudnn"] and sizes["fp8_flops_per_s"] >= FAST
    return framework == "megatron" and bool(is_fast and sizes["experts"])


def used_of(node: int) -> int:
    """The accelerators that a training uses of a node: all, or 64 of 72, as degrees are powers of
    two (NVIDIA-NeMo/Megatron-Bridge, recipes for GB200 and GB300).

    >>> used_of(8), used_of(72)
    (8, 64)
    """
    return node if node < 16 else 1 << (node.bit_length() - 1)


def bytes_text(kinds: Iterable[tuple[int, ...]]) -> str:
    """Formats bytes as `2 + 4 + 12 bytes a parameter`; several are listed one after the other."""
    found = sorted({" + ".join(map(str, each)) for each in kinds})
    return f"{' or '.join(found)} bytes a parameter"


def sharding_of(launcher: LauncherName, pipeline: int, sharding: Sharding) -> Sharding | None:
    """Returns the sharding that the framework's options for `sharding` have, over replicas of
    pipelines of this many workers; None if the framework has no such sharding.
    """
    if sharding == "none":
        return sharding
    if launcher == "megatron":
        # Its own FSDP gathers the weights again for every backward.
        return None if sharding == "full-kept" else sharding
    if pipeline > 1:
        # Weights stay gathered and gradients whole until the last microbatch.
        return "full-kept" if sharding in ("optimizer", "full-kept") else None
    return {"gradients": "gradients", "full": "full"}.get(sharding)  # type: ignore[return-value]


def exchanges_of(launcher: LauncherName) -> tuple[ContextExchange, ...]:
    """How the framework exchanges keys and values among the parts of a sequence, its default first:
    Megatron-LM by `--cp-comm-type`; PyTorch, and torchtitan with it, gathers them
    (`_ContextParallelOptions` in `torch/distributed/tensor/experimental/_context_parallel`).
    """
    return ("ring", "gather") if launcher == "megatron" else ("gather",)


def pair_order_of(launcher: LauncherName) -> PairOrder:
    """The order in which the framework issues the parts of layers of an overlapped pair:
    Megatron-Core by `model_chunk_schedule_plan.py`; PyTorch's DualPipeV, and torchtitan with it,
    sends when both cells have run, as DualPipe does.
    """
    return "megatron" if launcher == "megatron" else "deepseek"


def no_pipeline(launcher: LauncherName | None, is_tied: bool, pipeline: int) -> str | None:
    """Why the framework cannot train the model in a pipeline of this many workers: torchtitan
    refuses a head that is the embedding there (`torchtitan/models/common/decoder.py`).
    """
    if launcher == "torchtitan" and is_tied and pipeline > 1:
        return "torchtitan has no pipeline for a head that is the embedding"
    return None


def default_sharding(launcher: LauncherName) -> tuple[Sharding, ...]:
    """Returns the kinds of sharding from which a plan chooses by default: all that the framework
    runs.
    """
    held: tuple[Sharding, ...] = names_of(Sharding)
    return tuple(k for k in held if any(sharding_of(launcher, p, k) == k for p in (1, 2)))
