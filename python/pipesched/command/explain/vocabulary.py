"""Whether shards of a vocabulary gain, beside layers that are divided unevenly: sentences below a
comparison.

A head that takes as long as several layers can be divided among the workers, or the worker that has
it can have fewer layers. Each comparison of both kinds of schedules under costs of a model says
which wins, and why.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipesched import PipeSchedError
from pipesched.costs.division import SPREAD
from pipesched.results.configuration import head_in_layers

from ..options.entries import Entry
from ..render.output import seconds
from .ranking import Pair
from .slices import Timed, least, sentences

NEAR = 0.005
"""Steps nearer than this, as a part, are as fast."""


def _uneven(whole: Timed) -> Timed | None:
    """The schedule with layers divided by their costs."""
    point = whole.point
    if point.paths is not None or point.costs is None or point._counts is not None:
        return None
    try:
        made = replace(point, costs=replace(point.costs, balance="cost"))
        counts = made._counts
        if counts is None or len({layers for path in counts for layers in path}) == 1:
            return None
        return Timed(f"{whole.name} of uneven layers", made, made.simulate())
    except PipeSchedError:
        return None


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"


def _verdict(best: Timed, rest: Sequence[Timed]) -> str:
    """Which is the fastest, and by how much."""
    other = min(rest, key=lambda each: each.step_ps)
    ahead = other.step_ps / best.step_ps - 1
    if abs(ahead) < NEAR:
        return "the vocabulary in shards is as fast"
    if ahead > 0:
        return f"the vocabulary in shards wins, {_percent(ahead)} ahead"
    return f"{other.name} wins, {_percent(1 - other.step_ps / best.step_ps)} ahead of shards"


def _at_consumers(best: Timed, spread: Sequence[Timed]) -> str:
    """What shards would take with receives in front of what needs them, if they are slower."""
    points = [replace(each.point, receive_placement="consumer") for each in spread]
    step, name = min(zip(least(points), [each.name for each in spread], strict=True))
    if math.isinf(step) or step > best.step_ps * (1 - NEAR):
        return ""
    return (
        f"; with receives in front of their consumers (--receive-placement consumer) {name} takes"
        f" {seconds(step / 1e12)}"
    )


def _sentence(group: Sequence[Timed]) -> str:
    spread = [each for each in group if each.point.family in SPREAD]
    whole = [each for each in group if each.point.family not in SPREAD and each.report.slices == 1]
    if not spread or not whole:
        return ""
    best = min(spread, key=lambda each: each.step_ps)
    assert best.point.costs is not None
    weight = head_in_layers(best.point.costs)
    heavy = "" if weight is None else f"the head takes as long as {weight:.1f} layers; "
    fastest = min(whole, key=lambda each: each.step_ps)
    rest = [fastest]
    texts = [f"{best.name} takes {seconds(best.step_ps / 1e12)}"]
    texts.append(f"{fastest.name} {seconds(fastest.step_ps / 1e12)}")
    uneven = [made for each in whole if (made := _uneven(each)) is not None]
    if uneven:
        rest.append(least_uneven := min(uneven, key=lambda each: each.step_ps))
        texts.append(f"{least_uneven.name} {seconds(least_uneven.step_ps / 1e12)}")
    held = [each.memory for each in (best, min(rest, key=lambda each: each.step_ps))]
    memory = f", with {held[0]} in place of {held[1]} an accelerator" if all(held) else ""
    listed = ", ".join(texts[:-1]) + f" and {texts[-1]}"
    return f"{heavy}{listed}: {_verdict(best, rest)}{memory}{_at_consumers(best, spread)}"


def remarks(entries: Sequence[Entry], pairs: Sequence[Pair]) -> Iterator[str]:
    """One sentence for each size at which shards of a vocabulary are compared with whole heads."""
    return sentences(entries, pairs, _sentence)
