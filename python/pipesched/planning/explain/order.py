"""Which proposals of a plan may be the fastest, and which short runs decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...bands import Order, Step, order_of, tell

if TYPE_CHECKING:
    from ..proposals import Plan, Proposal


def _steps(proposals: Sequence[Proposal]) -> list[Step] | None:
    """The steps of proposals that fit; None if they are no predictions of a training."""
    bands = [proposal.band for proposal in proposals]
    if None in bands:
        return None
    return [
        Step(each.name, each.ranked_s, each.shape, band.traits)
        for each, band in zip(proposals, bands, strict=True)
        if band is not None
    ]


def _order(plan: Plan) -> tuple[list[Step], Order] | None:
    steps = _steps(plan.fitting)
    return (steps, order_of(steps)) if steps else None


def undecided(plan: Plan) -> list[str]:
    """The sentence on which proposals are not told apart from the first."""
    found = _order(plan)
    return [] if found is None else tell(*found)


def order_keys(plan: Plan) -> list[dict[str, Any]]:
    """For each proposal whether it may be the fastest that fits, and whether its run decides. Null
    if that is not known.
    """
    found = _order(plan)
    keys: list[dict[str, Any]] = [
        {"may_be_first": None, "run_decides": None} for _ in plan.proposals
    ]
    if found is None:
        return keys
    _, order = found
    for i in range(len(plan.fitting)):
        keys[i] = {"may_be_first": i in order.first, "run_decides": i in order.runs}
    return keys
