"""Sweeps: processes evaluate the points of a grid; a file keeps the rows, so a sweep can be
resumed.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import json
import math
import multiprocessing
import os
import pickle
import re
import signal
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    as_completed,
    wait,
)
from functools import lru_cache
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, NoReturn

from . import _core
from ._batch import Configuration, evaluate_points
from ._errors import PipeSchedError
from ._families import FamilyFunction, restore, used
from ._files import write_whole
from ._grid import AXES, Grid, Inputs, Point, configuration, kinds
from ._options import integer

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
Chunk = list[Point]

# Evaluating


@lru_cache(maxsize=64)
def _accelerators(costs: _core.Costs) -> int:
    """The accelerators of a worker; 0 without a system."""
    return int(_core.sizes(costs)["accelerators"])


@lru_cache(maxsize=64)
def _model(costs: _core.Costs) -> tuple[int, float]:
    """Tokens of a sequence and FLOPs of a token; zeros if they are not known."""
    model = json.loads(costs.model())
    return int(model.get("sequence") or 0), float(model.get("flops_per_token") or 0)


def _rates(point: Configuration, found: Row) -> Row:
    """Tokens per second, and the FLOPs of the model divided by the peak FLOPs."""
    unknown = {"tokens_per_s": None, "mfu": None}
    costs, size, makespan = point.costs, found["microbatch_size"], found["makespan_ps"]
    if costs is None or not costs.model or not size or not makespan:
        return unknown
    sequence, flops = _model(costs._raw)
    pipelines = costs.data_parallel
    per_s = pipelines * point.microbatches * size * sequence * 1e12 / makespan
    peak = pipelines * point.workers * costs._raw.peak_flops
    if not per_s:
        return unknown
    return {"tokens_per_s": per_s, "mfu": per_s * flops / peak if peak and flops else None}


def _plain(value: int | float) -> int | float | None:
    """Converts values that are not known, negative integers and NaN, to None."""
    return None if math.isnan(value) or (isinstance(value, int) and value < 0) else value


def _finished(point: Configuration, found: Row) -> Row:
    """The numbers of a point, with those computed from them."""
    capacity, peak = found.pop("capacity_bytes"), found["peak_bytes"]
    accelerators = _accelerators(point.costs._raw) if point.costs else 0
    sequence = _model(point.costs._raw)[0] if point.costs and point.costs.model else 0
    return {
        **found,
        "sequence": sequence or None,
        "accelerators": accelerators or None,
        "peak_bytes_per_gpu": -(-peak // accelerators) if peak and accelerators else None,
        "step_s": found["makespan_ps"] / 1e12,
        **_rates(point, found),
        "fits": None if capacity is None or peak is None else peak <= capacity,
        "error": None,
    }


def evaluate(
    inputs: Sequence[Inputs], own: Mapping[str, FamilyFunction] | None = None
) -> list[Row]:
    """The numbers of some points in order; for a point without numbers, its `error`. Executors run
    this function in their own processes, which have to be told of one's own families.
    """
    restore(own or {})
    rows: list[Row] = []
    made: list[Configuration] = []
    for given in inputs:
        try:
            point = configuration(given)
            point._raw()
            made.append(point)
            rows.append({})
        except PipeSchedError as error:
            rows.append({"error": error.diagnostics[0].message})
    evaluated = evaluate_points(made, threads=1)
    lists = {name: column.tolist() for name, column in evaluated.columns.items()}
    empty = iter([row for row in rows if not row])
    for index, (point, row, reason) in enumerate(zip(made, empty, evaluated.errors, strict=True)):
        if reason is not None:
            row["error"] = reason
            continue
        found = {name: _plain(column[index]) for name, column in lists.items()}
        row.update(_finished(point, found))
    return rows


# Rows

_SUMMARY = _core.sweep([], 1, None)[0]
_TYPES = {
    **{n: "Int64" if c.dtype == "int64" else "float64" for n, c in _SUMMARY.items()},
    **dict.fromkeys(("step_s", "tokens_per_s", "mfu"), "float64"),
    **dict.fromkeys(("sequence", "accelerators", "peak_bytes_per_gpu"), "Int64"),
    "fits": "boolean",
}
del _TYPES["capacity_bytes"]  # the column `fits` replaces it
_COLUMNS = (*_TYPES, "error")


def _columns(grid: Grid) -> list[str]:
    """The keys of a row in order; the same grid always has the same keys."""
    return list(dict.fromkeys(("key", "version", *grid.axes, *_COLUMNS)))


def _line(grid: Grid, point: Point, found: Row) -> str:
    """A row as a line of the file."""
    labels = point.labels
    given = {axis: labels.get(axis) for axis in grid.axes}
    numbers = {name: found.get(name) for name in _COLUMNS}
    # Keep arguments, such as the size of microbatches, if there are no numbers.
    kept = {axis: value for axis, value in given.items() if numbers.get(axis) is None}
    row = {"key": point.key, "version": _core.version, **given, **numbers, **kept}
    return _sealed(json.dumps(row, ensure_ascii=False))


_SEAL = re.compile(r'(?P<row>.*), "crc32": "(?P<sum>[0-9a-f]{8})"}', re.DOTALL)


def _checksum(row: str) -> str:
    """The checksum of a row, of its text up to the checksum itself."""
    return f"{zlib.crc32(row.encode()):08x}"


def _sealed(text: str) -> str:
    """A row as a line of the file: the JSON object with the checksum as its last field."""
    row = text.removesuffix("}")
    return f'{row}, "crc32": "{_checksum(row)}"}}\n'


def rows_of(lines: Sequence[str]) -> list[Row]:
    """The rows of lines of the file, without their checksums."""
    rows: list[Row] = [json.loads(line) for line in lines]
    for row in rows:
        del row["crc32"]
    return rows


def _is_number(kind: str, value: Any) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind == "Int64":
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return isinstance(value, (int, float)) and math.isfinite(value)


def _wrong_type(row: Row) -> str | None:
    """What is wrong with the type of a result; None if nothing is."""
    for name, kind in _TYPES.items():
        if row.get(name) is not None and not _is_number(kind, row[name]):
            what = {"Int64": "an integer", "boolean": "true or false"}.get(kind, "a number")
            return f"{name}: expected {what} or null, found {row[name]!r}"
    if not isinstance(row.get("error"), (str, type(None))):
        return f"error: expected a text or null, found {row['error']!r}"
    return None


# Files

_BEGIN = b'{"key": "'


def _named(row: Row, axes: Sequence[str]) -> str:
    return ", ".join(f"{axis} {row.get(axis)}" for axis in axes)


def _stranger(grid: Grid, row: Row) -> str:
    """Why a row belongs to no point of the grid."""
    if row.get("version") != _core.version:
        return f"written by version {row.get('version')}, this is {_core.version}"
    values = grid.values()
    axes = [axis for axis in AXES if axis in row and (axis in values or axis not in _COLUMNS)]
    known = {axis: (*values.get(axis, ()), None) for axis in axes}
    other = [axis for axis in axes if row[axis] not in known[axis]]
    return f"no point of this grid: {_named(row, other or ['family', 'workers', 'microbatches'])}"


def _mismatch(grid: Grid, points: Mapping[str, Point], row: Row) -> str | None:
    """Why a row cannot be used for one of these points; None if it can."""
    if row["key"] not in points:
        return _stranger(grid, row)
    columns = _columns(grid)
    if list(row) != columns:
        other = sorted({*row} ^ {*columns}) or ["their order"]
        return f"of a sweep with other columns: {', '.join(other)}"
    labels = points[row["key"]].labels
    renamed = [axis for axis in labels if axis not in _COLUMNS and row[axis] != labels[axis]]
    return f"called differently here: {_named(row, renamed)}" if renamed else None


class _File:
    """The file of a sweep: one line of JSON per row, in the order in which rows are finished.

    Each line ends in the checksum of its row. Rows are appended whole; a half-written line, left by
    a crash, is cut off. A lock keeps other sweeps from writing at the same time. When all rows are
    there, they are sorted in the order of the grid.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = open(path, "a+b", buffering=0)
        try:
            self._check()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> _File:
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

    def read(self, grid: Grid, points: Mapping[str, Point]) -> dict[str, str]:
        """The lines by key. Raises an error if the file belongs to another grid."""
        self._file.seek(0)
        contents = self._file.readall()
        whole = contents.rfind(b"\n") + 1
        rest = contents[whole:]
        if not rest.startswith(_BEGIN[: len(rest)]):
            self._refuse(contents.count(b"\n") + 1, "a row of a sweep starts otherwise")
        lines: dict[str, str] = {}
        for number, line in enumerate(contents[:whole].splitlines(keepends=True), 1):
            row, text = self._read_line(number, line)
            if why := _mismatch(grid, points, row) or _wrong_type(row):
                self._refuse(number, why)
            lines.setdefault(row["key"], text)
        if rest:
            self._file.truncate(whole)
        return lines

    def _read_line(self, number: int, line: bytes) -> tuple[Row, str]:
        """A row and its line; a row of an older version, which has no checksum, gets one."""
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
        if "crc32" not in row:
            return row, _sealed(json.dumps(row, ensure_ascii=False))
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


