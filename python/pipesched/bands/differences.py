"""The smallest difference by which two predicted steps of one cluster can be ranked.

A common error of all predictions for a cluster does not change their order. So the band of a
difference comes from pairs of published rows of one cluster and model: from the errors of their
ratios, which are the spread of their residuals within the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from statistics import fmean
from typing import Literal, NamedTuple

from ._residuals import Residual, residuals
from ._statistics import order_student, pool, student
from .traits import DATA_SHEET, OF_TIMES, Traits

LEAST_RUNS = 2
"""Differences from fewer runs do not predict the differences of another run."""


class Tolerance(NamedTuple):
    """The difference above which steps are ranked."""

    ratio: float
    """The slower step divided by the faster one."""
    differences: int
    """The number of independent differences of published rows from which the tolerance was
    computed.
    """
    runs: int
    """The publications, models and chips of these. A schedule or a layout has the same error
    throughout one of them, so each counts as one degree of freedom.
    """
    spread: float
    """The standard deviation of the logarithms of residuals within a cluster, over all differences.
    `ratio` uses the spread over runs instead, so that the many layouts of a sweep count as one.
    """

    @property
    def quantile(self) -> float:
        """The quantile of Student's distribution for a band, which is larger for few runs."""
        return student(self.runs)

    @property
    def log(self) -> float:
        """The tolerance as a difference of logarithms."""
        return math.log(self.ratio)


class Tolerances(NamedTuple):
    """The tolerances of two steps with one layout, which differ in the schedule, and of two steps
    with different layouts.
    """

    schedules: Tolerance
    layouts: Tolerance


class Group(NamedTuple):
    """Logarithms of ratios that share an error."""

    run: str
    values: Sequence[float]


Layouts = list[Group]
"""The logarithms of ratios, by layout."""


def _by_layout(rows: Iterable[Residual], name: Literal["cluster", "run"]) -> list[Layouts]:
    """The layouts of each cluster or run. A system as sold and under load is listed twice."""
    found: dict[tuple[str, str, str | None], dict[str, list[float]]] = {}
    for row in rows:
        if key := getattr(row, name):
            layouts = found.setdefault((row.run, key, row.traits.rates), {})
            layouts.setdefault(row.layout, []).append(math.log(row.ratio))
    return [
        [Group(run, values) for values in layouts.values()]
        for (run, _, _), layouts in found.items()
    ]


def _tolerance(groups: Iterable[Group]) -> Tolerance | None:
    """Returns the tolerance of two values of one group: the variance of a difference is twice the
    variance of a value.
    """
    runs: dict[str, list[Sequence[float]]] = {}
    for group in groups:
        if len(group.values) > 1:
            runs.setdefault(group.run, []).append(group.values)
    if len(runs) < LEAST_RUNS:
        return None
    spread, differences = pool(chain.from_iterable(runs.values()))
    of_runs = math.sqrt(fmean(pool(values)[0] ** 2 for values in runs.values()))
    log = order_student(len(runs)) * of_runs * math.sqrt(2)
    return Tolerance(math.exp(log), differences, len(runs), spread)


def of_schedules(rows: Iterable[Residual]) -> Tolerance | None:
    """Returns the tolerance for schedules, from rows with one cluster, model, batch and layout."""
    return _tolerance(chain.from_iterable(_by_layout(rows, "cluster")))


def of_layouts(rows: Iterable[Residual]) -> Tolerance | None:
    """Returns the tolerance for layouts, from rows of one publication, model and chip. The rows of
    a layout count with their mean. Only four clusters have several layouts for one batch.
    """
    return _tolerance(
        Group(layouts[0].run, [fmean(group.values) for group in layouts])
        for layouts in _by_layout(rows, "run")
    )


def like(traits: Traits, rows: Iterable[Residual]) -> list[Residual]:
    """Returns the rows of similar models under the same rates; with given times all rows, each
    once.
    """
    if traits.times == OF_TIMES:
        return [row for row in rows if row.traits.rates != DATA_SHEET]
    wanted = traits.kind, traits.rates
    return [row for row in rows if (row.traits.kind, row.traits.rates) == wanted]


@cache
def tolerances(traits: Traits) -> Tolerances:
    """The tolerances for steps with these traits. Layout tolerances come from dense models or from
    models with experts, under the same rates, of all chips. Schedule tolerances come from all rows,
    since one publication has nearly all of them. With given times layout tolerances come from all
    rows, too.

    >>> made = tolerances(Traits("computed", "Hopper", "under load", "dense"))
    >>> 1 < made.schedules.ratio < made.layouts.ratio
    True
    """
    rows = residuals()
    once = [row for row in rows if row.traits.rates != DATA_SHEET]
    schedules = of_schedules(once)
    layouts = of_layouts(like(traits, rows)) or of_layouts(once)
    assert schedules is not None and layouts is not None
    return Tolerances(schedules, layouts)
