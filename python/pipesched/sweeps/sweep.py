"""Sweeps: processes evaluate the points of a grid; a file keeps the rows for resuming."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import multiprocessing
import os
import pickle
import signal
import threading
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
from typing import TYPE_CHECKING, Any

from .. import _core
from ..costs.costs import Costs, has_experts
from ..costs.division import layers_text
from ..errors import PipeSchedError, WrongType
from ..results.batch import Metric, evaluate_points
from ..results.configuration import Configuration
from ..results.report import Formula
from ..schedule.registry import OwnFamily, restore, used
from ..support.options import callable_of, integer, path_of
from ..support.units import DEFAULT_RESERVE, reserve_of
from .file import TYPES, Form, Layout, Row, SweepFile, can_keep, rows_of
from .grid import NOT_OF_TABLE, RESERVE, Grid, Inputs, Point, configuration, kinds

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

Chunk = list[Point]

# Evaluating


@lru_cache(maxsize=64)
def _accelerators(costs: _core.Costs) -> int:
    """The accelerators of a worker; 0 without a system."""
    return int(_core.sizes(costs)["accelerators"])


@lru_cache(maxsize=64)
def _sequence(costs: _core.Costs) -> int:
    """The tokens of a sequence; 0 if they are not known."""
    return int(json.loads(costs.model()).get("sequence") or 0)


def _rates(point: Configuration, found: Row) -> Row:
    """Tokens per second and MFU, as rows of `compare` have them."""
    costs, size, makespan = point.costs, found["microbatch_size"], found["makespan_ps"]
    tokens = 0
    if costs is not None and costs.model and size:
        tokens = costs.data_parallel * point.microbatches * size * _sequence(costs._raw)
    if not tokens or not makespan:
        return {"tokens_per_s": None, "mfu": None}
    return {"tokens_per_s": tokens * 1e12 / makespan, "mfu": found["mfu"]}


def _to_list(column: npt.NDArray[Any]) -> list[Any]:
    """A column with None in place of unknown values: negative integers and NaN."""
    values: list[Any] = column.tolist()
    if column.dtype.kind == "i":
        return [None if value < 0 else value for value in values]
    return [None if math.isnan(value) else value for value in values]


def _layers(point: Configuration) -> str | None:
    """The layers of the stages of a point; None without layers, and for families that are
    functions.
    """
    layers = point.costs._division.layers if point.costs is not None else 0
    return layers_text(layers, point.places) if layers and not point._is_own else None


@lru_cache(maxsize=64)
def _formula(family: str) -> Formula | None:
    """The formula of a family, for its definition, which sizes do not change."""
    try:
        return Configuration(family, 4, 8).simulate().formula
    except PipeSchedError:
        return None


def _add_formula(point: Configuration, found: Row) -> Row:
    """The formula with its definition, as rows of `compare` have them."""
    if point._is_own:
        ratio = point._own_bubble_ratio
        return {"formula_bubble_ratio": ratio, "formula_of": None if ratio is None else "step"}
    ratio = found["formula_bubble_ratio"]
    formula = None if ratio is None else _formula(point.family)
    if formula is None or formula.of == "step":
        return {"formula_of": None if ratio is None else "step"}
    if formula.states(found["workers"], found["microbatches"]):
        return {"formula_of": formula.of}
    return {"formula_bubble_ratio": None, "formula_of": None}


def _activations(found: Row, slices: int) -> float | None:
    """Activations in units of one microbatch on an equal part of the model."""
    peak, stages, workers = (found[name] for name in ("peak_activations", "stages", "workers"))
    return peak * workers / stages / slices if peak is not None and stages else None


def _fits(
    capacity: int | None, peak: int | None, accelerators: int, reserve: str, costs: Costs | None
) -> bool | None:
    """Returns whether the reserve is free on each accelerator of the fullest worker."""
    if capacity is None or peak is None:
        return None
    each = capacity // (accelerators or 1)
    return -(-peak // (accelerators or 1)) <= each - reserve_of(reserve, each, has_experts(costs))


def _finish_row(point: Configuration, found: Row, reserve: str) -> Row:
    """The numbers of a point, with derived ones."""
    capacity, slices = found.pop("capacity_bytes"), found.pop("slices")
    peak = found["peak_bytes"]
    accelerators = _accelerators(point.costs._raw) if point.costs else 0
    sequence = _sequence(point.costs._raw) if point.costs and point.costs.model else 0
    return {
        **found,
        "sequence": sequence or None,
        "accelerators": accelerators or None,
        "peak_bytes_per_gpu": -(-peak // accelerators) if peak and accelerators else None,
        "step_s": found["makespan_ps"] / 1e12,
        **_add_formula(point, found),
        "activations": _activations(found, slices),
        **_rates(point, found),
        "layers": _layers(point),
        "fits": _fits(capacity, peak, accelerators, reserve, point.costs),
        "error": None,
    }


def _check_value(name: str, value: Any) -> Any:
    """Returns the value of a metric as rows store it: JSON has no NaN and no infinity, so these
    become None.
    """
    import numpy as np

    plain = value.item() if isinstance(value, np.generic) else value
    if not can_keep(plain):
        raise WrongType(
            f"metric {name!r} gives {value!r}; wanted a number, a text, a bool or None, which a "
            "row of a sweep can keep"
        )
    return None if isinstance(plain, float) and not math.isfinite(plain) else plain


def evaluate(
    inputs: Sequence[Inputs],
    own: Mapping[str, OwnFamily] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> list[Row]:
    """The numbers and the metrics of some points in order, or their `error`. Other processes run
    this function, with the registered families.
    """
    restore(own or {})
    rows: list[Row] = []
    made: list[Configuration] = []
    reserves: list[str] = []
    raw: list[_core.Configuration] = []
    for given in inputs:
        try:
            point = configuration(given)
            raw.append(point._raw())
            made.append(point)
            reserves.append(given.get(RESERVE, DEFAULT_RESERVE))
            rows.append({})
        except PipeSchedError as error:
            rows.append({"error": error.diagnostics[0].message})
    evaluated = evaluate_points(made, raw=raw, threads=1, metrics=metrics)
    names = list(evaluated.columns)
    numbers = zip(*map(_to_list, evaluated.columns.values()), strict=True)
    empty = iter([row for row in rows if not row])
    each = zip(made, reserves, empty, numbers, evaluated.errors, strict=True)
    for index, (point, reserve, row, known, reason) in enumerate(each):
        if reason is not None:
            row["error"] = reason
            continue
        found = dict(zip(names, known, strict=True))
        measured = evaluated.metrics[index].items()
        row.update(_finish_row(point, found, reserve))
        row.update({name: _check_value(name, value) for name, value in measured})
    return rows


def evaluate_lines(
    points: Sequence[Point],
    form: Form,
    own: Mapping[str, OwnFamily] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> list[str]:
    """The rows of some points, as lines of the file."""
    rows = evaluate([point.inputs for point in points], own, metrics)
    return [form.line(point, row) for point, row in zip(points, rows, strict=True)]


def task_of(chunk: Chunk) -> bytes:
    """The points of a task, as one text, because Dask inspects each element that it sends."""
    return pickle.dumps(chunk)


def run_task(
    points: bytes, form: Form, own: Mapping[str, OwnFamily], metrics: Mapping[str, Metric]
) -> str:
    """The task of an executor: the lines of points, as one text. Formatting a line takes longer
    than storing it, so that workers do it.
    """
    return "".join(evaluate_lines(pickle.loads(points), form, own, metrics))


def lines_of_task(text: str) -> list[str]:
    """The lines of the result of a task."""
    return [f"{line}\n" for line in text.split("\n")[:-1]]


# Tasks

TASKS = 256
"""The number of tasks to aim for, so that all workers are busy to the end."""

_LEAST_TASK_WORK, _MOST_TASK_WORK = 400_000, 8_000_000
"""The work of the smallest task, some 0.05 s, and of the largest, about a second."""

_CHUNK_WORK = 200_000
"""The work of one part of a sweep in this process. The rows of a part are stored when it ends."""

_POINT_WORK = 300
"""The fixed cost of a point, in units of work."""

_SMALL_WORK = 1_000_000
"""The work below which starting processes does not pay."""


def _work(point: Point) -> int:
    """The work of a point: stages times microbatches, and its fixed cost."""
    given = point.inputs
    per_worker: int = max(given.get("chunks", 1), 2 * given.get("waves", 1), 2)
    size: int = given["workers"] * given["microbatches"]
    return max(per_worker * size, 1) + _POINT_WORK


@lru_cache(maxsize=256)
def _of_table(axes: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of the axes that determine the table of a point."""
    return tuple(index for index, axis in enumerate(axes) if axis not in NOT_OF_TABLE)


