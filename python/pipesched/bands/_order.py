"""Finds which of several predicted steps may be the shortest, and which runs would decide."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from .differences import Tolerance, tolerances
from .traits import Traits

TIE = 0.01
"""Measurements that differ by less than this share of a step have no order (studies/groups.py)."""


class Step(NamedTuple):
    """A predicted step among steps of one cluster, model and batch."""

    name: str
    seconds: float
    layout: Hashable
    """Degrees, sizes and recomputation. Steps with the same layout differ only in the schedule."""
    traits: Traits


class Order(NamedTuple):
    """The known order of steps. Numbers are positions in the list of steps."""

    first: tuple[int, ...]
    """Steps that may be the shortest, because none is known to be shorter."""
    runs: tuple[int, ...]
    """The steps in `first` whose short runs decide; empty if there are fewer than two."""
    alike: tuple[tuple[int, int], ...]
    """The other steps, each with a step of the same layout whose time is within `TIE` of it."""


def _tolerance(step: Step, other: Step) -> Tolerance:
    known = tolerances(other.traits)
    return known.schedules if step.layout == other.layout else known.layouts


def _is_slower(step: Step, other: Step) -> bool:
    """Returns whether a step is known to be slower than another one."""
    return math.log(step.seconds / other.seconds) > _tolerance(step, other).log


def order_of(steps: Sequence[Step]) -> Order:
    """Returns the order of steps, whose times are all above 0. No two of the steps that may be the
    shortest can be ranked. A run of only one of them does not reduce the uncertainty of the others
    relative to it, so runs of all of them are needed. A step that is as fast as another one with
    the same layout needs no run.

    No two of the steps that may be the shortest can be ranked. A run of one of them does not reduce
    the uncertainty of the others relative to it, so only runs of all decide. Steps that are as fast
    as another one on their layout need no run.
    """
    first = [i for i, s in enumerate(steps) if not any(_is_slower(s, each) for each in steps)]
    first.sort(key=lambda i: (steps[i].seconds, i))
    runs: list[int] = []
    alike: list[tuple[int, int]] = []
    for i in first:
        same = [
            run
            for run in runs
            if steps[run].layout == steps[i].layout
            and steps[i].seconds <= (1 + TIE) * steps[run].seconds
        ]
        if same:
            alike.append((i, same[0]))
        else:
            runs.append(i)
    return Order(tuple(first), tuple(runs) if len(runs) > 1 else (), tuple(alike))


# Sentences


def _list_names(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _from(tolerance: Tolerance) -> str:
    percent = f"{100 * (tolerance.ratio - 1):.0f}"
    return f"from {percent} % on ({tolerance.differences} differences of {tolerance.runs} runs)"


def _tolerances_of(steps: Sequence[Step]) -> str:
    """The differences that published rows rank: `schedules of one layout from 7 % on`."""
    known = tolerances(steps[0].traits)
    layouts = {step.layout for step in steps}
    found = []
    if len(layouts) < len(steps):
        found.append(f"schedules of one layout {_from(known.schedules)}")
    if len(layouts) > 1:
        found.append(f"layouts {_from(known.layouts)}")
    return " and ".join(found)


def tell(steps: Sequence[Step], order: Order) -> list[str]:
    """Returns sentences on the order of steps; none for a single step.

    >>> traits = Traits("computed", "Hopper", "under load", "dense")
    >>> steps = [Step("a", 1.0, 0, traits), Step("b", 1.05, 0, traits), Step("c", 1.5, 0, traits)]
    >>> print("; ".join(tell(steps, order_of(steps))))
    b is within the prediction error of a: published rows rank schedules of one layout only from \
13 % on (37 differences of 12 runs); short runs of a and b decide
    """
    if len(steps) < 2:
        return []
    fastest, *others = order.first
    name = steps[fastest].name
    ranked = f"published rows rank {_tolerances_of(steps)}".replace(" from ", " only from ", 1)
    if not others:
        return [f"{name} is the fastest by more than predictions are off: {ranked}"]
    near = [steps[i].name for i in sorted(others)]
    verb = "is" if len(near) == 1 else "are"
    parts = [f"{_list_names(near)} {verb} within the prediction error of {name}: {ranked}"]
    if order.runs:
        runs = [steps[i].name for i in sorted(order.runs)]
        parts.append(f"short runs of {_list_names(runs)} decide")
    alike: dict[int, list[str]] = {}
    for i, run in order.alike:
        alike.setdefault(run, []).append(steps[i].name)
    for run, names in alike.items():
        verb = "is" if len(names) == 1 else "are"
        parts.append(f"{_list_names(names)} {verb} within 1 % of {steps[run].name} on its layout")
    return ["; ".join(parts)]
