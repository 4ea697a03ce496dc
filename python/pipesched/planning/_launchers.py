"""Lines to copy into a launcher: flags of torchtitan, arguments of Megatron-LM.

torchtitan 0.3.0 (`torchtitan/config/configs.py`, `torchtitan/distributed/pipeline_parallel.py`),
except for recomputation and FP8, which have flags in 0.2.0 alone
(`torchtitan/config/job_config.py`); Megatron-LM as of 2025 (`megatron/training/arguments.py`).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._options import Path, Recompute
from .._making import problem
from ._request import Request
from ._space import OPTIMIZED, Candidate, placement_kind

TORCH_NAMES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved-1f1b": "Interleaved1F1B",
    "looped-bfs": "LoopedBFS",
    "interleaved-zb": "InterleavedZeroBubble",
    "zb-v": "ZBVZeroBubble",
    "dualpipe-v": "DualPipeV",
}
"""The classes of torch.distributed.pipelining that run the same rows."""


@dataclass(frozen=True)
class Launcher:
    """Lines to copy, or the reason why there are none."""

    lines: tuple[str, ...] | None
    reason: str | None = None


@dataclass(frozen=True)
class Launchers:
    """The same configuration for each launcher."""

    torchtitan: Launcher
    megatron: Launcher

    def to_dict(self) -> dict[str, object]:
        """Lines by launcher, null if there are none, and the reasons."""
        both = {"torchtitan": self.torchtitan, "megatron": self.megatron}
        lines = {name: list(one.lines) if one.lines else None for name, one in both.items()}
        return {**lines, "reasons": {n: one.reason for n, one in both.items() if one.reason}}


class _Cannot(Exception):
    """Raised if a launcher cannot express the configuration."""


def needs_csv(candidate: Candidate) -> bool:
    """Whether PyTorch has no class for the schedule and must read it from a file."""
    return candidate.shape.pipeline > 1 and candidate.schedule not in TORCH_NAMES


def launchers(
    request: Request, candidate: Candidate, csv: str, unknown: str | None = None
) -> Launchers:
    """Lines for both launchers. `csv` is the file of the schedule, which need not exist yet;
    `unknown` says what in its rows PyTorch cannot run.
    """

    def made(lines: Callable[[Request, Candidate, str], list[str]]) -> Launcher:
        try:
            return Launcher(tuple(lines(request, candidate, csv)))
        except _Cannot as reason:
            return Launcher(None, str(reason))

    torchtitan = Launcher(None, unknown) if unknown else made(_torchtitan)
    return Launchers(torchtitan, made(_megatron))


# torchtitan


def _modules(layers: Sequence[int]) -> str:
    """The modules of each stage, in the form of the flag.

    >>> _modules([2, 1])
    'tok_embeddings,layers.0,layers.1 layers.2,norm,lm_head'
    """
    stages, first = [], 0
    for stage, count in enumerate(layers):
        names = ["tok_embeddings"] if stage == 0 else []
        names += [f"layers.{layer}" for layer in range(first, first + count)]
        names += ["norm", "lm_head"] if stage == len(layers) - 1 else []
        stages.append(",".join(names))
        first += count
    return " ".join(stages)


def _torch_division(candidate: Candidate) -> list[str]:
    """The flags for the layers of each stage. By default torchtitan gives remaining layers to the
    first stages; other divisions need lists of modules.
    """
    layers = candidate.layers[0]
    each, over = divmod(sum(layers), len(layers))
    if layers == tuple(each + (stage < over) for stage in range(len(layers))):
        per_stage = each + (over > 0)
        if -(-sum(layers) // per_stage) == len(layers):
            return [
                "--parallelism.pipeline_parallel_first_stage_less_layers 0",
                "--parallelism.pipeline_parallel_last_stage_less_layers 0",
                f"--parallelism.pipeline_parallel_layers_per_stage {per_stage}",
            ]
    return [f"--parallelism.module_fqns_per_model_part {_modules(layers)}"]


def _torch_schedule(candidate: Candidate, csv: str) -> list[str]:
    """The flags for the schedule, by name or from a file. For a file, the name says how stages are
    placed.
    """
    flag = "--parallelism.pipeline_parallel_schedule"
    if not needs_csv(candidate):
        return [f"{flag} {TORCH_NAMES[candidate.schedule]}"]
    kind = placement_kind(candidate.paths, candidate.shape.pipeline)
    if kind == "bidirectional":
        raise _Cannot("torchtitan holds each stage once; this schedule has replicas of stages")
    placing = {"linear": "1F1B", "interleaved": "Interleaved1F1B", "v": "ZBVZeroBubble"}
    if kind not in placing:
        raise _Cannot("torchtitan places stages in loops or in one V, not in waves")
    return [f"{flag} {placing[kind]}", f"{flag}_csv {shlex.quote(csv)}"]


def _torch_sharding(candidate: Candidate) -> list[str]:
    shape = candidate.shape
    replicated = "--parallelism.data_parallel_replicate_degree"
    sharded = "--parallelism.data_parallel_shard_degree"
    if shape.data == 1:
        return [f"{replicated} 1", f"{sharded} 1"]
    if shape.sharding == "none":
        if shape.tensor * shape.pipeline > 1:
            raise _Cannot(
                "torchtitan does not combine unsharded data parallelism with tensor or pipeline"
                " parallelism; --sharding optimizer can be written"
            )
        return [f"{replicated} {shape.data}", f"{sharded} 1"]
    policy = "always" if shape.sharding == "full" else "never"
    return [
        f"{replicated} 1",
        f"{sharded} {shape.data}",
        f"--parallelism.fsdp_reshard_after_forward {policy}",
    ]


def _torchtitan(request: Request, candidate: Candidate, csv: str) -> list[str]:
    shape = candidate.shape
    local = request.global_batch // shape.data if shape.pipeline > 1 else shape.microbatch_size
    lines = [
        *_torch_sharding(candidate),
        f"--parallelism.tensor_parallel_degree {shape.tensor}",
        f"--parallelism.pipeline_parallel_degree {shape.pipeline}",
    ]
    if shape.pipeline > 1:
        lines += [
            *_torch_schedule(candidate, csv),
            f"--parallelism.pipeline_parallel_microbatch_size {shape.microbatch_size}",
            *_torch_division(candidate),
        ]
    lines += [
        f"--training.local_batch_size {local}",
        f"--training.global_batch_size {request.global_batch}",
        f"--training.seq_len {request.sizes['sequence']}",
        f"--activation_checkpoint.mode {shape.recompute}",
    ]
    if request.precision == "fp8":
        lines.append("--model.converters float8")
    return lines


# Megatron-LM


def _layout(layers: Sequence[int]) -> str:
    """The string of --pipeline-model-parallel-layout, which does not depend on the workers."""
    workers = list(range(len(layers)))
    made = problem(workers=len(layers), microbatches=1, paths=[Path(workers, blocks=layers)])
    return made.to_megatron_layout()


def _megatron_pipeline(candidate: Candidate) -> list[str]:
    shape, layers = candidate.shape, candidate.layers[0]
    lines = [f"--pipeline-model-parallel-size {shape.pipeline}"]
    if candidate.schedule not in ("1f1b", "interleaved-1f1b"):
        other = "other rows" if candidate.schedule == OPTIMIZED else candidate.schedule
        raise _Cannot(f"Megatron-LM has 1F1B and interleaved 1F1B, not {other}")
    if candidate.schedule == "interleaved-1f1b" and shape.microbatches % shape.pipeline:
        raise _Cannot(
            f"Megatron-LM interleaves {shape.pipeline} microbatches at a time, which do not"
            f" divide {shape.microbatches}"
        )
    if len(set(layers)) > 1:
        return [*lines, f"--pipeline-model-parallel-layout '{_layout(layers)}'"]
    if candidate.chunks > 1:
        lines.append(f"--num-virtual-stages-per-pipeline-rank {candidate.chunks}")
    return lines


def _megatron_sharding(candidate: Candidate) -> list[str]:
    shape = candidate.shape
    if shape.data == 1:
        return []
    if shape.sharding == "none":
        return ["--overlap-grad-reduce"]
    optimizer = ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
    if shape.sharding == "optimizer":
        return optimizer
    return [
        *optimizer,
        "--use-megatron-fsdp",
        "--data-parallel-sharding-strategy optim_grads_params",
        "--no-gradient-accumulation-fusion",
        "--ckpt-format fsdp_dtensor",
    ]


_MEGATRON_RECOMPUTE: dict[Recompute, tuple[str, ...]] = {
    "none": (),
    "selective": ("--recompute-granularity selective",),
    "full": (
        "--recompute-granularity full",
        "--recompute-method uniform",
        "--recompute-num-layers 1",
    ),
}


def _megatron(request: Request, candidate: Candidate, csv: str) -> list[str]:
    shape = candidate.shape
    return [
        f"--tensor-model-parallel-size {shape.tensor}",
        *(["--sequence-parallel"] if shape.tensor > 1 else []),
        *_megatron_pipeline(candidate),
        f"--micro-batch-size {shape.microbatch_size}",
        f"--global-batch-size {request.global_batch}",
        f"--seq-length {request.sizes['sequence']}",
        *_MEGATRON_RECOMPUTE[shape.recompute],
        *_megatron_sharding(candidate),
        "--bf16",
        *(["--fp8-format hybrid"] if request.precision == "fp8" else []),
    ]
