"""The band of a system that is corrected to a user's own steps.

The common error of a cluster is known then. The rest is the error of single layouts of one cluster,
and the uncertainty of the common part, which comes from few steps.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .differences import Tolerance, tolerances
from .traits import DATA_SHEET, UNDER_LOAD, Traits

FIELD = "description"
"""The field of a system whose source records its correction."""

_TEXT = re.compile(
    r"corrected (from rates (?P<rates>of a data sheet|under load) )?to (?P<count>\d+) measured"
    r" steps?, measured in terms of predicted: (?P<ratios>.*)"
)

_RATES = {"of a data sheet": DATA_SHEET, "under load": UNDER_LOAD}


def source_of(ratios: Sequence[float], rates: str | None = None) -> str:
    """The source of a corrected system, which `ratios_of` and `rates_before` read. `rates` are the
    rates that it had before.

    >>> source_of([1.0125, 0.99])
    'corrected to 2 measured steps, measured in terms of predicted: 1.0125 0.9900'
    >>> source_of([1.0], UNDER_LOAD)
    'corrected from rates under load to 1 measured step, measured in terms of predicted: 1.0000'
    """
    listed = " ".join(f"{ratio:.4f}" for ratio in ratios)
    count = f"{len(ratios)} measured step{'' if len(ratios) == 1 else 's'}"
    said = {each: words for words, each in _RATES.items()}
    before = f"from rates {said[rates]} " if rates in said else ""
    return f"corrected {before}to {count}, measured in terms of predicted: {listed}"


def _read(system: Mapping[str, Any]) -> re.Match[str] | None:
    sources = system.get("sources")
    text = sources.get(FIELD) if isinstance(sources, Mapping) else None
    return _TEXT.fullmatch(text) if isinstance(text, str) else None


def rates_before(system: Mapping[str, Any]) -> str | None:
    """Returns the rates that a corrected system had before; None if its source does not name them.

    >>> rates_before({"sources": {"description": source_of([1.0], DATA_SHEET)}}) == DATA_SHEET
    True
    """
    match = _read(system)
    return _RATES.get(match["rates"]) if match and match["rates"] else None


def ratios_of(system: Mapping[str, Any]) -> tuple[float, ...]:
    """Returns the ratios of measured to predicted time of the steps to which a system is corrected.
    Returns none for other systems, and if the source was edited.

    >>> ratios_of({"sources": {"description": source_of([1.0125, 0.99])}})
    (1.0125, 0.99)
    """
    match = _read(system)
    if match is None:
        return ()
    try:
        found = tuple(map(float, match["ratios"].split()))
    except ValueError:
        return ()
    are_ratios = all(0 < ratio < math.inf for ratio in found)
    return found if are_ratios and len(found) == int(match["count"]) else ()


class Own(NamedTuple):
    """The band of a step on a system that is corrected to a user's own steps."""

    steps: int
    low: float
    high: float
    within: Tolerance
    """The relative error of single layouts of one cluster."""


def own_band(traits: Traits, ratios: Sequence[float]) -> Own:
    """Returns the band after a correction to steps with these ratios."""
    within = tolerances(traits).layouts
    count = len(ratios)
    middle = sum(map(math.log, ratios)) / count
    half = within.quantile * within.spread * math.sqrt(1 + 1 / count)
    low, high = (round(math.exp(middle + side * half), 4) for side in (-1, 1))
    return Own(count, low, high, within)
