"""Exchanges of experts behind another microbatch, in lines for launchers: Megatron-LM's
`--overlap-moe-expert-parallel-comm` (`megatron/core/pipeline_parallel/combined_1f1b.py`), with the
constraints of `megatron/core/transformer/transformer_config.py` and
`megatron/training/arguments.py`.
"""

from __future__ import annotations

from ...schedule.megatron import NAME as COMBINED
from ...support.options import Sharding
from ..candidate import Candidate
from ..request import Request

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


def _why_not(candidate: Candidate) -> str | None:
    """Why the exchanges of a candidate cannot be hidden, as words that follow a verb."""
    if candidate.shape.pipeline > 1 and candidate.chunks == 1:
        return "in a pipeline without chunks"
    if candidate.shape.recompute == "full":
        return "with full recomputation"
    # It runs the parts of layers one by one, so that the hooks by which FSDP gathers weights and
    # reduces gradients are not called.
    return "with Megatron-FSDP" if candidate.shape.sharding in FSDP else None


def reason_against_combined(candidate: Candidate) -> str | None:
    """Why Megatron-LM has no combined 1F1B here, if so."""
    if candidate.schedule != COMBINED:
        return None
    why = _why_not(candidate)
    if candidate.shape.expert == 1:
        why = "without ranks that divide the experts"
    return None if why is None else f"Megatron-LM runs no {COMBINED} {why}"


def reason_against(request: Request, candidate: Candidate) -> str | None:
    """Why Megatron-LM cannot hide what the plan counts as hidden, if so."""
    why = _why_not(candidate) if hides_exchanges(request, candidate) else None
    if why is None:
        return None
    hidden = 100 - request.expert_exposed
    return (
        f"Megatron-LM hides no exchanges of experts {why}, the plan counts {hidden} % of them as"
        " hidden; plan with --set expert-exposed=100"
    )


def megatron_flags(request: Request, candidate: Candidate) -> list[str]:
    """The flags with which Megatron-LM hides exchanges."""
    return list(FLAGS) if hides_exchanges(request, candidate) else []


def megatron_notes(request: Request, candidate: Candidate) -> list[str]:
    """What these flags need besides."""
    if not hides_exchanges(request, candidate):
        return []
    needs = f"CUDA_DEVICE_MAX_CONNECTIONS={CONNECTIONS}"
    if candidate.shape.data * candidate.shape.context > 1:
        needs += ", and Transformer Engine 2.8 as gradients are reduced meanwhile"
    notes = [f"{FLAGS[0]} needs {needs}; no --moe-shared-expert-overlap beside it"]
    if candidate.shape.expert <= FEW_RANKS:
        notes.append(
            f"with {candidate.shape.expert} expert ranks exchanges are short, so that {FLAGS[0]}"
            " may gain nothing: measure both"
        )
    return notes


def torch_notes(request: Request, candidate: Candidate) -> list[str]:
    """What of the plan torchtitan does not do."""
    if not hides_exchanges(request, candidate) or candidate.schedule == "dualpipe-v":
        return []
    counted = f"{100 - request.expert_exposed} % of the exchanges of experts"
    if candidate.schedule == COMBINED:
        counted = "exchanges of experts in pairs"
    return [
        f"the plan counts {counted} as hidden behind another microbatch, which torchtitan does in"
        " DualPipeV alone"
    ]
