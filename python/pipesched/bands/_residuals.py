"""The published steps of `residuals.json`, and the part of them that resembles a training."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from .traits import DROPPED, KEPT, Traits

FILE = "residuals.json"

LEAST_RUNS = 4
"""No further trait is dropped once rows of this many runs are left. A run is one publication, model
and chip; its rows count as one because they share an error.
"""


class Residual(NamedTuple):
    """One published step, and its measured time relative to its prediction."""

    source: str
    case: str
    run: str
    """The publication, model and hardware."""
    cluster: str
    """The cluster, model and batch of the row; empty if no other row shares them."""
    layout: str
    """Degrees and sizes. Rows of one cluster that share them differ in the schedule."""
    traits: Traits
    ratio: float
    """Measured divided by predicted time: above 1 the step took longer than predicted."""


def _read(row: dict[str, Any]) -> Residual:
    traits = Traits._make(row.get(name) for name in Traits._fields)
    source, case, run, cluster, layout = (row[name] for name in Residual._fields[:5])
    return Residual(source, case, run, cluster, layout, traits, row["measured_to_predicted"])


@cache
def residuals() -> tuple[Residual, ...]:
    """All published steps.

    >>> len(residuals()) > 100 and all(0.3 < row.ratio < 4 for row in residuals())
    True
    """
    text = (resources.files(__package__) / FILE).read_text(encoding="utf-8")
    return tuple(map(_read, json.loads(text)))


def runs_of(rows: Iterable[Residual]) -> dict[str, list[Residual]]:
    """The rows of each run."""
    found: dict[str, list[Residual]] = {}
    for row in rows:
        found.setdefault(row.run, []).append(row)
    return found


class Resembling(NamedTuple):
    """Rows that resemble a training."""

    rows: tuple[Residual, ...]
    shared: tuple[str, ...]
    """The traits that they share with it."""
    dropped: tuple[str, ...]
    """The traits that may differ, because too few rows share them."""


def shares(names: Sequence[str], traits: Traits) -> Callable[[Residual], bool]:
    """Whether a row shares these traits."""
    wanted = [(name, getattr(traits, name)) for name in names]
    return lambda row: all(getattr(row.traits, name) == value for name, value in wanted)


def resembling(traits: Traits, rows: Iterable[Residual] | None = None) -> Resembling:
    """Returns the rows that share most traits: the traits of `DROPPED` are dropped one after the
    other until rows of `LEAST_RUNS` runs are left. Unknown traits are not compared.
    """
    known = residuals() if rows is None else tuple(rows)
    compared = [name for name in DROPPED if getattr(traits, name) is not None]
    kept = tuple(name for name in KEPT if name == "times" or traits.times == "computed")
    for dropped in range(len(compared) + 1):
        names = (*kept, *compared[dropped:])
        found = tuple(filter(shares(names, traits), known))
        if len(runs_of(found)) >= LEAST_RUNS:
            break
    return Resembling(found, names, tuple(compared[:dropped]))
