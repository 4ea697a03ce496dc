"""Inputs that change an answer, in one form for all verbs: keys of its rows, and the lines above
its table.

The lines are assumptions (`assumed:`), the bands in which measured steps are (`band:`), the effect
of unbalanced routers of experts (`routing:`), and which schedules may be the fastest as far as
predictions rank them (`order:`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipesched import PipeSchedError
from pipesched.bands import (
    LEVEL,
    NO_BAND,
    UNORDERED,
    Step,
    Traits,
    band_keys,
    band_of,
    order_keys,
    order_of,
    tell,
)
from pipesched.costs.costs import NATURAL_BALANCE, with_natural_routing

from ..options.entries import Entry, FromFile
from ..render.output import percent, seconds

Rows = Sequence[Mapping[str, Any]]


def keys_of(entry: Entry, step_s: float) -> dict[str, Any]:
    """The keys of a row for the uncertainty of its step."""
    band = band_keys(_find_band(entry, step_s), step_s)
    return {**band, **UNORDERED, NATURAL: _natural_step_s(entry)}


def moving_lines(rows: Rows) -> list[str]:
    return [*_bands(rows), *_routing(rows)]


# Bands

NOTHING: dict[str, Any] = {
    "level": LEVEL,
    **dict.fromkeys(("low_s", "high_s", "low_ratio", "high_ratio")),
    "middle_ratio": 1.0,
    **dict.fromkeys(("own_steps", "rows", "runs"), 0),
    "shared": {},
    "dropped": [],
}
OF_FILE = f"{NO_BAND}: its file names the model and the system; --model and --system give one"


def _find_band(entry: Entry, step_s: float) -> dict[str, Any] | None:
    """The band of the step of an entry for JSON; None if it does not predict a training."""
    band = band_of(entry.costs)
    if band is not None:
        return band.to_dict(step_s)
    if entry.costs is not None or not isinstance(entry, FromFile):
        return None
    facts = entry.schedule._facts
    is_named = facts["has_model"] and facts["has_system"]
    return {**NOTHING, "text": OF_FILE} if is_named else None


def _step(row: Mapping[str, Any]) -> Step:
    shared = row["band"]["shared"]
    traits = Traits(shared["times"], rates=shared.get("rates"), kind=shared.get("kind"))
    return Step(row["schedule"], row["step_s"], row["recompute"], traits)


def _by_system(group: Iterable[tuple[dict[str, Any], object]]) -> list[list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    for row, _ in group:
        if row.get("band") and row["band"]["shared"] and row["rank"]:
            found.setdefault(row.get("system"), []).append(row)
    return list(found.values())


def add_order(ranked: Iterable[Sequence[tuple[dict[str, Any], object]]]) -> list[str]:
    """Adds to ranked rows whether they may be the fastest and whether their runs decide; returns
    the sentences.
    """
    lines: list[str] = []
    groups = [_by_system(group) for group in ranked]
    several = sum(len(rows) > 1 for group in groups for rows in group) > 1
    for group in groups:
        for rows in group:
            steps = [*map(_step, rows)]
            order = order_of(steps)
            for i, row in enumerate(rows):
                row |= order_keys(order, i)
                if row["may_be_first"] and len(group) == 1:
                    row["rank"] = 1
            where = _where(rows[0]) if several else ""
            lines += [f"order: {where}{text}" for text in tell(steps, order)]
    return lines


def _where(row: Mapping[str, Any]) -> str:
    system = f"{row['system']}, " if row.get("system") else ""
    return f"{system}{row['workers']} workers, {row['microbatches']} microbatches: "


def _bands(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each band; it names its rows if there are several."""
    named: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.get("band"):
            named.setdefault(row["band"]["text"], {})[row.get("name") or row["schedule"]] = None
    system = next((row.get("system") for row in rows), None)
    on = f" on {system}" if system else ""
    lines = []
    for text, names in named.items():
        what, _, why = text.partition(": ") if text.startswith(NO_BAND) else ("band", "", text)
        of = f" of {', '.join(names)}" if len(named) > 1 else ""
        lines.append(f"{what}{of}{on}: {why}")
    return lines


# Routing

NATURAL = "natural_step_s"
NAMED = 4
"""The line gives the steps of at most this many rows; of more rows only the first and the range."""


def _natural_step_s(entry: Entry) -> float | None:
    """The step with natural routing; None if that makes no difference or a balance is given."""
    costs = with_natural_routing(entry.costs)
    if costs is None or (isinstance(entry, FromFile) and entry.ending):
        return None  # of a file with an end, whose costs are in its passes
    try:
        return entry.with_costs(costs).simulate().execution.makespan_ps / 1e12
    except PipeSchedError:
        return None


def _routing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line on the rows that have such a step, all of one system."""
    found = [row for row in rows if row.get(NATURAL) and row.get("step_s")]
    if not found:
        return []
    times = [row[NATURAL] / row["step_s"] for row in found]
    named = found if len(found) <= NAMED else found[:1]
    taken = "; ".join(
        f"{row.get('name') or row['schedule']} takes"
        f" {seconds(row['expected_s'] * each)}, {percent(each - 1)} longer"
        for row, each in zip(named, times, strict=False)
    )
    if len(named) < len(found):
        taken += f" (all rows {percent(min(times) - 1)} to {percent(max(times) - 1)})"
    return [
        "routing: all ranks get equally many rows of experts here; as routers choose, the fullest"
        f" gets {NATURAL_BALANCE:g} times the mean (measured on Qwen3-235B), and {taken}"
    ]
