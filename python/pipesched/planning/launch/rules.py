"""The rules by which frameworks accept a division of accelerators, batch and layers.

`broken_rules` takes a framework, a version of `VERSIONS` and a `Layout`, and returns a `Broken` for
each rule that the layout breaks, with its text and its source. Values of a layout that are None are
not known, and rules that need them are not asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...costs.frameworks import LauncherName
from ...errors import PipeSchedError

VERSIONS: dict[LauncherName, tuple[str, ...]] = {
    "megatron": ("0.16.1", "main"),
    "torchtitan": ("0.2.2", "0.3.0"),
}
"""Versions of Megatron-Core and of torchtitan. All versions of a framework have the rules
of the first one.
"""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a training is divided, and the facts of its model that the rules ask for."""

    tensor: int = 1
    context: int = 1
    pipeline: int = 1
    chunks: int = 1
    expert: int = 1
    expert_tensor: int = 1
    """Accelerators that divide the widths of an expert."""
    shard_groups: int = 1
    """Groups of replicas that each hold all of the sharded state."""
    microbatches: int | None = None
    group: int | None = None
    """Microbatches that an interleaved schedule runs on a chunk in turn; by default `pipeline`."""
    stages: tuple[int, ...] | None = None
    """The layers of each stage, in the order of the stages."""
    heads: int | None = None
    key_value_heads: int | None = None
    experts: int = 0
    sequence: int | None = None
    sequence_parallel: bool = True
    is_fsdp: bool = False
    """Whether the framework's own FSDP shards gradients or weights."""
    recomputes_all: bool = False
    overlaps_experts: bool = False
    """Whether exchanges of experts overlap with another microbatch."""
    recurrence: str | None = None
    """The recurrence that some layers have in place of attention."""
    is_tied: bool = False

    @property
    def is_even(self) -> bool:
        return self.stages is None or len(set(self.stages)) == 1

    @property
    def is_interleaved(self) -> bool:
        return self.pipeline > 1 and self.chunks > 1


@dataclass(frozen=True)
class Broken:
    """A rule that a layout breaks."""

    text: str
    source: str
    """The file of the framework that checks it."""


Check = Callable[[Layout], str | None]

CONFIG = "megatron/core/transformer/transformer_config.py"
SCHEDULES = "megatron/core/pipeline_parallel/schedules.py"


def group_of(microbatches: int, pipeline: int) -> int:
    """Microbatches in a group of interleaved 1F1B by default, as in PyTorch.

    >>> group_of(8, 4), group_of(10, 4), group_of(6, 4)
    (4, 5, 6)
    """
    return microbatches // max(1, microbatches // pipeline)


def _groups(layout: Layout) -> str | None:
    count, workers = layout.microbatches, layout.pipeline
    if count is None or not layout.is_interleaved:
        return None
    group = layout.group or workers
    if count < workers:
        return f"Megatron-LM interleaves {workers} or more microbatches here, not {count}"
    if not workers <= group <= count:
        return (
            f"Megatron-LM interleaves groups of {workers} to {count} microbatches, from the workers"
            f" to all; not of {group}"
        )
    if 0 < count % group < workers:
        runs = next(g for g in range(workers, count + 1) if not 0 < count % g < workers)
        return (
            f"Megatron-LM interleaves {group} microbatches at a time, which leave {count % group}"
            f" of {count}, fewer than {workers} workers; {runs} run"
        )
    return None


def _heads(layout: Layout) -> str | None:
    if layout.heads is not None and layout.heads % layout.tensor:
        return f"Megatron-LM cannot divide {layout.heads} attention heads by tensor {layout.tensor}"
    heads, tensor = layout.key_value_heads or layout.tensor, layout.tensor
    if heads % tensor == 0:
        return None
    # Ranks hold copies of attention heads, but not of the heads of a recurrence.
    has_copies = not layout.recurrence
    if has_copies and tensor % heads == 0:
        return None
    more = " or is a multiple of them" if has_copies else ""
    return f"Megatron-LM takes tensor {tensor} only if it divides the {heads} key-value heads{more}"


def _hybrid(layout: Layout) -> str | None:
    kind = layout.recurrence
    if kind in ("mamba", "convolution"):
        return f"Megatron-LM has no layers with the recurrence {kind}"
    if kind == "gated_delta" and layout.context > 1:
        return "Megatron-LM cannot divide sequences of models with Gated DeltaNet"
    if kind != "mamba2":
        return None
    if layout.chunks > 1:
        return "Megatron-LM has no chunks in models with Mamba-2"
    if not layout.is_even:
        return (
            "Megatron-LM takes no layout of the stages of models with Mamba-2: their layers have to"
            " divide"
        )
    overlaps = layout.overlaps_experts
    return "Megatron-LM cannot overlap layers of models with Mamba-2" if overlaps else None


def _tokens(layout: Layout) -> str | None:
    parts = layout.tensor * layout.context
    if layout.sequence is None or layout.tensor == 1 or layout.sequence % parts == 0:
        return None
    return (
        f"Megatron-LM divides the tokens of a sequence among {parts} accelerators, which do not"
        f" divide {layout.sequence}"
    )