# Processes

_CHUNK_WORK = 100_000
_CHUNK_POINTS = 250
_SMALL_WORK = 1_000_000
"""The work (stages times microbatches) below which starting processes does not pay."""


def _work(point: Point) -> int:
    given = point.inputs
    per_worker: int = max(given.get("chunks", 1), 2 * given.get("waves", 1), 2)
    size: int = given["workers"] * given["microbatches"]
    return max(per_worker * size, 1)


def _chunks(points: Sequence[Point]) -> Iterator[Chunk]:
    """Splits the points, in order, into parts of about equal work."""
    chunk: Chunk = []
    work = 0
    for point in points:
        more = _work(point)
        if chunk and (work + more > _CHUNK_WORK or len(chunk) == _CHUNK_POINTS):
            yield chunk
            chunk, work = [], 0
        chunk.append(point)
        work += more
    if chunk:
        yield chunk


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _begin() -> None:
    """Starts a thread that ends this process of the pool when its parent ends for any reason."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


@contextlib.contextmanager
def _shielded() -> Iterator[None]:
    """Processes and threads started in this block never get Ctrl-C; their parent handles it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


class _Rows:
    """The finished rows as lines by key; also writes them to the file if there is one."""

    def __init__(
        self, grid: Grid, file: _File | None, progress: Callable[[int, int], object] | None
    ) -> None:
        self.points = {point.key: point for point in grid.points()}
        self.lines = file.read(grid, self.points) if file else {}
        self._grid, self._file, self._progress = grid, file, progress
        self._tell()

    def missing(self) -> list[Point]:
        """The points that have no row yet."""
        return [point for key, point in self.points.items() if key not in self.lines]

    def keep(self, chunk: Chunk, rows: list[Row]) -> None:
        """Adds all rows of a chunk, or none."""
        made = {p.key: _line(self._grid, p, row) for p, row in zip(chunk, rows, strict=True)}
        with _shielded():
            if self._file:
                self._file.append(list(made.values()))
            self.lines.update(made)
        self._tell()

    def finished(self) -> list[str]:
        """All rows in the order of the grid."""
        ordered = [self.lines[key] for key in self.points]
        if self._file:
            self._file.finish(ordered)
        return ordered

    def _tell(self) -> None:
        if self._progress:
            self._progress(len(self.lines), len(self.points))


