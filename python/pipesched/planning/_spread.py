"""Proposes to divide a heavy head among the workers of a plan, and says whether that or layers that
are divided unevenly win.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from .._batch import Configuration
from .._costs import Costs
from .._division import SPREAD
from .._errors import PipeSchedError
from .._options import FamilyOptions, Path, ReceivePlacement
from .._text import gib

if TYPE_CHECKING:
    from ._plan import Plan, Proposal

HEAVY = 1.0
"""From how many layers' time on a head is heavy."""

NEAR = 0.005
"""Steps nearer than this, as a part, are as fast."""

UNLAUNCHED = "no launcher of a framework runs shards of the vocabulary"

KINDS = (
    ("vocab-1f1b", FamilyOptions(vocabulary="vocab-1"), "vocab-1f1b by Vocab-1"),
    ("vocab-1f1b", FamilyOptions(vocabulary="vocab-2"), "vocab-1f1b by Vocab-2"),
    ("interlaced-1f1b", FamilyOptions(), "interlaced-1f1b"),
)


PLACEMENTS: tuple[ReceivePlacement, ...] = ("arrival", "consumer")


class _Made(NamedTuple):
    step_s: float
    name: str
    peak_bytes: int
    family: str
    but: str
    """In what a search of the family differs."""


def head_in_layers(costs: Costs) -> float | None:
    """How many layers take as long as the head, by the busy times of a pipeline with a layer in
    each stage. None if the model has too few layers for that.
    """
    layers = costs._division.layers
    if layers < 3:
        return None
    try:
        alone = Configuration("gpipe", layers, 1, costs=replace(costs, balance="exact"))
        busy = alone.simulate().execution.busy_ps
    except PipeSchedError:
        return None
    layer = sorted(float(each) for each in busy[1:-1])[(layers - 2) // 2]
    return (float(busy[-1]) - layer) / layer if layer else None


def _spread(best: Proposal) -> Iterator[_Made]:
    """The same shape with shards of the head, where that can be timed."""
    base, workers = best.configuration, list(range(best.shape.pipeline))
    assert base is not None and base.costs is not None
    searched = base.receive_placement
    paths = [Path(workers, blocks=list(base.costs._division.by_number(workers)))]
    for family, options, name in KINDS:
        for placement in PLACEMENTS:
            point = replace(base, family=family, options=options, paths=paths)
            point = replace(point, receive_placement=placement)
            try:
                report = point.simulate()
            except PipeSchedError:
                continue
            if report.memory is not None:
                peak = int(report.memory.peak_bytes.max()) // best.shape.worker
                other = [" by Vocab-1"] if options.get("vocabulary") == "vocab-2" else []
                if placement != searched:
                    other.append(f" with receives at {searched}")
                step_s = report.execution.makespan_ps / 1e12
                yield _Made(step_s, name, peak, family, " and".join(other))


def _ahead(one: float, other: float) -> str:
    return f"{100 * (other / one - 1):.1f} %"


def _named(plan: Plan, best: Proposal) -> list[str]:
    """Where schedules with shards were searched."""
    kinds = {each.schedule in SPREAD: each for each in reversed(plan.alike)}
    if len(kinds) < 2:
        return []
    shards, whole = kinds[True], kinds[False]
    first, second = sorted((shards, whole), key=lambda each: each.step_s)
    layers = "even" if whole.candidate.is_even else whole.candidate.layers_text
    who = "shards of the vocabulary win" if first is shards else "a whole head wins"
    return [
        f"on the same shape {who}, {_ahead(first.step_s, second.step_s)} ahead: {shards.schedule}"
        f" takes {shards.step_s:.4g} s, {whole.schedule} of layers {layers} {whole.step_s:.4g} s"
    ]


def shards(plan: Plan) -> list[str]:
    """The sentence on shards of the vocabulary, for the shape of the best plan."""
    best = plan.fitting[0]
    request = plan.request
    if any(each.schedule in SPREAD for each in plan.alike):
        return _named(plan, best)
    is_asked = request.schedules is None and request.launcher is None
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
    made = min(fitting)
    layers = "even layers" if best.candidate.is_even else f"layers {best.candidate.layers_text}"
    heavy = f"the head takes as long as {weight:.1f} layers"
    if made.step_s > best.step_s * (1 - NEAR):
        return [f"{heavy}; {layers} win: with the vocabulary in shards {made.name} takes"
                f" {made.step_s:.4g} s"]  # fmt: skip
    return [
        f"{heavy}; with the vocabulary in shards {made.name} would take {made.step_s:.4g} s and"
        f" {gib(made.peak_bytes)}, {_ahead(made.step_s, best.step_s)} ahead of {layers}:"
        f" {UNLAUNCHED}, so that it is not searched; pipesched.torch does, and"
        f" --schedules {made.family} searches it{made.but}"
    ]
