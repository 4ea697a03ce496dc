"""Chooses the rows of a plan: first the simplest of the configurations that are as fast as the
fastest, then the fastest of each other row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...support.options import Recompute, Sharding, names_of
from ..candidate import ALONE
from .search import EQUAL, KEPT, Outcome, by_step

SIMPLE = (ALONE, "interleaved-1f1b")
"""The schedules that every framework has, the simpler one first; others are as simple as each
other.
"""

SHARDED: dict[Sharding, int] = {"gradients": 1, "full": 2}
"""How much more than the state of the optimizer is sharded, which every framework does."""

Expected = Callable[[Outcome], float]
"""The step that is to be expected of an outcome."""


def simplicity(outcome: Outcome) -> tuple[object, ...]:
    """Sort key: simpler configurations first (docs/Planning.md, "The order")."""
    candidate, shape = outcome.candidate, outcome.candidate.shape
    schedules = {name: rank for rank, name in enumerate(SIMPLE)}
    return (
        schedules.get(candidate.schedule, len(SIMPLE)),
        not candidate.is_even,
        candidate.chunks,
        shape.context,
        SHARDED.get(shape.sharding, 0),
        names_of(Recompute).index(shape.recompute),
        shape.tensor,
        shape.pipeline,
        outcome.peak_bytes,
        by_step(outcome),
    )


class Choice(NamedTuple):
    """The rows of a plan."""

    rows: list[Outcome]
    """The best, then the fastest of each other row, by the steps that are to be expected."""
    fastest: Outcome
    """The fastest of all, which may be of the same row as the best."""


def choose(fitting: list[Outcome], top: int, expected: Expected) -> Choice:
    """Chooses from configurations that fit, at least one, sorted by step."""
    rows: dict[object, list[Outcome]] = {}
    for outcome in fitting:
        rows.setdefault(outcome.candidate.row, []).append(outcome)
    last = [same[0].step_ps for same in rows.values()][:KEPT][-1]
    last = max(last, int((1 + EQUAL) * fitting[0].step_ps))
    first = [o for o in fitting if o.step_ps <= last]
    fastest = min(first, key=expected)
    as_fast = (o for o in first if expected(o) <= (1 + EQUAL) * expected(fastest))
    best = min(as_fast, key=simplicity)
    del rows[best.candidate.row]
    others = sorted((same[0] for same in rows.values()), key=lambda o: (expected(o), by_step(o)))
    return Choice([best, *others][:top], fastest)
