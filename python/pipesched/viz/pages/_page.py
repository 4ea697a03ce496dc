"""The document: its head, timelines as data, the scripts that draw them."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

from pipesched import _core
from pipesched.support.options import text_of as title_of
from pipesched.support.text import printable
from pipesched.viz.pictures import Pictures, evaluations_of
from pipesched.viz.streams import streams_of

# Timelines as compact bytes. Numbers that follow from the others are left out: an item starts when
# the one that it waited for ends, and memory changes when a cell starts or ends. The others are
# differences, in the smallest integers that hold them, as a dictionary or as planes of bytes, and
# then deflated. `columns.js` is the inverse.

Column = npt.NDArray[Any]

_SMALL = (("i8", np.int8), ("i16", np.int16))
_LARGEST_DICTIONARY = 1 << 16
_LEAST_USES = 4  # uses of each word of a dictionary, on average


class _Writer:
    """Collects columns. Each starts at a multiple of 8 bytes, as typed arrays require."""

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
        # Stores bytes by planes: the high bytes of random numbers are similar, and the low ones are
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
    """Adds the waits of items, which determine their starts. An item starts at 0, or when the item
    before it leaves its queue, or when other items end or leave their queue. `awaited` has these as
    differences within a phase; _GIVEN marks items that start at another time, which follows in
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
    """Adds the idle spans that a cell ends, as the lengths of all but the first. The span after the
    last cell of a row follows from the others.
    """
    ends_with_cell = idle["before"] >= 0
    span = {name: column[ends_with_cell] for name, column in idle.items()}
    continues = span["before"][1:] == span["before"][:-1]
    writer.add("idle_before", np.diff(span["before"], prepend=0))
    writer.add("idle_cause", span["cause"])
    writer.add("idle_length", (span["end_ps"] - span["begin_ps"])[1:][continues])


def _events(items: dict[str, Column], begins: Column, at: Column) -> Column:
    """By time the number of the first start or end of a cell of the row at that time: 2 * cell, or
    one more for its end; -1 if there is none.
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
    """Samples, at the events of cells, or in `memory_at` if they are at another time."""
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


_SCRIPTS = ("columns.js", "drawing.js", "timeline.js", "tables.js", "page.js")

MOST_STATIC_CELLS = 300
"""Pages with at most this many cells also have a picture, for readers without scripts."""


class Html(str):
    """The text of a page."""

    __slots__ = ()


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON for a script element, in which no tag may end."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _static(simulations: Sequence[Pictures], cells: int) -> str:
    """The contents shown without scripts."""
    if cells > MOST_STATIC_CELLS:
        return (
            f"<noscript><p>Scripts are off, so these timelines ({cells:,} cells) are not drawn."
            " Switch them on, or write a picture: <code>--svg</code>.</p></noscript>\n"
        )
    svg = _core.svg([simulation._evaluation for simulation in simulations], 0)
    data = base64.b64encode(svg.encode()).decode()
    return f'<noscript><img alt="timelines" src="data:image/svg+xml;base64,{data}"></noscript>\n'


def timelines(simulations: Sequence[Pictures]) -> str:
    """A part of a page: timelines on one scale, which zoom together."""
    parts, cells = [], 0
    for simulation in simulations:
        header, data = pack(simulation._evaluation)
        if (streams := streams_of(simulation)) is not None:
            header["streams"] = streams.drawn()
        cells += header["cells"]
        parts.append(
            f'<script type="application/json" class="facts">{_json(header)}</script>\n'
            f'<script type="text/plain">{data}</script>\n'
        )
    inner = "".join(parts) + _static(simulations, cells)
    return f'<div class="timelines">\n{inner}</div>\n'


def text_of(text: str) -> str:
    """Text as HTML, without characters that pages may not have or that would hide others."""
    return escape(printable(text))


def document(title: str, body: str) -> Html:
    """A whole page around a body that is HTML already."""
    scripts = "\n".join(_resource(name) for name in _SCRIPTS)
    return Html(
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_of(title) or 'Pipeline schedules'}</title>\n"
        f"<style>\n{_resource('page.css')}</style>\n</head>\n<body>\n"
        f"<h1>Pipeline schedules</h1>\n<p>{text_of(title)}</p>\n{body}"
        f"<script>\n(() => {{\n'use strict';\n{scripts}}})();\n</script>\n</body>\n</html>\n"
    )


def page(simulations: Sequence[Pictures], *, title: str | None = None) -> Html:
    """One HTML file with the timelines on one scale, to zoom, pan and ask for the wait of each
    cell. It needs no network, and draws every cell of schedules of any size (docs/Pictures.md).

    >>> import pipesched
    >>> run = pipesched.generate("1f1b", workers=2, microbatches=4).simulate(times="F=1ms,B=2ms")
    >>> text = pipesched.page([run], title="two workers")
    >>> text.startswith("<!doctype html>") and "two workers" in text
    True
    """
    evaluations_of("page takes a list of simulations, such as page([a.simulate()])", simulations)
    named = "" if title is None else title_of("title", title)
    return document(named, timelines(simulations))
