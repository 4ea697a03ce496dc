"""The file of a sweep: a row for each point, one line of JSON each."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import re
import stat
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

from .. import _core
from ..errors import PipeSchedError
from ..results.batch import Metric, check_metrics
from ..schedule.registry import digest_of
from ..support.files import write_whole
from .grid import AXES, Grid, Point

Row = dict[str, Any]

# Columns

_SUMMARY = _core.sweep([], 1, None)[0]
TYPES = {
    **{n: "Int64" if c.dtype == "int64" else "float64" for n, c in _SUMMARY.items()},
    **dict.fromkeys(("step_s", "tokens_per_s", "mfu", "activations"), "float64"),
    **dict.fromkeys(("sequence", "accelerators", "peak_bytes_per_gpu"), "Int64"),
    "layers": "string",
    "formula_of": "string",
    "fits": "boolean",
}
del TYPES["capacity_bytes"], TYPES["slices"]  # the columns `fits` and `activations` have them
_COLUMNS = (*TYPES, "error")
_OF_FILES = ("key", "version", "metrics", "crc32")
"""The keys of a row that are not columns of the frame."""


@dataclass(frozen=True)
class Form:
    """How rows become lines of the file: the axes, and the digests of metrics by name."""

    axes: tuple[str, ...]
    digests: Mapping[str, str]

    @cached_property
    def _results(self) -> tuple[str, ...]:
        return *TYPES, *self.digests, "error"

    def line(self, point: Point, found: Row) -> str:
        """Formats a row as a line of the file."""
        labels = point.labels
        row: Row = {"key": point.key, "version": _core.version}
        for axis in self.axes:
            row[axis] = labels.get(axis)
        for name in self._results:
            value = found.get(name)
            # If there are no numbers, keep arguments such as the size of microbatches.
            if value is not None or name not in row:
                row[name] = value
        if self.digests:
            row["metrics"] = self.digests
        return _seal(_JSON.encode(row))


@dataclass(frozen=True)
class Layout:
    """The columns of a sweep: the axes of its grid, the numbers of the library, and own metrics."""

    grid: Grid
    metrics: Mapping[str, Metric]

    @staticmethod
    def create(grid: Grid, metrics: Mapping[str, Metric] | None) -> Layout:
        """Raises an error for metrics that are not functions or that have the names of columns."""
        return Layout(grid, check_metrics(metrics, (*AXES, *_COLUMNS, *_OF_FILES)))

    @property
    def columns(self) -> list[str]:
        """The columns of a frame in order."""
        return list(dict.fromkeys((*self.grid.axes, *TYPES, *self.metrics, "error")))

    @property
    def keys(self) -> list[str]:
        """The keys of a row in order; the same grid and metrics always have the same keys."""
        last = ("metrics",) if self.metrics else ()
        return ["key", "version", *self.columns, *last]

    @cached_property
    def digests(self) -> dict[str, str]:
        """The digest of each metric. Digests distinguish functions with the same name."""
        return {name: digest_of(metric) for name, metric in self.metrics.items()}

    @cached_property
    def form(self) -> Form:
        return Form(self.grid.axes, self.digests)


# Rows


_JSON = json.JSONEncoder(ensure_ascii=False)
_SEAL = re.compile(r'(?P<row>.*), "crc32": "(?P<sum>[0-9a-f]{8})"}', re.DOTALL)


def _checksum(row: str) -> str:
    """The checksum of a row, of its text up to the checksum itself."""
    return f"{zlib.crc32(row.encode()):08x}"


def _seal(text: str) -> str:
    """A row as a line of the file: the JSON object with the checksum as its last field."""
    row = text.removesuffix("}")
    return f'{row}, "crc32": "{_checksum(row)}"}}\n'


def rows_of(lines: Sequence[str]) -> list[Row]:
    """The rows of lines of the file, without their checksums."""
    rows: list[Row] = json.loads(f"[{','.join(lines)}]")
    for row in rows:
        del row["crc32"]
    return rows


def can_keep(value: Any) -> bool:
    """Whether a row can store this value of a metric and return it unchanged."""
    return value is None or isinstance(value, (bool, int, float, str))


# Files

_BEGIN = b'{"key": "'


def _name_row(row: Row, axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} {row.get(axis)}" for axis in axes)


def _stranger(grid: Grid, row: Row) -> str:
    """Returns the reason why a row belongs to no point of the grid."""
    if row.get("version") != _core.version:
        return f"written by version {row.get('version')}, this is {_core.version}"
    values = grid.values()
    axes = [axis for axis in AXES if axis in row and (axis in values or axis not in _COLUMNS)]
    known = {axis: (*values.get(axis, ()), None) for axis in axes}
    other = [axis for axis in axes if row[axis] not in known[axis]]
    other = other or ["family", "workers", "microbatches"]
    return f"no point of this grid: {_name_row(row, other)}"


def _mismatch(layout: Layout, points: Mapping[str, Point], row: Row) -> str | None:
    """The reason why a row cannot be used for one of these points; None if it can."""
    if row["key"] not in points:
        return _stranger(layout.grid, row)
    if list(row) != layout.keys:
        other = sorted({*row} ^ {*layout.keys}) or ["their order"]
        named = [name for name in other if name not in _OF_FILES] or other
        return f"of a sweep with other columns: {', '.join(named)}"
    found = row.get("metrics", {})
    other = [name for name in layout.digests if found.get(name) != layout.digests[name]]
    if other:
        return f"of a sweep with another function as metric {', '.join(map(repr, other))}"
    labels = points[row["key"]].labels
    renamed = [axis for axis in labels if axis not in _COLUMNS and row[axis] != labels[axis]]
    return f"called differently here: {_name_row(row, renamed)}" if renamed else None


class SweepFile:
    """The file of a sweep: one line of JSON per row, with its checksum at the end. Rows are in the
    order in which they finish, and at the end in the order of the grid. Reading drops a
    half-written line. A lock keeps other sweeps away.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "a+b", buffering=0)
        try:
            self._check()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _check(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            raise PipeSchedError(f"{self.path} is not a regular file")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipeSchedError(f"another sweep is writing {self.path}") from None
        except OSError:
            pass  # some file systems have no locks

    def read(self, layout: Layout, points: Mapping[str, Point]) -> dict[str, str]:
        """The lines by key. Refuses the file of another grid or other metrics."""
        self._file.seek(0)
        contents = self._file.readall()
        whole = contents.rfind(b"\n") + 1
        rest = contents[whole:]
        if not rest.startswith(_BEGIN[: len(rest)]):
            self._refuse(contents.count(b"\n") + 1, "a row of a sweep starts otherwise")
        lines: dict[str, str] = {}
        for number, line in enumerate(contents[:whole].splitlines(keepends=True), 1):
            row, text = self._read_line(number, line)
            if why := _mismatch(layout, points, row):
                self._refuse(number, why)
            lines.setdefault(row["key"], text)
        if rest:
            self._file.truncate(whole)
        return lines

    def _read_line(self, number: int, line: bytes) -> tuple[Row, str]:
        """A row and its line."""
        if line.startswith(codecs.BOM_UTF8):
            self._refuse(number, "a byte order mark, which no sweep writes; remove it")
        try:
            text = line.decode().rstrip("\r\n")
            row = json.loads(text)
        except ValueError as error:
            self._refuse(number, f"not JSON: {error}")
        except RecursionError:
            self._refuse(number, "not a row of a sweep: nested too deeply")
        if not isinstance(row, dict) or not isinstance(row.get("key"), str):
            self._refuse(number, "not a row of a sweep, which has a key")
        sealed = _SEAL.fullmatch(text)
        if not sealed or _checksum(sealed["row"]) != sealed["sum"]:
            self._refuse(
                number,
                "the row is not as it was written, by its checksum; delete the line, and the "
                "sweep computes it again",
                advise=False,
            )
        del row["crc32"]
        return row, text + "\n"

    def _refuse(self, line: int, why: str, *, advise: bool = True) -> NoReturn:
        advice = "; give a file of its own to each sweep" if advise else ""
        raise PipeSchedError(f"{self.path}:{line}: {why}{advice}")

    def append(self, lines: Sequence[str]) -> None:
        """Adds all of these rows, or none if there is no room."""
        before = os.fstat(self._file.fileno()).st_size
        left = memoryview("".join(lines).encode())
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._file.truncate(before)
            error.filename = self.path
            raise

    def finish(self, lines: Sequence[str]) -> None:
        """Rewrites the file in this order unless it already has it."""
        contents = "".join(lines).encode()
        self._file.seek(0)
        if self._file.readall() == contents:
            return
        write_whole(self.path, contents)
