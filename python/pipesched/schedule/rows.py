"""Rows as data of Python: tables made of cells, and read back as cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import PipeSchedError, WrongType
from ..support.options import integer
from .program import PHASES, Cell

if TYPE_CHECKING:
    import pandas as pd

Entry: TypeAlias = "str | Cell | tuple[int, str, int] | Sequence[Any] | None"
"""One entry of a row: a cell as text (`"2F0"`, of a slice `"2F0.1"`), as a `Cell` or as (stage,
phase, microbatch); two overlapped cells, as a tuple or list, or as text (`"2F3+1B0"`); None or
`"_"` for an idle slot, `"_12"` for twelve.
"""

Rows: TypeAlias = "Sequence[str | Iterable[Entry]] | Mapping[int, str | Iterable[Entry]]"
"""One row per worker, in order or by worker: its entries, or one text with blanks between them."""

RawCell: TypeAlias = "tuple[int, int, int, bool, int]"
"""Stage, number of the phase, microbatch (of O and G the path, of idle entries the slots), whether
it runs overlapped with the next one, and slice of the microbatch."""

_CODES: dict[str, int] = {letter: code for code, letter in enumerate(PHASES) if letter}
_CELL = re.compile(
    rf"([0-9]{{1,18}})([{''.join(letter for letter in _CODES if letter != '_')}])([0-9]{{1,18}})"
    r"(?:\.([0-9]{1,18}))?"
)
_IDLE = re.compile(r"_([0-9]{0,18})")
_IDLE_CODE = _CODES["_"]
_OF_PATHS = (_CODES["O"], _CODES["G"], _IDLE_CODE)
"""The phases whose number is a path, not a microbatch."""

_LARGEST = 2**63 - 1
"""The largest number that the library accepts; numbers in text are shorter."""


def _is_number(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _cell(stage: Any, phase: object, number: Any) -> list[RawCell] | None:
    if not isinstance(phase, str) or phase not in _CODES or phase == "_":
        return None
    found = int(stage), _CODES[phase], int(number), False, 0
    return [found] if max(abs(found[0]), abs(found[2])) <= _LARGEST else None


def _read(text: str) -> list[RawCell] | None:
    """The text of a cell, a pair or idle slots."""
    if cell := _CELL.fullmatch(text):  # most entries
        return [(int(cell[1]), _CODES[cell[2]], int(cell[3]), False, int(cell[4] or 0))]
    words = text.strip()
    if idle := _IDLE.fullmatch(words):
        return [(0, _IDLE_CODE, int(idle[1] or 1), False, 0)]
    parts = words.split("+")
    if len(parts) == 1:
        return None if words == text else _read(words)
    are_cells = len(parts) == 2 and all(map(_CELL.fullmatch, parts))
    return _pair([_read(part) for part in parts]) if are_cells else None


def _pair(entries: Sequence[list[RawCell] | None]) -> list[RawCell] | None:
    """The cells of all entries, each overlapped with the next one; None if one is not an entry."""
    cells: list[RawCell] = []
    for entry in entries:
        if entry is None:
            return None
        cells += entry
    return [(*cell[:3], True, cell[4]) for cell in cells[:-1]] + cells[-1:]


def _cells_of(entry: Any) -> list[RawCell] | None:
    """The cells of an entry; None if it is not an entry."""
    if isinstance(entry, str):
        return _read(entry)
    if entry is None:
        return [(0, _IDLE_CODE, 1, False, 0)]
    if isinstance(entry, Cell):
        return _cell(entry.stage, entry.phase, entry.microbatch)
    if not isinstance(entry, Sequence):
        return None
    if len(entry) == 3 and _is_number(entry[0]) and _is_number(entry[2]):
        return _cell(*entry)
    return _pair([_cells_of(each) for each in entry]) if len(entry) == 2 else None


def cells_of_row(worker: int, row: Any) -> list[RawCell]:
    entries = row.split() if isinstance(row, str) else row
    if not isinstance(entries, Iterable):
        raise WrongType(f"the row of worker {worker} is text or a list of entries; got {row!r}")
    found: list[RawCell] = []
    for index, entry in enumerate(entries):
        cells = _cells_of(entry)
        if cells is None:
            raise PipeSchedError(
                f"worker {worker}, entry {index}: {entry!r} is no entry of a row; wanted a cell "
                "such as '2F0' or (2, 'F', 0), a pair of cells, or None for an idle slot"
            )
        found += cells
    return found


MOST_WORKERS = 2**16
"""As the library has it."""


def cells_of(rows: Any) -> list[list[RawCell]]:
    """The rows as the library takes them, one list per worker."""
    if isinstance(rows, Mapping):
        workers = sorted(rows)
        if workers != list(range(len(rows))):
            raise PipeSchedError(f"rows are of workers {workers}; wanted 0 to {len(rows) - 1}")
        return [cells_of_row(worker, rows[worker]) for worker in workers]
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise WrongType(f"rows are a list with one row per worker; got {rows!r}")
    return [cells_of_row(worker, row) for worker, row in enumerate(rows)]


def microbatches_of(rows: Iterable[Iterable[RawCell]]) -> int:
    """One more than the highest microbatch; O and G have paths in its place."""
    numbers = (number for row in rows for _, phase, number, *_ in row if phase not in _OF_PATHS)
    return 1 + max(numbers, default=-1)


def slices_of(rows: Iterable[Iterable[RawCell]]) -> int:
    """One more than the highest slice."""
    return 1 + max((cell[4] for row in rows for cell in row), default=0)


def count_joins(rows: Iterable[Iterable[str]]) -> int:
    """The number of entries that are joins, whose letters no other entry has."""
    return sum("d" in word or "u" in word for row in rows for word in row)


# Data frames


def _entries(row: pd.DataFrame) -> list[str]:
    """The rows of a frame that belong to one worker, in order, pairs together."""
    written = row.stage.astype(str) + row.phase.astype(str) + row.microbatch.astype(str)
    if "slice" in row:
        written += ("." + row.slice.astype(str)).where(~row.phase.isin(["O", "G"]), "")
    words = written.tolist()
    if "pair" not in row:
        return words
    partner = dict(zip(row["index"].tolist(), row.pair.tolist(), strict=True))
    of = dict(zip(row["index"].tolist(), words, strict=True))
    found = []
    for index, word in of.items():
        other = partner[index]
        if other < 0:
            found.append(word)
        elif other not in of or partner[other] != index:
            raise PipeSchedError(
                f"cell {index} of the frame, {word}, is paired with {other}, which is not paired "
                "with it"
            )
        elif index < other:
            found.append(f"{word}+{of[other]}")
    return found


def attributes_of_frame(frame: pd.DataFrame) -> Mapping[str, Any]:
    """The attributes of a frame of `to_frame`; nothing of other frames."""
    if not hasattr(frame, "attrs") or not hasattr(frame, "columns"):
        raise WrongType(f"frame is a data frame as to_frame returns it; got {frame!r}")
    said: Mapping[str, Any] = frame.attrs.get("pipesched", {})
    if said.get("joins", 0):
        raise PipeSchedError(
            f"the frame leaves out {said['joins']} joins (d and u), which are not cells but "
            "hold them; use rows and from_rows"
        )
    return said


def words_of_frame(frame: pd.DataFrame, workers: int | None) -> list[list[str]]:
    """Returns the rows of a frame of cells."""
    needed = ["worker", "index", "stage", "phase", "microbatch"]
    missing = [name for name in needed if name not in frame]
    if missing:
        raise PipeSchedError(
            f"the frame has no column {', '.join(missing)}; wanted {', '.join(needed)} and, for "
            "overlapped cells, pair"
        )
    empty = frame[needed].isna().any(axis=1)
    if empty.any():
        raise PipeSchedError(f"row {empty.idxmax()} of the frame has an empty cell")
    twice = frame.duplicated(["worker", "index"])
    if twice.any():
        worker, index = frame.loc[twice, ["worker", "index"]].iloc[0]
        raise PipeSchedError(f"the frame has two cells with index {index} on worker {worker}")
    count = int(frame.worker.max()) + 1 if workers is None else workers
    integer("workers", count, 1, MOST_WORKERS)
    groups: dict[Any, list[str]] = {
        worker: _entries(row.sort_values("index"))
        for worker, row in frame.groupby("worker", observed=True)
    }
    wrong = [worker for worker in groups if not 0 <= worker < count]
    if wrong:
        raise PipeSchedError(f"the frame has a worker {wrong[0]}; wanted 0 to {count - 1}")
    return [groups.get(worker, []) for worker in range(count)]
