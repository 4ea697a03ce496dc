"""The passes that make the schedules of candidates, in the form that `pipesched-opt` takes."""

from __future__ import annotations

from ...costs.costs import Costs
from ...costs.passes import attach_model, attach_system, attach_times
from ...costs.stage_times import places_of
from ...support.options import list_places, one_pass
from ..candidate import Candidate

ENDING = "pipe-add-optimizer{all-reduce=eager}"
"""Reduces gradients in parallel with the remaining compute, and adds optimizer steps."""


def _shares_parameters(costs: Costs) -> bool:
    """Whether several accelerators hold the same parameters."""
    ranks = costs.expert_parallel * costs.expert_tensor if costs.expert_parallel > 1 else 1
    has_replicas = costs.data_parallel > 1 or costs.context_parallel > 1
    return has_replicas or 1 < ranks < (costs.accelerators or 1)


def attach_costs(costs: Costs, candidate: Candidate, folder: str = "") -> list[str]:
    """The passes that attach system, model and times; fields are written to `folder`."""
    attached = [
        attach_system(costs, folder, effective=True, layer_buckets=_shares_parameters(costs))
    ]
    if costs.model is not None:
        attached.append(attach_model(costs, folder))
    return attached + attach_times(costs, places_of(candidate.raw_paths))


def place(candidate: Candidate) -> str:
    """The pass that places the paths with the layers of their stages."""
    paths = list_places(zip(candidate.paths, candidate.layers, strict=True))
    return one_pass("pipe-place-list", {"paths": paths})
