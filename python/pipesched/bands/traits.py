"""What of a training decides which published rows resemble it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from ..costs.catalogue import systems
from ..costs.costs import Costs
from ..costs.settings import _fields_of
from ..costs.stage_times import has_phases

Generation = Literal["A100", "Hopper", "Blackwell"]

GENERATIONS: dict[str, Generation] = {
    "a100-sxm-80gb": "A100",
    "h100-sxm": "Hopper",
    "b200-sxm": "Blackwell",
    "gb200-nvl72": "Blackwell",
}
"""A system of each chip with published rows. Others have this chip if their peaks are the same:
a system that is fitted, divided in another way or of another memory keeps its peaks.
"""

PEAKS = (("matrix", "tflops"), ("matrix", "fp8_tflops"), ("vector", "tflops"))
SAME_PEAK = 0.01

OF_TIMES = "given times"
COMPUTED = "computed"
DATA_SHEET, UNDER_LOAD = "data sheet", "under load"


class Traits(NamedTuple):
    """What is compared. None stands for what is not known, and what given times do not need."""

    times: str
    """Whether times of stages are computed or given."""
    generation: str | None = None
    rates: str | None = None
    """Of a data sheet, or those under a load that lasts."""
    kind: str | None = None
    """Dense, or with experts."""
    tensor: str | None = None
    framework: str | None = None
    precision: str | None = None


KEPT = ("times", "generation", "rates", "kind")
"""Traits that rows must share with a prediction. Rows of other hardware say nothing about it."""

DROPPED = ("precision", "framework", "tensor")
"""Traits that need not be shared if too few rows share them, in the order in which they go."""


def degree_class(tensor: int) -> str:
    """
    >>> [degree_class(degree) for degree in (1, 2, 4, 8)]
    ['1', '2 to 4', '2 to 4', '8 or more']
    """
    return "1" if tensor == 1 else "2 to 4" if tensor < 8 else "8 or more"


def _peaks(system: Mapping[str, Any]) -> list[float]:
    """The peaks of a system, 0 for those that it has not."""
    parts = ((system.get(part), name) for part, name in PEAKS)
    found = (part.get(name) if isinstance(part, Mapping) else None for part, name in parts)
    return [float(peak) if isinstance(peak, (int, float)) else 0.0 for peak in found]


@cache
def _known_peaks() -> list[tuple[list[float], Generation]]:
    shipped = systems()
    return [(_peaks(shipped[name]), generation) for name, generation in GENERATIONS.items()]


def generation_of(system: Mapping[str, Any]) -> Generation | None:
    """The chip of a system, by its peaks; None without published rows.

    >>> generation_of(systems()["superpod-h100"]), generation_of(systems()["mi300x-oam"])
    ('Hopper', None)
    """

    own = _peaks(system)
    for known, generation in _known_peaks():
        if all(abs(a - b) <= SAME_PEAK * b for a, b in zip(own, known, strict=True)):
            return generation
    return None


def is_under_load(system: Mapping[str, Any]) -> bool:
    """Whether a system has terms for a load that lasts: its sustained rates, or times of the
    host.
    """
    return "sustained" in system or "host_time" in system


def traits_of(costs: Costs | None, framework: str | None = None) -> Traits | None:
    """The traits of costs; None if steps under them are no predictions of a training: without a
    system, or without a model and times.
    """
    if costs is None or costs.system is None:
        return None
    if costs.times is not None and (costs.times_of == "layer" or has_phases(costs.times)):
        return Traits(OF_TIMES)
    if costs.model is None:
        return None
    system = _fields_of("system", costs.system)
    model = costs.model_summary()
    return Traits(
        COMPUTED,
        generation_of(system),
        UNDER_LOAD if is_under_load(system) else DATA_SHEET,
        "experts" if model["expert_parameters"] else "dense",
        degree_class((costs._accelerators or 1) // costs.context_parallel),
        framework,
        costs.precision,
    )
