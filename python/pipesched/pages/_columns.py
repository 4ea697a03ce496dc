"""Timelines as compact bytes for the page: differences, then the smallest integers that hold them
or a dictionary, then deflate. `columns.js` is the inverse.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from pipesched import _core

Column = npt.NDArray[Any]

_SMALL = (("i8", np.int8), ("i16", np.int16))
_LARGEST_DICTIONARY = 1 << 16


class _Writer:
    """Collects columns. Each starts at a multiple of 8 bytes, as typed arrays want it."""

    def __init__(self) -> None:
        self.layout: list[list[Any]] = []
        self.parts: list[bytes] = []

    def add(self, name: str, column: Column) -> None:
        """Adds integers up to 2^53, which JavaScript's numbers hold exactly."""
        values = np.asarray(column, dtype=np.int64)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        for code, kind in _SMALL:
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return self._put(name, code, [values.astype(kind)])
        words, codes = np.unique(values, return_inverse=True)
        if len(words) <= _LARGEST_DICTIONARY:
            width = np.uint8 if len(words) <= 256 else np.uint16
            code = "d8" if width is np.uint8 else "d16"
            return self._put(name, code, [words.astype(np.float64), codes.astype(width)])
        if np.iinfo(np.int32).min <= low and high <= np.iinfo(np.int32).max:
            return self._put(name, "i32", [values.astype(np.int32)])
        self._put(name, "f64", [values.astype(np.float64)])

    def _put(self, name: str, code: str, arrays: list[Column]) -> None:
        self.layout.append([name, code, *(len(array) for array in arrays)])
        for array in arrays:
            data = array.astype(array.dtype.newbyteorder("<")).tobytes()
            self.parts.append(data + bytes(-len(data) % 8))


def _steps(values: Column, begins: Column) -> Column:
    """Differences to the entry before, except at the beginnings of rows."""
    steps = np.diff(values, prepend=0)
    first = begins[:-1][begins[:-1] < begins[1:]]
    steps[first] = values[first]
    return steps


def _add_cells(writer: _Writer, items: dict[str, Column]) -> None:
    begins = items["row_begins"].astype(np.int64)
    count = int(begins[-1])
    start, release = items["start_ps"][:count], items["release_ps"][:count]
    before = np.concatenate([[0], release[:-1]]) if count else release
    before[begins[:-1][begins[:-1] < begins[1:]]] = 0
    writer.add("row_begins", np.diff(begins))
    writer.add("cell_gap", start - before)
    writer.add("cell_length", release - start)
    writer.add("cell_phase", items["phase"][:count])
    writer.add("cell_stage", items["stage"][:count])
    writer.add("cell_microbatch", _steps(items["microbatch"][:count], begins))
    for name in ("second_phase", "second_stage", "second_microbatch"):
        writer.add(name, items[name])


def _add_transfers(writer: _Writer, items: dict[str, Column]) -> None:
    count = int(items["row_begins"][-1])
    for name in ("kind", "worker", "peer", "phase", "stage"):
        writer.add(f"transfer_{name}", items[name][count:])
    start, release = items["start_ps"][count:], items["release_ps"][count:]
    writer.add("transfer_microbatch", np.diff(items["microbatch"][count:], prepend=0))
    writer.add("transfer_start", np.diff(start, prepend=0))
    writer.add("transfer_held", release - start)
    writer.add("transfer_latency", items["end_ps"][count:] - release)
    writer.add("member_begins", np.diff(items["member_begins"].astype(np.int64)))
    writer.add("members", items["members"])


def _add_awaited(writer: _Writer, items: dict[str, Column]) -> None:
    """What items wait for: 0 for nothing, 1 for the cell before it in its row, 2 for others, which
    follow as differences, since neighbours wait for neighbours.
    """
    awaited = items["awaited"].astype(np.int64)
    own = np.arange(len(awaited))
    kind = np.where(awaited < 0, 0, np.where(awaited == own - 1, 1, 2))
    writer.add("awaited_kind", kind)
    writer.add("awaited", np.diff((awaited - own)[kind == 2], prepend=0))
    critical = items["critical"]
    writer.add("critical", critical[-1:])


def _add_idle(writer: _Writer, idle: dict[str, Column]) -> None:
    """The spans that a cell ends. They begin where the cell before ends; what follows the last cell
    of a row is known without them.
    """
    ends_with_cell = idle["before"] >= 0
    span = {name: column[ends_with_cell] for name, column in idle.items()}
    writer.add("idle_before", np.diff(span["before"], prepend=0))
    writer.add("idle_cause", span["cause"])
    writer.add("idle_length", span["end_ps"] - span["begin_ps"])


def _add_memory(writer: _Writer, memory: dict[str, Column]) -> None:
    begins = memory["row_begins"].astype(np.int64)
    writer.add("memory_begins", np.diff(begins))
    writer.add("memory_at", _steps(memory["at_ps"], begins))
    writer.add("memory_held", _steps(memory["held"], begins))


def pack(evaluation: _core.Evaluation) -> tuple[dict[str, Any], str]:
    """What the page knows of a timeline: a header for JSON, with what the numbers mean and where
    each column is, and the columns as deflated bytes in base64.
    """
    drawing = _core.drawing(evaluation)
    items = drawing.items()
    writer = _Writer()
    _add_cells(writer, items)
    _add_transfers(writer, items)
    _add_awaited(writer, items)
    _add_idle(writer, drawing.idle())
    _add_memory(writer, drawing.memory())
    header: dict[str, Any] = json.loads(drawing.facts)
    header["cells"] = int(items["row_begins"][-1])
    header["layout"] = writer.layout
    return header, base64.b64encode(zlib.compress(b"".join(writer.parts), 6)).decode()