def _keep_under_way(futures: Mapping[Future[list[Row]], Chunk], rows: _Rows) -> None:
    """Starts no more chunks, and keeps the results of those that cannot be cancelled."""
    running = [future for future in futures if not future.cancel()]
    wait(running)
    for future in running:
        if not future.cancelled() and future.exception() is None:
            with contextlib.suppress(Exception):  # another exception is already being raised
                rows.keep(futures[future], future.result())


def _sent(chunks: Sequence[Chunk]) -> dict[str, FamilyFunction]:
    """One's own families, as other processes get them."""
    own = used(point.inputs["family"] for chunk in chunks for point in chunk)
    for name, function in own.items():
        try:
            pickle.dumps(function)
        except Exception as error:
            raise PipeSchedError(
                f"family {name!r} cannot be sent to other processes ({error}); define its function "
                "at the top of a module, or evaluate in this process (processes=1)"
            ) from None
    return own


def _run_on(executor: Executor, chunks: Sequence[Chunk], rows: _Rows) -> None:
    """Keeps the rows of each chunk as soon as it is finished."""
    own = _sent(chunks)
    with _shielded():
        futures: dict[Future[list[Row]], Chunk] = {
            executor.submit(evaluate, [point.inputs for point in chunk], own): chunk
            for chunk in chunks
        }
    try:
        for future in as_completed(list(futures)):
            rows.keep(futures.pop(future), future.result())
    except BaseException:
        _keep_under_way(futures, rows)
        raise


