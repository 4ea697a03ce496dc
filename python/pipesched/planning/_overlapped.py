"""Exchanges of experts behind another microbatch, in lines for launchers.

Megatron-LM's `--overlap-moe-expert-parallel-comm` runs forwards of one microbatch beside backwards
of another (`megatron/core/pipeline_parallel/combined_1f1b.py`). Its constraints are those of
`megatron/core/transformer/transformer_config.py` and `megatron/training/arguments.py`.
"""

from __future__ import annotations

from ._candidate import Candidate
from ._request import Request

FLAGS = ("--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute")

FEW_RANKS = 4
"""With so many ranks that divide the experts, or fewer, exchanges are short, and a step with
overlap may be slower.
"""


def hides_exchanges(request: Request, candidate: Candidate) -> bool:
    """Whether the plan counts a part of the exchanges as hidden."""
    return candidate.shape.expert > 1 and request.expert_exposed < 100


def reason_against(request: Request, candidate: Candidate) -> str | None:
    """Why Megatron-LM cannot hide what the plan counts as hidden, if so."""
    if not hides_exchanges(request, candidate):
        return None
    if candidate.shape.pipeline > 1 and candidate.chunks == 1:
        why = "in a pipeline without chunks"
    elif candidate.shape.recompute == "full":
        why = "with full recomputation"
    else:
        return None
    hidden = 100 - request.expert_exposed
    return (
        f"Megatron-LM hides no exchanges of experts {why}, the plan counts {hidden} % of them as"
        " hidden; plan with --expert-exposed 100"
    )


def megatron_flags(request: Request, candidate: Candidate) -> list[str]:
    """The flags with which Megatron-LM hides exchanges."""
    return list(FLAGS) if hides_exchanges(request, candidate) else []


def megatron_notes(request: Request, candidate: Candidate) -> list[str]:
    """What these flags need besides."""
    if not hides_exchanges(request, candidate):
        return []
    needs = "CUDA_DEVICE_MAX_CONNECTIONS=32"
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
    hidden = 100 - request.expert_exposed
    return [
        f"the plan counts {hidden} % of the exchanges of experts as hidden behind another"
        " microbatch, which torchtitan does in DualPipeV alone"
    ]
