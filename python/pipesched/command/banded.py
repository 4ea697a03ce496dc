"""The bands of predicted steps, as verbs tell them: keys of rows, columns, and lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipesched import Costs
from pipesched.bands import band_of


def keys_of(costs: Costs | None, step_s: float) -> dict[str, Any]:
    """The band of a step under these costs; None where it is no prediction of a training."""
    band = band_of(costs)
    if band is None:
        return {"step_low_s": None, "step_high_s": None, "band": None}
    low, high = band.seconds(step_s)
    return {"step_low_s": low, "step_high_s": high, "band": band.to_dict(step_s)}


def above(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each band of the rows. If there are several, it names the rows that have it."""
    named: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.get("band"):
            named.setdefault(row["band"]["text"], {})[row.get("name") or row["schedule"]] = None
    if len(named) == 1:
        return [f"band: {text}" for text in named]
    return [f"band of {', '.join(names)}: {text}" for text, names in named.items()]
