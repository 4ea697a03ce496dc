"""The passes that attach costs and end a training step, in the form that `pipesched-opt` takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path as FilePath

from ...costs.costs import _FILE, _JSON, Costs, Description, _description
from ...costs.deployment import unlike
from ...costs.stage_times import Place
from ...support.files import write_whole
from ...support.options import list_places, one_pass
from ..candidate import Candidate, Shape
from ..request import Request

ENDING = "pipe-add-optimizer{all-reduce=eager}"
"""Reduces gradients in parallel with the remaining compute, and adds optimizer steps."""


def _source(what: str, given: Description, folder: str) -> dict[str, str]:
    """The option of a pass for a description; fields are written to a file in `folder`."""
    source = _description(given)
    assert source is not None
    kind, text = source
    if kind == _JSON:
        file = FilePath(folder, f"{what}.json")
        write_whole(file, text.encode())
        return {"file": str(file)}
    return {"file" if kind == _FILE else "name": text}


def _reduces(request: Request, shape: Shape) -> bool:
    """Whether several accelerators hold the same parameters."""
    return (
        shape.data > 1 or shape.context > 1 or 1 < request.expert_ranks(shape.expert) < shape.worker
    )


def attach_costs(request: Request, shape: Shape, folder: str = "") -> list[str]:
    """The passes that attach model and system; fields are written to `folder`."""
    request.described.check_form()
    model = request.model is not None and {
        **_source("model", request.model, folder),
        "sequence": request.sequence,
        "microbatch-size": shape.microbatch_size,
        "parameter-bytes": None
        if request.own_bytes
        else ",".join(map(str, request.parameter_bytes(shape.sharding))),
        "recompute": None if shape.recompute == "none" else shape.recompute,
        "attention": request.described.attention,
        "precision": None if request.precision == "bf16" else request.precision,
        "sequence-parallel": None if request.sequence_parallel else False,
    }
    system = {
        **_source("system", request.system, folder),
        "rates": None if request.rates == "auto" else request.rates,
        "accelerators": shape.worker,
        **unlike(request.deployment(shape), effective=True),
        # The parts of a sequence hold the same parameters, as the replicas do.
        "sharding": None if shape.sharding == "none" else shape.sharding,
    }
    if _reduces(request, shape) and request.gradient_buckets == "auto":
        # As `Configuration` does for a step with ENDING; rows do not show passes.
        system["gradient-buckets"] = "layers"
    attached = one_pass("pipe-attach-system", system)
    return [one_pass("pipe-attach-model", model), attached] if model else [attached]


def place(candidate: Candidate) -> str:
    """The pass that places the paths with the layers of their stages."""
    paths = list_places(zip(candidate.paths, candidate.layers, strict=True))
    return one_pass("pipe-place-list", {"paths": paths})


def attach_times(costs: Costs, places: Sequence[Place]) -> list[str]:
    """The pass that attaches the times of the stages of these places."""
    if costs.times is None:
        return []
    return [one_pass("pipe-attach-profile", {"times": costs._for(places).times})]
