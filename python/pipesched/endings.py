"""The end of a training step: all-reduces of gradients and optimizer steps, taken off and added."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .schedule import Schedule

_ROW = re.compile(r"(?m)^(\s*worker \d+ runs \[)(.*)\]")
_END = re.compile(r"\d+[GO]\d+")
_BACKWARD = re.compile(r"\d+[BIW]\d+")


def ending_of(schedule: Schedule) -> str | None:
    """The pass that adds the end that a schedule has; None without an end. All-reduces before the
    last backward of a row run beside compute.
    """
    cells = [[cell for entry in row for cell in entry.split("+")] for row in schedule.rows]
    if not any(_END.fullmatch(cell) for row in cells for cell in row):
        return None
    for row in cells:
        backwards = [at for at, cell in enumerate(row) if _BACKWARD.fullmatch(cell)]
        reduces = [at for at, cell in enumerate(row) if re.fullmatch(r"\d+G\d+", cell)]
        if backwards and reduces and reduces[0] < backwards[-1]:
            return "pipe-add-optimizer{all-reduce=eager}"
    has_reduces = any(re.fullmatch(r"\d+G\d+", cell) for row in cells for cell in row)
    return f"pipe-add-optimizer{{all-reduce={'end' if has_reduces else 'eager'}}}"


def without_ending(schedule: Schedule) -> Schedule:
    """The same schedule without all-reduces of gradients and optimizer steps."""
    from .schedule import Schedule

    def strip(row: re.Match[str]) -> str:
        entries = (
            "+".join(cell for cell in entry.split("+") if not _END.fullmatch(cell))
            for entry in row[2].split()
        )
        return f"{row[1]}{' '.join(filter(None, entries))}]"

    return Schedule.from_text(_ROW.sub(strip, schedule.to_text()))
