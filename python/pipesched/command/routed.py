"""What steps with experts take if nobody balances their rows, as verbs tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipesched import PipeSchedError
from pipesched._routing import NATURAL_BALANCE, with_natural_routing

from .entries import Entry, FromFamily
from .output import percent, seconds

KEY = "natural_step_s"
NAMED = 4
"""Of so many rows the line says what they take; of more it says so of the first, and between what
they take longer.
"""


def keys_of(entry: Entry) -> dict[str, float | None]:
    """The key of a row: its step with natural routing; null where that makes no difference or a
    balance is given.
    """
    costs = with_natural_routing(entry.costs)
    if costs is None:
        return {KEY: None}
    routed: Entry
    if isinstance(entry, FromFamily):
        routed = replace(entry, point=replace(entry.point, costs=costs))
    elif entry.ending:
        return {KEY: None}  # whose costs stand in its passes
    else:
        routed = replace(entry, costs=costs)
    try:
        return {KEY: routed.simulate().execution.makespan_ps / 1e12}
    except PipeSchedError:
        return {KEY: None}


def above(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line on the rows that have such a step, which are those of one system."""
    found = [row for row in rows if row.get(KEY) and row.get("step_s")]
    if not found:
        return []
    longer = [row[KEY] / row["step_s"] - 1 for row in found]
    named = found if len(found) <= NAMED else found[:1]
    taken = "; ".join(
        f"{row.get('name') or row['schedule']} takes {seconds(row[KEY])}, {percent(more)} longer"
        for row, more in zip(named, longer, strict=False)
    )
    if len(named) < len(found):
        taken += f" (all rows {percent(min(longer))} to {percent(max(longer))})"
    return [
        "routing: all ranks get equally many rows of experts here; as routers choose, the fullest"
        f" gets {NATURAL_BALANCE:g} times the mean (measured on Qwen3-235B), and {taken}"
    ]