def _run_on_processes(count: int, chunks: Sequence[Chunk], rows: _Rows) -> None:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(count, len(chunks)), context, _begin)
    try:
        _run_on(pool, chunks, rows)
    except BrokenExecutor:
        raise PipeSchedError(
            "a process of the sweep ended, maybe for lack of memory; try with fewer"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _run(rows: _Rows, executor: Executor | None, processes: int | None) -> None:
    points = rows.missing()
    chunks = list(_chunks(points))
    count = cores() if processes is None else integer("processes", processes, 1, 2**10)
    if executor is not None:
        _run_on(executor, chunks, rows)
    elif count > 1 and sum(map(_work, points)) >= _SMALL_WORK:
        _run_on_processes(count, chunks, rows)
    else:
        for chunk in chunks:
            rows.keep(chunk, evaluate([point.inputs for point in chunk]))


# Sweeping


def lines_of(
    grid: Grid,
    *,
    file: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> list[str]:
    """The rows of all points as lines of JSON, in the order of the grid. `progress` is called with
    the number of finished points and the number of all points.
    """
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(_File(os.fspath(file))) if file is not None else None
        rows = _Rows(grid, kept, progress)
        _run(rows, executor, processes)
        return rows.finished()


def _frame(grid: Grid, lines: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    rows = rows_of(lines)
    names = dict.fromkeys((*grid.axes, *_COLUMNS))
    found = {name: [row[name] for row in rows] for name in names}
    types = {axis: "Int64" for axis in grid.axes if kinds(axis) == (int,)}
    types |= _TYPES
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in found.items()})
    return frame.astype(types)


def sweep(
    grid: Grid | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    file: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pd.DataFrame:
    """Evaluates all points of a grid and returns one row each, in the order of the grid. They run
    on an executor of `concurrent.futures` or on `processes` new processes (default: one per core);
    the result is the same. The row of a point without a schedule says why.

    With a file, finished rows are kept there, one line of JSON each. After an interruption the same
    call resumes the sweep, and the final file is equal to the byte to that of an uninterrupted
    sweep. `progress` is called from time to time with the number of finished points and the number
    of all points.

    >>> frame = sweep({"family": ["1f1b", "zb-h1"], "workers": 4, "microbatches": "4:8:4"})
    >>> frame[["microbatches", "family", "makespan_ps", "table_bubble_ratio"]]
       microbatches family  makespan_ps  table_bubble_ratio
    0             4   1f1b     21000000            0.428571
    1             4  zb-h1     15000000            0.200000
    2             8   1f1b     33000000            0.272727
    3             8  zb-h1     27000000            0.111111
    """
    if not isinstance(grid, Grid):
        grid = Grid(grid)
    lines = lines_of(grid, file=file, executor=executor, processes=processes, progress=progress)
    return _frame(grid, lines)
