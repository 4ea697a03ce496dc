"""Timelines as compact bytes for the page. Numbers that follow from the others are left out: an
item starts when the one that it waited for ends, and memory changes when a cell starts or ends. The
other numbers are stored as differences, in the smallest integers that hold them, as a dictionary or
as planes of bytes, and then deflated. `columns.js` is the inverse.
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
_LEAST_USES = 4  # uses of each word of a dictionary, on average


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
        if len(words) <= min(_LARGEST_DICTIONARY, len(values) // _LEAST_USES):
            width = np.uint8 if len(words) <= 256 else np.uint16
            code = "d8" if width is np.uint8 else "d16"
            return self._put(name, code, [words.astype(np.float64), codes.astype(width)])
        # Store bytes by planes: the high bytes of random numbers are alike, and the low ones are
        # not.
        planes = -(-(high - low).bit_length() // 8)
        data = (values - low).astype("<u8").view(np.uint8).reshape(-1, 8)[:, :planes]
        self._put(name, "planes", [np.ascontiguousarray(data.T).ravel()])
        self.layout[-1] += [len(values), low]

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


def _steps_by(keys: Column, values: Column) -> Column:
    """Differences to the entry before that has the same key."""
    steps = np.empty(len(values), dtype=np.int64)
    for key in np.unique(keys):
        same = keys == key
        steps[same] = np.diff(values[same], prepend=0)
    return steps


def _add_cells(writer: _Writer, items: dict[str, Column]) -> None:
    begins = items["row_begins"].astype(np.int64)
    count = int(begins[-1])
    writer.add("row_begins", np.diff(begins))
    writer.add("cell_length", items["release_ps"][:count] - items["start_ps"][:count])
    writer.add("cell_phase", items["phase"][:count])
    writer.add("cell_stage", items["stage"][:count])
    writer.add("cell_microbatch", _steps(items["microbatch"][:count], begins))
    for name in ("second_phase", "second_stage", "second_microbatch"):
        writer.add(name, items[name])


def _add_transfers(writer: _Writer, items: dict[str, Column]) -> None:
    count = int(items["row_begins"][-1])
    for name in ("kind", "worker", "peer", "phase", "stage"):
        writer.add(f"transfer_{name}", items[name][count:])
    phase, release = items["phase"][count:], items["release_ps"][count:]
    writer.add("transfer_microbatch", _steps_by(phase, items["microbatch"][count:]))
    writer.add("transfer_held", release - items["start_ps"][count:])
    writer.add("transfer_latency", items["end_ps"][count:] - release)
    writer.add("member_begins", np.diff(items["member_begins"].astype(np.int64)))
    writer.add("members", items["members"])


_NOTHING, _BEFORE, _END, _RELEASE, _GIVEN = range(5)


def _add_awaited(writer: _Writer, items: dict[str, Column]) -> None:
    """What items waited for, which says when they started: nothing, at 0; the item before them,
    when it left its queue; others, when they ended or left their queue. `awaited` has these as
    differences within a phase; _GIVEN marks items that started at another time, which follows in
    `start`.
    """
    awaited, start, release = (items[name] for name in ("awaited", "start_ps", "release_ps"))
    own = np.arange(len(awaited))
    other = np.where(items["end_ps"][awaited] == start, _END, _RELEASE)
    kind = np.where(awaited < 0, _NOTHING, np.where(awaited == own - 1, _BEFORE, other))
    ended = np.where(kind == _END, items["end_ps"][awaited], release[awaited])
    is_given = start != np.where(kind == _NOTHING, 0, ended)
    writer.add("awaited_kind", kind + _GIVEN * is_given)
    writer.add("start", start[is_given])
    is_other = kind >= _END
    writer.add("awaited", _steps_by(items["phase"][is_other], (awaited - own)[is_other]))
    writer.add("critical", items["critical"][-1:])


def _add_idle(writer: _Writer, idle: dict[str, Column]) -> None:
    """The spans that a cell ends, as lengths after the first. What follows the last cell of a row
    is known without them.
    """
    ends_with_cell = idle["before"] >= 0
    span = {name: column[ends_with_cell] for name, column in idle.items()}
    continues = span["before"][1:] == span["before"][:-1]
    writer.add("idle_before", np.diff(span["before"], prepend=0))
    writer.add("idle_cause", span["cause"])
    writer.add("idle_length", (span["end_ps"] - span["begin_ps"])[1:][continues])


def _events(items: dict[str, Column], begins: Column, at: Column) -> Column:
    """By time the number of the first start or end of a cell of the row then: 2 * cell, or one more
    for its end; -1 if there is none.
    """
    count = int(items["row_begins"][-1])
    times = np.stack([items["start_ps"][:count], items["release_ps"][:count]], axis=1).ravel()
    found = np.full(len(at), -1, dtype=np.int64)
    rows = 2 * items["row_begins"].astype(np.int64)
    for row in range(len(rows) - 1):
        own, samples = times[rows[row] : rows[row + 1]], slice(begins[row], begins[row + 1])
        place = np.searchsorted(own, at[samples])
        inside = np.minimum(place, max(len(own) - 1, 0))
        if len(own):
            found[samples] = np.where(own[inside] == at[samples], rows[row] + inside, -1)
    return found


def _add_memory(writer: _Writer, items: dict[str, Column], memory: dict[str, Column]) -> None:
    """Samples, at the events of cells, or in `memory_at` where they are at another time."""
    begins = memory["row_begins"].astype(np.int64)
    event = _events(items, begins, memory["at_ps"])
    is_event = event >= 0
    step = np.full(len(event), -1, dtype=np.int64)
    step[is_event] = np.diff(event[is_event], prepend=0)
    writer.add("memory_begins", np.diff(begins))
    writer.add("memory_event", step)
    writer.add("memory_at", memory["at_ps"][~is_event])
    writer.add("memory_held", _steps(memory["held"], begins))


def pack(evaluation: _core.Evaluation) -> tuple[dict[str, Any], str]:
    """The data of a timeline for the page: a header for JSON, and the columns as deflated bytes in
    base64.
    """
    drawing = _core.drawing(evaluation)
    items = drawing.items()
    writer = _Writer()
    _add_cells(writer, items)
    _add_transfers(writer, items)
    _add_awaited(writer, items)
    _add_idle(writer, drawing.idle())
    _add_memory(writer, items, drawing.memory())
    header: dict[str, Any] = json.loads(drawing.facts)
    header["cells"] = int(items["row_begins"][-1])
    header["transfers"] = len(items["kind"]) - header["cells"]
    header["layout"] = writer.layout
    return header, base64.b64encode(zlib.compress(b"".join(writer.parts), 6)).decode()
