"""Lines to copy into a launcher: flags of torchtitan, arguments of Megatron-LM.

torchtitan 0.3.0 (`torchtitan/config/configs.py`, `torchtitan/trainer.py`,
`torchtitan/distributed/pipeline_parallel.py` and `activation_checkpoint.py`); Megatron-LM with
Megatron-Core 0.16.1 (`megatron/training/arguments.py`, `megatron/core/transformer/
transformer_config.py`). Lines are given only if the launcher then holds the memory that the plan
counts.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...costs.division import SPREAD
from ...costs.frameworks import FRAMEWORKS, LauncherName, exchanges_of, parameter_bytes, sharding_of
from ...schedule.families import placement_kind
from ...schedule.generation import problem
from ...schedule.megatron import NAME as COMBINED
from ...support.options import Path, Recompute, Sharding
from ..candidate import OPTIMIZED, Candidate
from ..request import Request
from .rules import VERSIONS, Layout, broken_rules, group_of, refused_heads, why_no_overlap

# Exchanges of experts hidden by a microbatch

FLAGS = ("--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute")

CONNECTIONS = 32
"""The queues of the device that the first flag needs, CUDA_DEVICE_MAX_CONNECTIONS."""

FSDP: tuple[Sharding, ...] = ("gradients", "full")
"""The kinds of sharding for which Megatron-LM needs its FSDP."""

FEW_RANKS = 4
"""With at most this many expert ranks exchanges are short, and overlap may be slower."""


def hides_exchanges(request: Request, candidate: Candidate) -> bool:
    """Whether the plan counts a part of the exchanges as hidden."""
    hides = request.expert_exposed < 100 or candidate.schedule == COMBINED
    return candidate.shape.expert > 1 and hides


def layout_of(request: Request, candidate: Candidate) -> Layout:
    """The values by which frameworks accept or refuse a candidate."""
    shape, sizes = candidate.shape, request.sizes
    return Layout(
        **_divided(candidate),
        **_heads(request),
        experts=request.experts,
        expert_tensor=request.held["expert_tensor"],
        shard_groups=_groups_of(request, candidate),
        sequence=sizes["sequence"] or None,
        sequence_parallel=request.sequence_parallel,
        overlaps_experts=candidate.schedule == COMBINED and shape.expert > 1,
        is_tied=request.has_tied_head,
    )


def _heads(request: Request) -> dict[str, Any]:
    """The heads of the model that ranks divide, with the recurrence that may share them."""
    heads, key_value_heads = (
        request.sizes[name] or None for name in ("attention_heads", "key_value_heads")
    )
    return {
        **{"heads": heads, "key_value_heads": key_value_heads},
        "recurrence": request.recurrence,
    }


def why_not_tensor(request: Request, tensor: int) -> str | None:
    """Why the launcher that the request names, or every one, does not divide the heads so."""
    return refused_heads(request.launcher, Layout(tensor=tensor, **_heads(request)))


def _groups_of(request: Request, candidate: Candidate) -> int:
    """Groups of replicas that each hold all of the sharded state."""
    return 1 if candidate.shape.sharding == "none" else request.held["shard_groups"]


def _divided(candidate: Candidate) -> dict[str, Any]:
    """The values of a layout that the candidate has without its model."""
    shape = candidate.shape
    return {
        **{"tensor": shape.tensor, "context": shape.context, "pipeline": shape.pipeline},
        **{"chunks": candidate.chunks, "expert": shape.expert, "stages": candidate.layers[0]},
        "microbatches": shape.microbatches,
        "group": _group(candidate),
        "is_fsdp": shape.sharding in FSDP,
        "recomputes_all": shape.recompute == "full",
    }


def _group(candidate: Candidate) -> int | None:
    """The microbatches that the schedule interleaves at a time."""
    if candidate.schedule not in ("interleaved-1f1b", COMBINED) or candidate.chunks == 1:
        return None
    usual = group_of(candidate.shape.microbatches, candidate.shape.pipeline)
    return int(dict(candidate.options).get("group", usual))


def reason_against(request: Request, candidate: Candidate) -> str | None:
    """Why Megatron-LM cannot hide exchanges that the plan counts as hidden, if so."""
    hides = hides_exchanges(request, candidate)
    why = why_no_overlap(layout_of(request, candidate)) if hides else None
    if why is None:
        return None
    hidden = 100 - request.expert_exposed
    return (
        f"Megatron-LM cannot hide exchanges of experts {why}, the plan counts {hidden} % of them as"
        " hidden; plan with --set expert-exposed=100"
    )


def megatron_notes(request: Request, candidate: Candidate) -> list[str]:
    """Further requirements of these flags."""
    if not hides_exchanges(request, candidate):
        return []
    needs = f"CUDA_DEVICE_MAX_CONNECTIONS={CONNECTIONS}"
    if candidate.shape.data * candidate.shape.context > 1:
        needs += ", and Transformer Engine 2.8 as gradients are reduced meanwhile"
    notes = [f"{FLAGS[0]} needs {needs}; leave --moe-shared-expert-overlap out"]
    if candidate.shape.expert <= FEW_RANKS:
        notes.append(
            f"with {candidate.shape.expert} expert ranks exchanges are short, so that {FLAGS[0]}"
            " may gain nothing: measure both"
        )
    return notes


def _hidden_notes(request: Request, candidate: Candidate) -> list[str]:
    """The exchanges that the plan counts as hidden and torchtitan does not hide."""
    if not hides_exchanges(request, candidate) or candidate.schedule == "dualpipe-v":
        return []
    counted = f"{100 - request.expert_exposed} % of the exchanges of experts"
    if candidate.schedule == COMBINED:
        counted = "exchanges of experts in pairs"
    return [
        f"the plan counts {counted} as hidden by another microbatch, which torchtitan does"
        " only in DualPipeV"
    ]


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
    notes: tuple[str, ...] = ()
    """Notes: settings that the lines cannot express, and their names in other versions."""


@dataclass(frozen=True)
class Launchers:
    """The same configuration for each launcher."""

    torchtitan: Launcher
    megatron: Launcher

    def to_dict(self) -> dict[str, object]:
        """Lines by launcher, null if there are none; the reasons, notes and versions."""
        both = {"torchtitan": self.torchtitan, "megatron": self.megatron}
        lines = {name: list(one.lines) if one.lines else None for name, one in both.items()}
        return {
            **lines,
            "reasons": {n: one.reason for n, one in both.items() if one.reason},
            "notes": {n: list(one.notes) for n, one in both.items() if one.notes},
            "versions": {n: FRAMEWORKS[n].described for n in FRAMEWORKS},
        }


class Cannot(Exception):
    """Raised if a launcher cannot express the configuration."""


def needs_csv(candidate: Candidate) -> bool:
    """Whether PyTorch has no class for the schedule and must read it from a file."""
    return candidate.shape.pipeline > 1 and candidate.schedule not in TORCH_NAMES


def launchers(
    request: Request, candidate: Candidate, csv: str, unknown: str | None = None
) -> Launchers:
    """Lines for both launchers; `unknown` names the part of the rows of the file `csv` that PyTorch
    cannot run.
    """

    names: tuple[LauncherName, LauncherName] = ("torchtitan", "megatron")
    torchtitan, megatron = (_make(name, request, candidate, csv) for name in names)
    if unknown and torchtitan.lines is not None:
        torchtitan = Launcher(None, unknown)
    return Launchers(torchtitan, megatron)


def _make(name: LauncherName, request: Request, candidate: Candidate, csv: str) -> Launcher:
    try:
        check_runs(name, candidate)
        check_model(name, request, candidate)
        _check_held(name, request, candidate)
        if name == "megatron":
            if (against := reason_against(request, candidate)) is not None:
                raise Cannot(against)
            notes = tuple(megatron_notes(request, candidate))
            return Launcher(tuple(_megatron(request, candidate)), notes=notes)
        lines = tuple(_torchtitan(request, candidate, csv))
        return Launcher(lines, notes=tuple(_torch_notes(request, candidate)))
    except Cannot as reason:
        return Launcher(None, str(reason))


def is_run(request: Request, candidate: Candidate) -> bool:
    """Whether a launcher has lines for the candidate. The checks that are cheap come first."""
    names: tuple[LauncherName, LauncherName] = ("megatron", "torchtitan")
    return any(_has_lines(name, request, candidate) for name in names)


def _has_lines(name: LauncherName, request: Request, candidate: Candidate) -> bool:
    try:
        _check_held(name, request, candidate)
        check_runs(name, candidate)
    except Cannot:
        return False
    if name == "megatron" and reason_against(request, candidate) is not None:
        return False
    return _make(name, request, candidate, "").lines is not None


def check_runs(name: LauncherName, candidate: Candidate) -> None:
    """Raises `Cannot` for schedules and placements that the launcher cannot run."""
    if name == "megatron":
        _check_megatron(candidate)
    else:
        _torch_placement(candidate)


def check_model(name: LauncherName, request: Request, candidate: Candidate) -> None:
    """Raises `Cannot` for models that the launcher does not train in this division."""
    if broken := broken_rules(name, VERSIONS[name][0], layout_of(request, candidate)):
        raise Cannot(broken[0].text)
    if name == "megatron":
        _megatron_recompute(request, candidate)
    elif request.recomputed_layers:
        raise Cannot("torchtitan recomputes the same of all layers, not recomputed_layers")


KEPT = ("optimizer", "full-kept")
"""Kinds of sharding that hold and move the same: whole weights and gradients, sharded state."""


def _check_held(name: LauncherName, request: Request, candidate: Candidate) -> None:
    """Raises `Cannot` if the launcher would hold something else in memory than the plan counts."""
    shape, title = candidate.shape, FRAMEWORKS[name].title
    if name == "torchtitan" and request.precision == "nvfp4":
        raise Cannot("torchtitan has no NVFP4; plan with --precision fp8")
    made = sharding_of(name, shape.pipeline, shape.sharding)
    if made is None:
        without = "" if shape.pipeline > 1 else " without a pipeline"
        raise Cannot(
            f"{title} has no sharding like {shape.sharding}{without}; plan with --for {name}"
        )
    if shape.context > 1 and shape.exchange not in exchanges_of(name):
        raise Cannot(f"{title} has no context exchange {shape.exchange}; plan with --for {name}")
    held = parameter_bytes(name, request.precision, made)
    counted = request.parameter_bytes(shape.sharding)
    if _reduces_in_bf16(request, shape.sharding) and name == "megatron":
        held = held[0], counted[1], held[2]
    if held != counted or (made != shape.sharding and not {made, shape.sharding} <= set(KEPT)):
        own = request.own_bytes is not None
        raise Cannot(
            f"{title} holds {_bytes_text(held)} for a parameter,"
            f" {'the model says' if own else 'the plan counts'} {_bytes_text(counted)}"
            + ("" if own else f"; plan with --for {name}")
        )


def _reduces_in_bf16(request: Request, sharding: Sharding) -> bool:
    """Whether gradients are summed in 2 bytes, by `--grad-reduce-in-bf16` of Megatron-LM."""
    return request.parameter_bytes(sharding)[1] == 2


def _bytes_text(held: Sequence[int]) -> str:
    """Such as `2 + 4 + 12 bytes`."""
    return f"{' + '.join(map(str, held))} bytes"


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
    """The flags for the layers of stages, which may be lists of modules."""
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


def _torch_placement(candidate: Candidate) -> str:
    """The schedule by whose name torchtitan places the stages of a file."""
    if candidate.slices > 1:
        raise Cannot("torchtitan runs whole microbatches; pipesched.torch runs slices")
    if candidate.schedule in SPREAD:
        raise Cannot(f"torchtitan keeps the head whole; pipesched.torch runs {candidate.schedule}")
    if candidate.schedule in TORCH_NAMES:
        return TORCH_NAMES[candidate.schedule]
    kind = placement_kind(candidate.paths, candidate.shape.pipeline)
    if kind == "bidirectional":
        raise Cannot("torchtitan holds each stage once; this schedule has replicas of stages")
    placing = {"linear": "1F1B", "interleaved": "Interleaved1F1B", "v": "ZBVZeroBubble"}
    if kind not in placing:
        raise Cannot("torchtitan places stages in loops or in one V, not in waves")
    return placing[kind]


def _torch_schedule(candidate: Candidate, csv: str) -> list[str]:
    """The flags for the schedule, by name or from a file."""
    flag = "--parallelism.pipeline_parallel_schedule"
    name = f"{flag} {_torch_placement(candidate)}"
    return [name, f"{flag}_csv {shlex.quote(csv)}"] if needs_csv(candidate) else [name]


def _torch_sharding(request: Request, candidate: Candidate) -> list[str]:
    shape, groups = candidate.shape, _groups_of(request, candidate)
    replicated = "--parallelism.data_parallel_replicate_degree"
    sharded = "--parallelism.data_parallel_shard_degree"
    if shape.sharding == "none":
        return [f"{replicated} {shape.data}", f"{sharded} 1"]
    policy = "always" if shape.sharding == "full" else "never"
    return [
        f"{replicated} {groups}",
        f"{sharded} {shape.data // groups}",
        f"--parallelism.fsdp_reshard_after_forward {policy}",
    ]


def _torchtitan(request: Request, candidate: Candidate, csv: str) -> list[str]:
    shape = candidate.shape
    if shape.expert > 1 and request.held["expert_tensor"] > 1:
        raise Cannot(
            "torchtitan 0.3.0 has no --parallelism.expert_tensor_parallel_degree, which 0.2.2 has;"
            " plan with --set expert-tensor=1"
        )
    local = request.global_batch // shape.data if shape.pipeline > 1 else shape.microbatch_size
    lines = [
        *_torch_sharding(request, candidate),
        f"--parallelism.tensor_parallel_degree {shape.tensor}",
        f"--parallelism.pipeline_parallel_degree {shape.pipeline}",
        f"--parallelism.context_parallel_degree {shape.context}",
    ]
    if request.experts:
        lines.append(f"--parallelism.expert_parallel_degree {shape.expert}")
    if shape.pipeline > 1:
        lines += [
            *_torch_schedule(candidate, csv),
            f"--parallelism.pipeline_parallel_microbatch_size {shape.microbatch_size}",
            *_torch_division(candidate),
        ]
    if shape.pipeline > 1 or shape.expert > 1:
        # CUDA graphs, the default, are refused with pipelines and with all-to-alls that wait for
        # the host.
        lines.append("--training.disable_cuda_graphs")
    return [
        *lines,
        f"--training.local_batch_size {local}",
        f"--training.global_batch_size {request.global_batch}",
        f"--training.seq_len {request.sizes['sequence']}",
        # A subcommand, which follows all flags.
        f"activation-checkpoint:{shape.recompute}",
    ]


def _torch_notes(request: Request, candidate: Candidate) -> list[str]:
    shape, sequence = candidate.shape, request.sizes["sequence"]
    notes = []
    if request.precision == "fp8":
        notes.append(
            "0.3.0 has no flag for FP8: convert the linear layers in the code of --config, as"
            " llama3_debugmodel_float8 does"
        )
    tokens = [
        f"--training.num_tokens_per_microbatch_per_dp_rank {shape.microbatch_size * sequence}",
        f"--training.num_tokens_per_train_step {request.global_batch * sequence}",
        f"--training.max_context_length {sequence}",
    ]
    replaced = "local_batch_size, global_batch_size and seq_len"
    if shape.pipeline > 1:
        tokens.insert(0, f"--parallelism.num_pp_microbatches {shape.microbatches}")
        replaced = f"pipeline_parallel_microbatch_size, {replaced}"
    notes += _hidden_notes(request, candidate)
    notes.append(
        f"0.2.2 has --activation_checkpoint.mode {shape.recompute} for the last line, no"
        " --training.disable_cuda_graphs, and the module output for lm_head"
    )
    notes.append(f"after 0.3.0, {' '.join(tokens)} replace {replaced}")
    return notes


# Megatron-LM


def _layout(layers: Sequence[int]) -> str:
    """The string of --pipeline-model-parallel-layout, which does not depend on the workers."""
    workers = list(range(len(layers)))
    made = problem(workers=len(layers), microbatches=1, paths=[Path(workers, blocks=layers)])
    return made.to_megatron_layout()


def _check_megatron(candidate: Candidate) -> None:
    if candidate.schedule not in ("1f1b", "interleaved-1f1b", COMBINED):
        other = "other rows" if candidate.schedule == OPTIMIZED else candidate.schedule
        raise Cannot(f"Megatron-LM has 1F1B and interleaved 1F1B, not {other}")
    if candidate.schedule != COMBINED:
        return
    layout = Layout(**_divided(candidate))
    why = "without ranks that divide the experts" if layout.expert == 1 else why_no_overlap(layout)
    if why is not None:
        raise Cannot(f"Megatron-LM runs no {COMBINED} {why}")


def _megatron_pipeline(candidate: Candidate) -> list[str]:
    shape, layers = candidate.shape, candidate.layers[0]
    lines = [f"--pipeline-model-parallel-size {shape.pipeline}"]
    group = _group(candidate)
    if group not in (None, shape.pipeline):
        lines.append(f"--microbatch-group-size-per-virtual-pipeline-stage {group}")
    if len(set(layers)) > 1:
        return [*lines, f"--pipeline-model-parallel-layout '{_layout(layers)}'"]
    if candidate.chunks > 1:
        lines.append(f"--num-virtual-stages-per-pipeline-rank {candidate.chunks}")
    return lines


def _megatron_sharding(request: Request, candidate: Candidate) -> list[str]:
    shape, groups = candidate.shape, _groups_of(request, candidate)
    if shape.sharding == "none":
        return ["--overlap-grad-reduce"] if shape.data * shape.context > 1 else []
    optimizer = ["--use-distributed-optimizer", "--overlap-grad-reduce", "--overlap-param-gather"]
    if groups > 1:
        optimizer.append(f"--num-distributed-optimizer-instances {groups}")
    if shape.sharding == "optimizer":
        return optimizer
    strategy = {"gradients": "optim_grads", "full": "optim_grads_params"}[shape.sharding]
    return [
        *optimizer,
        "--use-megatron-fsdp",
        f"--data-parallel-sharding-strategy {strategy}",
        "--no-gradient-accumulation-fusion",
        "--ckpt-format fsdp_dtensor",
    ]


def _megatron_context(candidate: Candidate) -> list[str]:
    if candidate.shape.context == 1:
        return []
    exchange = {"ring": "p2p", "gather": "all_gather"}[candidate.shape.exchange]
    return [f"--context-parallel-size {candidate.shape.context}", f"--cp-comm-type {exchange}"]


def _megatron_experts(request: Request, candidate: Candidate) -> list[str]:
    """Without expert parallelism, experts are divided over tensor-parallel accelerators by default,
    as plans count them.
    """
    if candidate.shape.expert == 1:
        return []
    dispatcher = ["--moe-token-dispatcher-type alltoall"]
    if request.held["expert_dispatch"] != "all-to-all":
        dispatcher = ["--moe-token-dispatcher-type flex", "--moe-flex-dispatcher-backend deepep"]
    return [
        f"--expert-model-parallel-size {candidate.shape.expert}",
        f"--expert-tensor-parallel-size {request.held['expert_tensor']}",
        *dispatcher,
        *(FLAGS if hides_exchanges(request, candidate) else ()),
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


def _megatron_recompute(request: Request, candidate: Candidate) -> tuple[str, ...]:
    """The flags for recomputation. The method `block` recomputes the first layers of each stage
    (`_checkpointed_forward` of megatron/core/transformer/transformer_block.py).
    """
    kind, layers = candidate.shape.recompute, set(request.recomputed_layers)
    if not layers:
        return _MEGATRON_RECOMPUTE[kind]
    if kind != "none":
        raise Cannot("Megatron-LM recomputes whole layers, or parts of all layers")
    begin, own = 0, []
    for size in candidate.layers[0]:
        own.append([layer in layers for layer in range(begin, begin + size)])
        begin += size
    most = max(map(sum, own))
    if any(each != [place < most for place in range(len(each))] for each in own):
        raise Cannot("Megatron-LM recomputes equally many layers of each stage, the first ones")
    return (
        "--recompute-granularity full",
        "--recompute-method block",
        f"--recompute-num-layers {most}",
    )


def _megatron_precision(request: Request, candidate: Candidate) -> list[str]:
    sharding = candidate.shape.sharding
    found = ["--bf16"]
    if _reduces_in_bf16(request, sharding):
        found.append("--grad-reduce-in-bf16")
    if request.precision == "nvfp4":
        return [*found, "--fp4-format e2m1", "--fp4-recipe nvfp4"]
    if request.precision != "fp8":
        return found
    gathered = [] if sharding == "none" else ["--fp8-param-gather"]
    return [*found, "--fp8-format hybrid", *gathered]


def _megatron(request: Request, candidate: Candidate) -> list[str]:
    shape = candidate.shape
    return [
        f"--tensor-model-parallel-size {shape.tensor}",
        *(["--sequence-parallel"] if shape.tensor > 1 and request.sequence_parallel else []),
        *_megatron_pipeline(candidate),
        *_megatron_context(candidate),
        *_megatron_experts(request, candidate),
        f"--micro-batch-size {shape.microbatch_size}",
        f"--global-batch-size {request.global_batch}",
        f"--seq-length {request.sizes['sequence']}",
        *_megatron_recompute(request, candidate),
        *_megatron_sharding(request, candidate),
        *_megatron_precision(request, candidate),
    ]
