"""The bands of predicted steps, as verbs tell them: keys of rows, columns, and lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipesched import Costs
from pipesched.bands import Step, Traits, band_of, order_of, told

UNKNOWN = {"may_be_first": None, "run_decides": None}
"""The keys of a row that is ranked with no others."""


def keys_of(costs: Costs | None, step_s: float) -> dict[str, Any]:
    """The band of a step under these costs; None where it is no prediction of a training."""
    band = band_of(costs)
    if band is None:
        return {"step_low_s": None, "step_high_s": None, "band": None}
    low, high = band.seconds(step_s)
    return {"step_low_s": low, "step_high_s": high, "band": band.to_dict(step_s)}


def _traits(row: Mapping[str, Any]) -> Traits:
    shared = row["band"]["shared"]
    return Traits(shared["times"], rates=shared.get("rates"), kind=shared.get("kind"))


def add_order(ranked: Iterable[Sequence[tuple[dict[str, Any], object]]]) -> list[str]:
    """Adds to the rows of each group, which are ranked with each other, whether they may be the
    fastest and whether their runs decide; those that may share the first rank. Returns the
    sentences on it.
    """
    lines: list[str] = []
    listed = [[r for r, _ in group if r.get("band") and r["rank"]] for group in ranked]
    several = len([rows for rows in listed if len(rows) > 1]) > 1
    for rows in listed:
        steps = [Step(r["schedule"], r["step_s"], r["recompute"], _traits(r)) for r in rows]
        order = order_of(steps)
        for i, row in enumerate(rows):
            row |= {"may_be_first": i in order.first, "run_decides": i in order.runs}
            if row["may_be_first"]:
                row["rank"] = 1
        for text in told(steps, order):
            size = f"{rows[0]['workers']} workers, {rows[0]['microbatches']} microbatches: "
            lines.append(f"order: {size if several else ''}{text}")
    return lines


def above(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each band of the rows. If there are several, it names the rows that have it."""
    named: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.get("band"):
            named.setdefault(row["band"]["text"], {})[row.get("name") or row["schedule"]] = None
    if len(named) == 1:
        return [f"band: {text}" for text in named]
    return [f"band of {', '.join(names)}: {text}" for text, names in named.items()]
