"""A schedule that deadlocks, drawn up to the cells that wait for each other.

    worker 0   0F0 ... | <0B0> <0F1> 0B1
    worker 1   ... 1F0 | <1F1> <1B0> 1B1

Left of the bar is what runs, in slots of one unit. Right of it is what never does; the cells of the
cycle stand in angle brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipesched import PipeSchedError, Schedule

_CELL = re.compile(r"(\d+)([A-Z])(\d.*)")
_OF_CYCLE = re.compile(r"(\S+) on worker (\d+) ")
"""How a note of the error begins."""

Key = tuple[int, str, str]
"""Stage, phase and microbatch with its slice."""


def _parts(text: str) -> Iterator[Key]:
    """The cells of an entry of a row: two if they overlap, none if it is idle."""
    for part in text.split("+"):
        if match := _CELL.fullmatch(part):
            yield int(match[1]), match[2], match[3]


def _needs(key: Key, known: set[Key], gradient_after: str) -> Iterator[Key]:
    """The cells of other stages whose messages a cell uses."""
    stage, phase, microbatch = key
    if phase == "F" and stage > 0:
        yield stage - 1, "F", microbatch
    if phase in "BI":
        for sender in ("B", gradient_after):
            if (before := (stage + 1, sender, microbatch)) in known:
                yield before


def _starts(schedule: Schedule) -> list[list[int]]:
    """The slots in which the cells of each row start that run at all."""
    rows = [[list(_parts(text)) for text in row] for row in schedule.rows]
    known = {key for row in rows for entry in row for key in entry}
    ends: dict[Key, int] = {}
    starts: list[list[int]] = [[] for _ in rows]
    free = [0] * len(rows)
    goes_on = True
    while goes_on:
        goes_on = False
        for worker, row in enumerate(rows):
            while len(starts[worker]) < len(row):
                entry = row[len(starts[worker])]
                needed = {
                    need
                    for key in entry
                    for need in _needs(key, known, schedule.gradient_after)
                    if need not in entry
                }
                if not needed <= ends.keys():
                    break
                begin = max([free[worker], *(ends[need] for need in needed)])
                starts[worker].append(begin)
                free[worker] = begin + 1
                ends.update(dict.fromkeys(entry, begin + 1))
                goes_on = True
    return starts


def _cycle(error: PipeSchedError) -> list[tuple[str, int]]:
    """The cells that wait for each other, with their workers."""
    notes = [note.message for each in error.diagnostics for note in each.notes]
    found = [_OF_CYCLE.match(note) for note in notes]
    return [(match[1], int(match[2])) for match in found if match]


def drawn(schedule: Schedule, error: PipeSchedError) -> str | None:
    """The schedule up to the cycle. None if the error is about something else."""
    cycle = _cycle(error)
    if not any("deadlock" in each.message for each in error.diagnostics) or not cycle:
        return None
    starts = _starts(schedule)
    left = sum(len(row) - len(begun) for row, begun in zip(schedule.rows, starts, strict=True))
    if not left:
        return None
    slots = 1 + max((begin for row in starts for begin in row), default=-1)
    width = max(len(text) for row in schedule.rows for text in row)
    lines = []
    for worker, (row, begun) in enumerate(zip(schedule.rows, starts, strict=True)):
        places = ["." * width] * slots
        for text, begin in zip(row, begun, strict=False):
            places[begin] = text.ljust(width)
        waiting = [
            f"<{text}>" if any((part, worker) in cycle for part in text.split("+")) else text
            for text in row[len(begun) :]
        ]
        lines.append(f"  worker {worker}  {' '.join([*places, '|', *waiting])}".rstrip())
    runs = sum(map(len, starts))
    head = (
        f"{schedule.name}: {runs} of {runs + left} cells run in {slots} slots, then "
        f"{', '.join(cell for cell, _ in cycle)} wait for each other"
    )
    return "\n".join([head, *lines]) + "\n"
