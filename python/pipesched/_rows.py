"""Rows as data of Python: tables made of cells, and read back as cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ._errors import PipeSchedError
from ._options import GradientAfter, Recompute, code_of
from ._program import PHASES, Cell

if TYPE_CHECKING:
    import pandas as pd

Entry: TypeAlias = "str | Cell | tuple[int, str, int] | Sequence[Any] | None"
"""One entry of a row: a cell as text (`"2F0"`), as a `Cell` or as (stage, phase, microbatch); two
of them that run overlapped, as a tuple or list, or as text (`"2F3+1B0"`); None or `"_"` for an idle
slot, `"_12"` for twelve."""

Rows: TypeAlias = "Sequence[str | Iterable[Entry]] | Mapping[int, str | Iterable[Entry]]"
"""One row per worker, in order or by worker: its entries, or one text with blanks between them."""

_LETTERS = frozenset(PHASES) - {"_", ""}
_CELL = re.compile(rf"(\d+)([{''.join(sorted(_LETTERS))}])(\d+)")
_JOIN = re.compile(r"\d+[du]\d+")
_IDLE = re.compile(r"_\d*")
_ROW = re.compile(r"^\s*worker (\d+) runs \[(.*)\]$", re.MULTILINE)
_HEAD = re.compile(r"^(\s*)(pipe\.schedule @.* microbatches \d+)(.* \{)$", re.MULTILINE)


def _is_number(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _word(entry: Any) -> str | None:
    """An entry as it is written; None if the value is no entry."""
    if entry is None:
        return "_"
    if isinstance(entry, str):
        words = entry.strip()
        parts = words.split("+")
        is_cell = len(parts) <= 2 and all(map(_CELL.fullmatch, parts))
        return words if is_cell or _IDLE.fullmatch(words) else None
    if isinstance(entry, Cell):
        return str(entry)
    if not isinstance(entry, Sequence):
        return None
    if len(entry) == 3 and _is_number(entry[0]) and _is_number(entry[2]):
        stage, phase, microbatch = entry
        is_known = isinstance(phase, str) and phase in _LETTERS
        return f"{int(stage)}{phase}{int(microbatch)}" if is_known else None
    if len(entry) == 2:
        pair = [_word(each) for each in entry]
        return "+".join(map(str, pair)) if None not in pair else None
    return None


def _words(worker: int, row: Any) -> list[str]:
    entries = row.split() if isinstance(row, str) else row
    if not isinstance(entries, Iterable):
        raise TypeError(f"the row of worker {worker} is text or a list of entries; got {row!r}")
    found: list[str] = []
    for index, entry in enumerate(entries):
        word = _word(entry)
        if word is None:
            raise PipeSchedError(
                f"worker {worker}, entry {index}: {entry!r} is no entry of a row; wanted a cell "
                "such as '2F0' or (2, 'F', 0), a pair of cells, or None for an idle slot"
            )
        found.append(word)
    return found


def words_of(rows: Any) -> list[list[str]]:
    """The rows as they are written, one list per worker."""
    if isinstance(rows, Mapping):
        workers = sorted(rows)
        if workers != list(range(len(rows))):
            raise PipeSchedError(f"rows are of workers {workers}; wanted 0 to {len(rows) - 1}")
        return [_words(worker, rows[worker]) for worker in workers]
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise TypeError(f"rows are a list with one row per worker; got {rows!r}")
    return [_words(worker, row) for worker, row in enumerate(rows)]


def microbatches_of(rows: Sequence[Sequence[str]]) -> int:
    """One more than the highest microbatch; O and G have paths in its place."""
    numbers = (
        int(microbatch)
        for row in rows
        for word in row
        for _, phase, microbatch in _CELL.findall(word)
        if phase not in "OG"
    )
    return 1 + max(numbers, default=-1)


def fill(problem: str, rows: Sequence[Sequence[str]], clauses: str = "") -> str:
    """The text of a module whose one schedule has no rows, with these rows."""
    head = _HEAD.search(problem)
    assert head is not None
    indent = head[1]
    end = problem.index(f"\n{indent}}}", head.end()) + 1
    lines = "".join(
        f"{indent}  worker {worker} runs [{' '.join(row)}]\n" for worker, row in enumerate(rows)
    )
    begun = f"{problem[: head.end(2)]}{clauses}{problem[head.start(3) : end]}"
    return f"{begun}{lines}{problem[end:]}"


def clauses(gradient_after: GradientAfter, recompute: Recompute) -> str:
    """The clauses of a schedule behind its sizes."""
    code_of(GradientAfter, "gradient_after", gradient_after)
    code_of(Recompute, "recompute", recompute)
    after = " gradient after W" if gradient_after == "W" else ""
    return f"{after} recompute selective" if recompute == "selective" else after


def rows_of(text: str) -> tuple[tuple[str, ...], ...]:
    """The rows of the one schedule of a module."""
    found = {int(worker): tuple(words.split()) for worker, words in _ROW.findall(text)}
    return tuple(found[worker] for worker in sorted(found))


def count_joins(rows: Iterable[Iterable[str]]) -> int:
    """How many entries are joins."""
    return sum(_JOIN.fullmatch(word) is not None for row in rows for word in row)


# Data frames


def _entries(row: pd.DataFrame) -> list[str]:
    """The rows of a frame that belong to one worker, in order, pairs together."""
    words = (row.stage.astype(str) + row.phase.astype(str) + row.microbatch.astype(str)).tolist()
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


def words_of_frame(frame: pd.DataFrame, workers: int | None) -> list[list[str]]:
    """The rows that a frame of cells has."""
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
    groups: dict[Any, list[str]] = {
        worker: _entries(row.sort_values("index"))
        for worker, row in frame.groupby("worker", observed=True)
    }
    wrong = [worker for worker in groups if not 0 <= worker < count]
    if wrong:
        raise PipeSchedError(f"the frame has a worker {wrong[0]}; wanted 0 to {count - 1}")
    return [groups.get(worker, []) for worker in range(count)]
