"""Traits of a training that decide which published rows resemble it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from ..costs.catalogue import systems
from ..costs.costs import Costs
from ..costs.settings import _fields_of
from ..costs.stage_times import has_phases

Generation = Literal[
    "A100", "Hopper", "Blackwell", "Blackwell Ultra", "MI300X", "MI355X", "TPU v6e"
]

GENERATIONS: dict[str, Generation] = {
    "a100-sxm-80gb": "A100",
    "h100-sxm": "Hopper",
    "b200-sxm": "Blackwell",
    "gb200-nvl72": "Blackwell",
    "b300-sxm": "Blackwell Ultra",
    "gb300-nvl72": "Blackwell Ultra",
    "mi300x-oam": "MI300X",
    "mi355x-oam": "MI355X",
    "tpu-v6e": "TPU v6e",
}
"""A system for each chip with published rows. Another system has this chip if its peaks are the
same: a fitted system, or one with another division or memory, keeps its peaks. If several chips
have these peaks, the one with the nearest memory counts.
"""

PEAKS = (("matrix", "tflops"), ("matrix", "fp8_tflops"), ("vector", "tflops"))
SAME_PEAK = 0.01

OF_TIMES = "given times"
COMPUTED = "computed"
DATA_SHEET, UNDER_LOAD = "data sheet", "under load"


class Traits(NamedTuple):
    """The traits to compare. None means that the trait is unknown, or that given times do not
    depend on it.
    """

    times: str
    """Whether times of stages are computed or given."""
    generation: str | None = None
    rates: str | None = None
    """Whether rates are from a data sheet or under a lasting load."""
    kind: str | None = None
    """Dense, with experts, or tiny: under `TINY_PARAMETERS`, where the host bounds steps."""
    tensor: str | None = None
    framework: str | None = None
    precision: str | None = None


TINY_PARAMETERS = 10**9

KEPT = ("times", "generation", "rates", "kind")
"""Traits that rows must share with a prediction: rows of other hardware tell nothing about it."""

DROPPED = ("precision", "framework", "tensor")
"""Traits that are dropped, in this order, if too few rows share them."""


def degree_class(tensor: int) -> str:
    """
    >>> [degree_class(degree) for degree in (1, 2, 4, 8)]
    ['1', '2 to 4', '2 to 4', '8 or more']
    """
    return "1" if tensor == 1 else "2 to 4" if tensor < 8 else "8 or more"


def _peaks(system: Mapping[str, Any]) -> list[float]:
    """Returns the peaks of a system, 0 for missing ones."""
    parts = ((system.get(part), name) for part, name in PEAKS)
    found = (part.get(name) if isinstance(part, Mapping) else None for part, name in parts)
    return [_number(peak) for peak in found]


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _capacity(system: Mapping[str, Any]) -> float:
    memory = system.get("memory")
    return _number(memory.get("capacity_gb")) if isinstance(memory, Mapping) else 0.0


@cache
def _known_chips() -> list[tuple[list[float], float, Generation]]:
    shipped = ((systems()[name], generation) for name, generation in GENERATIONS.items())
    return [(_peaks(each), _capacity(each), generation) for each, generation in shipped]


def generation_of(system: Mapping[str, Any]) -> Generation | None:
    """The chip of a system, by its peaks; None without published rows.

    >>> generation_of(systems()["superpod-h100"]), generation_of(systems()["gb300-nvl72"])
    ('Hopper', 'Blackwell Ultra')
    """

    own, memory = _peaks(system), _capacity(system)
    found = [
        (abs(capacity - memory), generation)
        for known, capacity, generation in _known_chips()
        if all(abs(a - b) <= SAME_PEAK * b for a, b in zip(own, known, strict=True))
    ]
    return min(found)[1] if found else None


def is_under_load(system: Mapping[str, Any]) -> bool:
    """Whether a system has terms for a load that lasts: its sustained rates, or times of the
    host.
    """
    return "sustained" in system or "host_time" in system


def _kind(model: Mapping[str, Any]) -> str:
    if model["parameters"] < TINY_PARAMETERS:
        return "tiny"
    return "experts" if model["expert_parameters"] else "dense"


def traits_of(costs: Costs | None, framework: str | None = None) -> Traits | None:
    """The traits of costs; None if they do not predict a training: without a system, or without a
    model and times.
    """
    if costs is None or costs.system is None:
        return None
    if costs.times is not None and (costs.times_of == "layer" or has_phases(costs.times)):
        return Traits(OF_TIMES)
    if costs.model is None:
        return None
    if framework is None and costs.framework != "none":
        framework = costs.framework
    system = _fields_of("system", costs.system, costs.rates)
    model = costs.model_summary()
    return Traits(
        COMPUTED,
        generation_of(system),
        UNDER_LOAD if is_under_load(system) else DATA_SHEET,
        _kind(model),
        degree_class((costs._accelerators or 1) // costs.context_parallel),
        framework,
        costs.precision,
    )