def _pieces(layout: Layout) -> str | None:
    pieces = 2 * layout.context
    if layout.sequence is None or layout.context == 1 or layout.sequence % pieces == 0:
        return None
    return f"context {layout.context} divides sequences into {pieces} pieces, not {layout.sequence}"


def _experts(layout: Layout) -> str | None:
    if layout.expert > 1 and (layout.experts == 0 or layout.experts % layout.expert):
        return f"expert {layout.expert} does not divide {layout.experts} experts"
    if layout.experts and layout.tensor > 1 and not layout.sequence_parallel:
        return "experts and tensors need sequence parallelism"
    return None


def why_no_overlap(layout: Layout) -> str | None:
    """Returns why Megatron-LM cannot hide exchanges of experts, as words that follow a verb. Its
    FSDP gathers weights and reduces gradients in hooks that are not called if parts of layers run
    one by one.
    """
    if layout.pipeline > 1 and layout.chunks == 1:
        return "in a pipeline without chunks"
    if layout.recomputes_all:
        return "with full recomputation"
    if layout.is_fsdp:
        return "with Megatron-FSDP"
    return "without ranks that divide the experts" if layout.expert == 1 else None


def _overlap(layout: Layout) -> str | None:
    why = why_no_overlap(layout) if layout.overlaps_experts else None
    return why and f"Megatron-LM cannot hide exchanges of experts {why}"


def _torch_model(layout: Layout) -> str | None:
    if layout.recurrence:
        return f"torchtitan has no model with the recurrence {layout.recurrence}"
    if layout.is_tied and layout.pipeline > 1:
        return "torchtitan has no pipeline for a head that is the embedding"
    return None


def _fsdp_groups(layout: Layout) -> str | None:
    if not layout.is_fsdp or layout.shard_groups == 1 or layout.expert == 1:
        return None
    return "Megatron-FSDP cannot divide experts where groups of replicas share state"


def _torch_experts(layout: Layout) -> str | None:
    widths = layout.expert_tensor if layout.expert > 1 else 1
    if widths in (1, layout.tensor):
        return None
    return f"torchtitan divides experts by all of tensor {layout.tensor} or not, not by {widths}"


def _torch_heads(layout: Layout) -> str | None:
    heads = layout.key_value_heads or layout.heads
    if heads is None or heads % layout.tensor == 0:
        return None
    return f"torchtitan cannot divide {heads} key-value heads by tensor {layout.tensor}"


_RULES: dict[LauncherName, tuple[tuple[Check, str], ...]] = {
    "megatron": (
        (_heads, CONFIG),
        (_groups, f"{SCHEDULES}: forward_backward_pipelining_with_interleaving"),
        (_hybrid, f"megatron/core/ssm/mamba_block.py; {CONFIG}"),
        (_tokens, "megatron/core/tensor_parallel/mappings.py"),
        (_pieces, "megatron/training/arguments.py: validate_args"),
        (_experts, "megatron/training/arguments.py; megatron/core/transformer/moe/moe_layer.py"),
        (_overlap, f"{CONFIG}; megatron/core/pipeline_parallel/combined_1f1b.py"),
        (_fsdp_groups, "megatron/core/distributed/fsdp/mcore_fsdp_adapter.py"),
    ),
    "torchtitan": (
        (_torch_model, "torchtitan/models"),
        (_torch_experts, "torchtitan/distributed/parallel_dims.py"),
        (_torch_heads, "torch/distributed/tensor/parallel/style.py: ColwiseParallel"),
        (_pieces, "torchtitan/distributed/parallel_dims.py: seq_len_divisor"),
    ),
}
"""The checks of each framework, common to its versions, and their places."""


def refused_heads(framework: LauncherName | None, layout: Layout) -> str | None:
    """Returns why a framework, or every one if none is named, does not divide the heads.

    >>> refused_heads(None, Layout(tensor=16, heads=32, key_value_heads=8))
    >>> refused_heads("torchtitan", Layout(tensor=16, heads=32, key_value_heads=8))
    'torchtitan cannot divide 8 key-value heads by tensor 16'
    """
    checks = {"megatron": _heads, "torchtitan": _torch_heads}
    named = checks.values() if framework is None else (checks[framework],)
    reasons = [check(layout) for check in named]
    return reasons[0] if all(reasons) else None


def broken_rules(framework: LauncherName, version: str, layout: Layout) -> tuple[Broken, ...]:
    """Returns the rules of a version of a framework that a layout breaks, none if it is accepted.

    >>> [each.text for each in broken_rules("megatron", "0.16.1", Layout(tensor=6, heads=32))]
    ['Megatron-LM cannot divide 32 attention heads by tensor 6']
    """
    if version not in VERSIONS[framework]:
        known = " or ".join(VERSIONS[framework])
        raise PipeSchedError(f"{framework} {version} has no rules; give {known}")
    found = ((check(layout), source) for check, source in _RULES[framework])
    return tuple(Broken(text, source) for text, source in found if text)