def _by_table(points: Sequence[Point]) -> list[Point]:
    """The points, sorted so that points of one table are neighbours: they share walks over it."""
    tables: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        choices = point.choices
        table = tuple(choices[index].token for index in _of_table(point.axes))
        tables.setdefault((*point.axes, *table), []).append(point)
    return list(itertools.chain.from_iterable(tables.values()))


def _chunks(points: Sequence[Point], most: float = _CHUNK_WORK) -> Iterator[Chunk]:
    """Splits the points, in order, into parts of at most `most` work and at least one point."""
    chunk: Chunk = []
    work = 0
    for point in points:
        more = _work(point)
        if chunk and work + more > most:
            yield chunk
            chunk, work = [], 0
        chunk.append(point)
        work += more
    if chunk:
        yield chunk


def _tasks(points: Sequence[Point]) -> list[Chunk]:
    """The points in tasks for other processes."""
    each = sum(map(_work, points)) / TASKS
    most = min(_MOST_TASK_WORK, max(_LEAST_TASK_WORK, each))
    return list(_chunks(points, most))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _watch_parent() -> None:
    """Starts a thread that ends this process of the pool when its parent ends for any reason."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


@contextlib.contextmanager
def _shield() -> Iterator[None]:
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
    """The finished rows as lines by key. They are also written to the file, if there is one."""

    def __init__(
        self, layout: Layout, file: SweepFile | None, progress: Callable[[int, int], object] | None
    ) -> None:
        self.layout = layout
        self.points = {point.key: point for point in layout.grid.points()}
        self.lines = file.read(layout, self.points) if file else {}
        self._file, self._progress = file, progress
        self._tell()

    def missing(self) -> list[Point]:
        """The points that have no row yet, grouped by table."""
        return _by_table([point for key, point in self.points.items() if key not in self.lines])

    def evaluate(self, chunk: Chunk) -> list[str]:
        """The lines of a chunk, evaluated in this process."""
        return evaluate_lines(chunk, self.layout.form, metrics=self.layout.metrics)

    def keep(self, chunk: Chunk, lines: Sequence[str]) -> None:
        """Adds all rows of a chunk, or none."""
        made = {point.key: line for point, line in zip(chunk, lines, strict=True)}
        with _shield():
            if self._file:
                self._file.append(list(made.values()))
            self.lines.update(made)
        self._tell()

    def finish(self) -> list[str]:
        """All rows in the order of the grid."""
        ordered = [self.lines[key] for key in self.points]
        if self._file:
            self._file.finish(ordered)
        return ordered

    def _tell(self) -> None:
        if self._progress:
            self._progress(len(self.lines), len(self.points))


def _keep_under_way(futures: Mapping[Future[str], Chunk], rows: _Rows) -> None:
    """Starts no more chunks, and keeps the results of chunks that cannot be cancelled."""
    running = [future for future in futures if not future.cancel()]
    wait(running)
    for future in running:
        if not future.cancelled() and future.exception() is None:
            with contextlib.suppress(Exception):  # another exception is already being raised
                rows.keep(futures[future], lines_of_task(future.result()))


def _check_pickled(kind: type[PipeSchedError], what: str, functions: Mapping[str, object]) -> None:
    """Raises an error for a function that other processes cannot get."""
    for name, function in functions.items():
        try:
            pickle.dumps(function)
        except Exception as error:
            raise kind(
                f"{what} {name!r} cannot be sent to other processes ({error}); define its function "
                "at the top of a module, or evaluate in this process (processes=1)"
            ) from None


def _run_on(executor: Executor, rows: _Rows) -> None:
    """Keeps the rows of each task as soon as it is finished."""
    points, metrics, form = rows.missing(), dict(rows.layout.metrics), rows.layout.form
    own = used(point.inputs["family"] for point in points)
    _check_pickled(PipeSchedError, "family", own)
    _check_pickled(WrongType, "metric", metrics)
    with _shield(), _safe_path():
        futures: dict[Future[str], Chunk] = {
            executor.submit(run_task, task_of(chunk), form, own, metrics): chunk
            for chunk in _tasks(points)
        }
    try:
        for future in as_completed(list(futures)):
            rows.keep(futures.pop(future), lines_of_task(future.result()))
    except BaseException:
        _keep_under_way(futures, rows)
        raise


@contextlib.contextmanager
def _safe_path() -> Iterator[None]:
    """Keeps new Python processes from importing files of the current folder, which is for data."""
    name = "PYTHONSAFEPATH"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _run_on_processes(count: int, rows: _Rows) -> None:
    context = multiprocessing.get_context("spawn")
    with _safe_path():  # A lock of the pool starts a process too.
        pool = ProcessPoolExecutor(count, context, _watch_parent)
    try:
        _run_on(pool, rows)
    except BrokenExecutor:
        raise PipeSchedError(
            "a process of the sweep ended, maybe for lack of memory; try with fewer"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _run(rows: _Rows, executor: Executor | None, processes: int | None) -> None:
    points = rows.missing()
    count = cores() if processes is None else integer("processes", processes, 1, 2**10)
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            raise WrongType(f"executor is one of concurrent.futures; got {executor!r}")
        _run_on(executor, rows)
    elif count > 1 and sum(map(_work, points)) >= _SMALL_WORK:
        _run_on_processes(count, rows)
    else:
        for chunk in _chunks(points):
            rows.keep(chunk, rows.evaluate(chunk))


# Sweeping


def lines_of(
    grid: Grid,
    *,
    file: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> list[str]:
    """The rows of all points as lines of JSON, in the order of the grid."""
    layout = Layout.create(grid, metrics)
    with contextlib.ExitStack() as stack:
        kept = stack.enter_context(SweepFile(os.fspath(file))) if file is not None else None
        rows = _Rows(layout, kept, progress)
        _run(rows, executor, processes)
        return rows.finish()


def _frame(layout: Layout, lines: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    rows = rows_of(lines)
    found = {name: [row[name] for row in rows] for name in layout.columns}
    types = {axis: "Int64" for axis in layout.grid.axes if kinds(axis) == (int,)}
    types |= TYPES
    series = {
        name: pd.Series(values, dtype=None if name in layout.metrics else object)
        for name, values in found.items()
    }
    return pd.DataFrame(series).astype(types)


def sweep(
    grid: Grid | Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    file: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    processes: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> pd.DataFrame:
    """Evaluates all points of a grid and returns one row each, in the order of the grid. They run
    on an executor of `concurrent.futures` or on `processes` new processes (default: one per core);
    the result is the same. The row of a point without a schedule says why.

    With a file, finished rows are kept there, one line of JSON each. After an interruption the same
    call resumes the sweep, and the final file has the same bytes as after an uninterrupted sweep.
    `progress` is called from time to time with the number of finished points and the number of all
    points.

    `metrics` become columns: functions from a `Simulation` each, to a number, a text, a bool or
    None. They take the whole report of each point, so a sweep with metrics is slower. Other
    processes get them by pickle; a metric that cannot be pickled raises a TypeError. An exception
    of a metric ends the sweep. A file is for one set of metrics: it keeps their values and refuses
    other names, and functions whose source has changed.

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
    callable_of("progress", progress)
    if file is not None:
        path_of("file", file)
    lines = lines_of(
        grid, file=file, executor=executor, processes=processes, progress=progress, metrics=metrics
    )
    return _frame(Layout.create(grid, metrics), lines)
