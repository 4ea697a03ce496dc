"""The rows of `validation` by group: median and largest error, and the number of layouts and
schedules of one cluster that are predicted in the right order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

import pandas as pd
from pipesched.paper import Basis, Study

from . import recent_runs
from .residuals import tolerance_of
from .study import TIE_PERCENT
from .validation import Row, all_rows, cluster_of

OF_SOURCE = {
    "2205.05198 table 4": "A100, layers, tensor 8",
    "2205.05198 table 5": "A100, steps, tensor 8",
    "2104.04473 table 1": "A100, steps, tensor 8",
    "2401.10241 table 4": "A100, profiled schedules",
    "2407.21783 table 4": "H100, tensor 8, BF16",
    "torchtitan 2024-12 table 5": "H100, tensor 8, FP8, fitted on 70B",
    "torchtitan 2024-12 table 6": "H100, tensor 8, FP8, fitted on 70B",
    "2412.19437 table 1": "H800, experts",
}
"""Groups of rows that name none themselves."""


def group_of(row: Row) -> str:
    """The group of a row, with memory separate from times."""
    if row.group:
        return row.group
    return "memory, torchtitan 2024-12" if row.quantity == "memory" else OF_SOURCE[row.source]


class Pairs(NamedTuple):
    """Pairs of rows of one cluster, and the number in the right order."""

    number: int
    right: int
    apart: int = 0
    """Pairs whose predictions differ by more than the tolerance of other clusters."""
    apart_right: int = 0


def is_ranked(a: Row, b: Row) -> bool:
    """Whether the predictions of two rows of a cluster differ by more than the errors of two rows
    of other clusters do. Rows that are only layers have no bands.
    """
    if a.point is None or a.quantity.startswith("layer"):
        return False
    tolerance = tolerance_of(a, b)
    return tolerance is not None and abs(math.log(a.predicted / b.predicted)) > tolerance.log


def pairs(rows: Iterable[Row]) -> Pairs:
    """Counts pairs whose measurements differ by at least `TIE_PERCENT`.

    >>> pairs([])
    Pairs(number=0, right=0, apart=0, apart_right=0)
    """
    clusters: dict[str, list[Row]] = {}
    for row in rows:
        if cluster := cluster_of(row):
            clusters.setdefault(cluster, []).append(row)
    count = right = apart = apart_right = 0
    for members in clusters.values():
        for a, b in combinations(members, 2):
            if abs(a.measured / b.measured - 1) * 100 < TIE_PERCENT:
                continue
            is_right = (a.measured - b.measured) * (a.predicted - b.predicted) > 0
            is_apart = is_ranked(a, b)
            count += 1
            right += is_right
            apart += is_apart
            apart_right += is_right and is_apart
    return Pairs(count, right, apart, apart_right)


def faster_percent(row: Row) -> float:
    """The error by which a prediction is too fast, or for memory too large; times are inverted."""
    if row.quantity == "step" or row.quantity.startswith("layer"):
        return 100 * (row.measured / row.predicted - 1)
    return row.error_percent


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """A row for each group, in the order of their first rows, and one for all times."""
    members: dict[str, list[Row]] = {}
    for row in rows:
        members.setdefault(group_of(row), []).append(row)
    members["all but memory"] = [row for row in rows if row.quantity != "memory"]
    found = []
    for group, of_group in members.items():
        errors = [faster_percent(row) for row in of_group]
        counted = pairs(of_group)
        found.append(
            {
                "group": group,
                "rows": len(of_group),
                "median_percent": median(errors),
                "typical_percent": median(abs(error) for error in errors),
                "largest_percent": max(errors, key=abs),
                "pairs": counted.number,
                "in_order": counted.right,
                "ranked": counted.apart,
                "ranked_in_order": counted.apart_right,
            }
        )
    return pd.DataFrame(found)


def groups() -> Study:
    """The rows of `validation` by group.

    >>> found = groups().frame
    >>> bool((found.in_order <= found.pairs).all())
    True
    """
    found = frame(all_rows())
    return Study(
        title="Measured and predicted, by group: how much too fast, and in which order",
        frame=found,
        basis=Basis(
            given="the rows of validation",
            fitted="as in validation",
            open="median_percent has signs, above 0 is too fast (of memory, too large);"
            " typical_percent is the median without signs. Pairs are layouts, schedules, precisions"
            " or settings of one cluster, model and batch whose measurements are at least"
            f" {TIE_PERCENT:g} % apart. A pair is ranked if its predictions differ by more than the"
            " errors of two rows of other clusters do",
        ),
    )


def switched_off() -> Study:
    """How far recent rows are off, by group, if one term is switched off.

    >>> "without sustained" in switched_off().frame.columns
    True
    """
    measured = [row for row in recent_runs.published()["rows"] if row["quantity"] != "memory"]
    columns: dict[str, dict[str, float]] = {}
    for name in (None, *recent_runs.TERMS):
        errors: dict[str, list[float]] = {}
        for row in measured:
            ratio = recent_runs.predicted(row, name) / float(row["measured"])
            is_time = row["quantity"] == "step" or row["quantity"].startswith("layer")
            error = 100 * abs((1 / ratio if is_time else ratio) - 1)
            errors.setdefault(recent_runs.group(row), []).append(error)
        label = "all" if name is None else f"without {name}"
        columns[label] = {group: median(found) for group, found in errors.items()}
    found = pd.DataFrame(columns).rename_axis("group").reset_index()
    return Study(
        title="Recent runs with one term switched off: median error in percent, without signs",
        frame=found.round(1),
        basis=Basis(
            given="the rows of recent_runs.json, without memory",
            fitted="nothing again; a term that is off leaves the others as they were fitted",
            open="terms are switched off one at a time",
        ),
    )
