"""From which difference on two predicted steps of one cluster are told apart.

What all predictions for a cluster are off in common does not change their order. So the band of a
difference is made of pairs of published rows of one cluster and model: of how far their ratio was
off, which is the spread of their residuals within the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from statistics import fmean
from typing import Literal, NamedTuple

from ._residuals import Residual, residuals
from ._statistics import pooled, student
from ._traits import OF_TIMES, Traits

LEAST_DEGREES = 2
"""Fewer differences say nothing about how far apart they are."""


class Tolerance(NamedTuple):
    """From which difference on steps are told apart."""

    ratio: float
    """The slower step in terms of the faster one."""
    differences: int
    """The number of independent differences of published rows that it is made of."""
    spread: float
    """The standard deviation of the logarithms of residuals within a cluster."""

    @property
    def log(self) -> float:
        """The same as a difference of logarithms."""
        return math.log(self.ratio)


class Tolerances(NamedTuple):
    """Those of two steps on one layout, which differ in the schedule, and of two layouts."""

    schedules: Tolerance
    layouts: Tolerance


Layouts = list[list[float]]
"""The logarithms of ratios, by layout."""


def _by_layout(rows: Iterable[Residual], name: Literal["cluster", "run"]) -> list[Layouts]:
    """The layouts of each cluster or run; rows that stand alone have no cluster. Those of a system
    as sold and under load are apart.
    """
    found: dict[tuple[str, str | None], dict[str, list[float]]] = {}
    for row in rows:
        if key := getattr(row, name):
            layouts = found.setdefault((key, row.traits.rates), {})
            layouts.setdefault(row.layout, []).append(math.log(row.ratio))
    return [list(layouts.values()) for layouts in found.values()]


def _tolerance(groups: Iterable[Sequence[float]]) -> Tolerance | None:
    """The tolerance of two values of one group: the variance of a difference is twice that of a
    value.
    """
    spread, degrees = pooled(groups)
    if degrees < LEAST_DEGREES:
        return None
    return Tolerance(math.exp(student(degrees) * spread * math.sqrt(2)), degrees, spread)


def of_schedules(rows: Iterable[Residual]) -> Tolerance | None:
    """Of rows of one cluster, model and batch that share their layout."""
    return _tolerance(chain.from_iterable(_by_layout(rows, "cluster")))


def of_layouts(rows: Iterable[Residual]) -> Tolerance | None:
    """Of layouts of one publication, model and chip; the rows of a layout count with their mean.
    Only four clusters have several layouts for one batch.
    """
    return _tolerance([fmean(values) for values in each] for each in _by_layout(rows, "run"))


def _like(traits: Traits, rows: Iterable[Residual]) -> list[Residual]:
    """Rows of models like this one, under rates like these."""
    wanted = traits.kind, traits.rates
    return [row for row in rows if (row.traits.kind, row.traits.rates) == wanted]


@cache
def tolerances(traits: Traits) -> Tolerances:
    """The tolerances for steps with these traits. Layouts are those of dense models or of models
    with experts, under the same rates, of all chips; schedules are those of all rows, since one
    publication has nearly all of them. With given times layouts are those of all rows.

    >>> made = tolerances(Traits("computed", "Hopper", "under load", "dense"))
    >>> 1 < made.schedules.ratio < made.layouts.ratio
    True
    """
    rows = residuals()
    once = [row for row in rows if row.traits.rates != "data sheet"]
    schedules = of_schedules(once)
    like = [] if traits.times == OF_TIMES else _like(traits, rows)
    layouts = of_layouts(like) or of_layouts(once)
    assert schedules is not None and layouts is not None
    return Tolerances(schedules, layouts)
