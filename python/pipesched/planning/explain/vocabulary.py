"""Proposes to divide a heavy head among the workers of a plan, and says whether that or layers that
are divided unevenly win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ...costs.division import SPREAD
from ...results.batch import evaluate_points
from ...results.configuration import head_in_layers
from ...support.text import gib
from ..candidate import Candidate
from ..space.heads import SHARDS
from ..space.space import Space

if TYPE_CHECKING:
    from ..proposals import Plan, Proposal

HEAVY = 1.0
"""From how many layers' time on a head is heavy."""

NEAR = 0.005
"""Steps nearer than this, as a part, are as fast."""

UNLAUNCHED = "no launcher of a framework runs shards of the vocabulary"


class _Made(NamedTuple):
    step_s: float
    peak_bytes: int
    candidate: Candidate


def _spread(best: Proposal) -> Iterator[_Made]:
    """What `--vocabulary` searches on the same shape, where that can be timed."""
    space = Space(replace(best.request, vocabulary=SHARDS))
    candidates = [c for c in space.candidates_of(best.shape) if c.vocabulary != "whole"]
    found = evaluate_points([space.configuration(each) for each in candidates])
    columns = (found.columns[name].tolist() for name in ("makespan_ps", "peak_bytes"))
    for candidate, error, step, peak in zip(candidates, found.errors, *columns, strict=True):
        if error is None:
            yield _Made(step / 1e12, -(-peak // best.shape.worker), candidate)


def _name(candidate: Candidate) -> str:
    by = f" by {candidate.vocabulary.capitalize()}" if candidate.options else ""
    return f"{candidate.schedule}{by}"


def _ahead(one: float, other: float) -> str:
    return f"{100 * (other / one - 1):.1f} %"


def _named(plan: Plan, best: Proposal) -> list[str]:
    """Where schedules with shards were searched."""
    kinds = {each.schedule in SPREAD: each for each in reversed(plan.alike)}
    if len(kinds) < 2:
        return []
    shards, whole = kinds[True], kinds[False]
    first, second = sorted((shards, whole), key=lambda each: each.ranked_s)
    layers = "even" if whole.candidate.is_even else whole.candidate.layers_text
    who = "shards of the vocabulary win" if first is shards else "a whole head wins"
    return [
        f"on the same shape {who}, {_ahead(first.ranked_s, second.ranked_s)} ahead:"
        f" {shards.schedule} takes {shards.ranked_s:.4g} s, {whole.schedule} of layers {layers}"
        f" {whole.ranked_s:.4g} s"
    ]


def shards(plan: Plan) -> list[str]:
    """The sentence on shards of the vocabulary, for the shape of the best plan."""
    best = plan.fitting[0]
    request = plan.request
    if any(each.schedule in SPREAD for each in plan.alike):
        return _named(plan, best)
    given = (request.schedules, request.launcher, request.vocabulary)
    is_asked = all(each is None for each in given) and plan.slow is None
    if not is_asked or best.configuration is None or best.configuration.costs is None:
        return []
    if best.shape.pipeline < 2:
        return []
    weight = head_in_layers(best.configuration.costs)
    if weight is None or weight < HEAVY:
        return []
    fitting = [made for made in _spread(best) if made.peak_bytes <= request.usable_bytes]
    if not fitting:
        return []
    made = min(fitting, key=lambda each: (each.step_s, each.peak_bytes, each.candidate.order))
    name = _name(made.candidate)
    layers = "even layers" if best.candidate.is_even else f"layers {best.candidate.layers_text}"
    heavy = f"the head takes as long as {weight:.1f} layers"
    if made.step_s > best.step_s * (1 - NEAR):
        return [f"{heavy}; {layers} win: with the vocabulary in shards {name} takes"
                f" {made.step_s:.4g} s"]  # fmt: skip
    return [
        f"{heavy}; with the vocabulary in shards {name} would take {made.step_s:.4g} s and"
        f" {gib(made.peak_bytes)}, {_ahead(made.step_s, best.step_s)} ahead of {layers}:"
        f" {UNLAUNCHED}, so that it is not searched; pipesched.torch does, and"
        f" --vocabulary {made.candidate.vocabulary} searches it"
    ]
