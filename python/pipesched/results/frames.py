"""Converts results to data frames. Importing pandas takes longer than timing most schedules, so
other modules import this one only to make a frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..schedule.program import COSTED_PHASES, WorkerProgram
from ..schedule.program import PHASES as ALL_PHASES
from ..support.options import FamilyOptions, InstructionKind, Lane, names_of
from .report import IdleByCause, Report

if TYPE_CHECKING:
    from .batch import Evaluated, Point
    from .measurement import Measurement

Columns = Mapping[str, npt.NDArray[Any]]

# By the codes of phases, up to the last one that has a cost. Categories are unique, so phases in
# between that have none keep their letters.
PHASES = pd.Index(ALL_PHASES[: len(COSTED_PHASES)])


def _categories(columns: Columns, names: Mapping[str, pd.Index[str]]) -> dict[str, Any]:
    """The columns, with categories for columns that have names for their codes."""
    return {
        name: pd.Categorical.from_codes(column, categories=names[name]) if name in names else column
        for name, column in columns.items()
    }


def cell_frame(columns: Columns, has_slices: bool) -> pd.DataFrame:
    """One row per cell. Phases and queues are categories; only slices have the column `slice`."""
    names = {"phase": PHASES, "queue": pd.Index(names_of(Lane))}
    shown = {key: column for key, column in columns.items() if has_slices or key != "slice"}
    return pd.DataFrame(_categories(shown, names), copy=False)


def program_frame(program: WorkerProgram) -> pd.DataFrame:
    """One row per instruction. Kinds and phases are categories."""
    phases = pd.Index(ALL_PHASES)
    names = {"kind": pd.Index(names_of(InstructionKind)), "phase": phases, "second_phase": phases}
    arrays = {field.name: getattr(program.columns, field.name) for field in fields(program.columns)}
    del arrays["wait_begins"], arrays["waits"]
    frame = pd.DataFrame(_categories(arrays, names), copy=False)
    frame.insert(0, "worker", program.worker)
    frame.insert(1, "index", np.arange(len(program)))
    return frame


EXCHANGES = (
    "all_to_all_ps",
    "exposed_all_to_all_ps",
    "context_exchange_ps",
    "exposed_context_exchange_ps",
    "context_exchange_bytes",
)
"""The columns of exchanges between the ranks of a worker, None in a report without any."""


def worker_frame(report: Report) -> pd.DataFrame:
    """One row per worker: slots, times, bytes."""
    columns: dict[str, Any] = {}
    if table := report.table:
        for name in ("busy_slots", "fill_slots", "drain_slots", "peak_activations"):
            columns[name] = getattr(table, name)
    columns["busy_ps"] = report.execution.busy_ps
    for cause in fields(IdleByCause):
        columns[f"{cause.name}_ps"] = getattr(report.execution.idle_by_cause_ps, cause.name)
    columns["bytes_sent"] = report.execution.bytes_sent
    for name in EXCHANGES:
        if (column := getattr(report.execution, name)) is not None:
            columns[name] = column
    if memory := report.memory:
        for name in ("persistent_bytes", "peak_activation_bytes", "peak_bytes", "peak_cell"):
            columns[name] = getattr(memory, name)
    return pd.DataFrame(columns, index=pd.RangeIndex(report.workers, name="worker"))


def _mark_unknown(column: npt.NDArray[Any]) -> Any:
    """Marks negative integers as unknown. Unknown ratios are NaN already."""
    if column.dtype != np.int64:
        return column
    return pd.arrays.IntegerArray(column, column < 0)


def _summaries(columns: Columns) -> dict[str, Any]:
    return {name: _mark_unknown(column) for name, column in columns.items()}


def comparison_frame(evaluated: Evaluated) -> pd.DataFrame:
    """One row per simulation, by its schedule's name."""
    simulations, metrics = evaluated.simulations, evaluated.metrics
    families = [s.family for s in simulations]
    index = [s.schedule for s in simulations]
    own = {name: [each[name] for each in metrics] for name in (metrics[0] if metrics else ())}
    columns = {"family": families, **_summaries(evaluated.columns), **own}
    return pd.DataFrame(columns, index=index)


def _argument_columns(points: Sequence[Point]) -> dict[str, Any]:
    """The arguments of the points of a sweep, without options that no point has."""
    columns: dict[str, Any] = {
        "family": [point.family for point in points],
        "workers": [point.workers for point in points],
        "microbatches": [point.microbatches for point in points],
    }
    options = [getattr(point, "options", {}) for point in points]
    for option in dict.fromkeys((*FamilyOptions.__annotations__, *(o for g in options for o in g))):
        values = [given.get(option) for given in options]
        if any(value is not None for value in values):
            columns[option] = pd.array(values)
    columns["transport"] = [getattr(point, "transport", None) for point in points]
    runtimes = [getattr(point, "runtime", None) for point in points]
    if any(runtime not in (None, "table") for runtime in runtimes):
        columns["runtime"] = runtimes
    return columns


def batch_frame(
    points: Sequence[Point], evaluated: Evaluated, metrics: Sequence[str]
) -> pd.DataFrame:
    """One row per point: its arguments, its numbers, its metrics and its error."""
    given = _argument_columns(points)
    numbers = _summaries(evaluated.columns)
    found = {name: column for name, column in numbers.items() if name not in given}
    own = {name: [each.get(name) for each in evaluated.metrics] for name in metrics}
    errors = pd.Series(evaluated.errors, dtype=object)
    return pd.DataFrame({**given, **found, **own, "error": errors})


def _seconds(times: npt.NDArray[np.int64], begins: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """Converts times in ns to seconds from the start of their step; unknown times become NaN."""
    is_known = times != np.iinfo(np.int64).min
    known = np.where(is_known, times, 0) - begins[:, None]
    return np.where(is_known, known / 1e9, np.nan).reshape(-1)


def measurement_frame(measurement: Measurement) -> pd.DataFrame:
    """One row per instruction and step, as `Measurement.to_frame` says."""
    begins = np.array([begin for begin, _ in measurement.spans_ns], dtype=np.int64)
    steps = measurement.steps
    frames = []
    for program, stamps in zip(measurement.programs, measurement.stamps, strict=True):
        rows = program_frame(program)
        cells = ["+".join(map(str, each.cells)) for each in program]
        names = ["worker", "index", "kind", "path", "stage", "phase", "microbatch"]
        chosen = rows[[*names, "peer", "message"]]
        chosen.insert(3, "cell", pd.Series(cells, dtype=object))
        frame = pd.concat([chosen] * steps, ignore_index=True)
        frame.insert(0, "step", np.repeat(np.array(measurement.numbers), len(program)))
        for name in ("ready", "start", "end", "done", "arrived"):
            frame[f"{name}_s"] = _seconds(getattr(stamps, name), begins)
        frames.append(frame)
    whole = pd.concat(frames, ignore_index=True)
    received = whole[whole.kind == "recv"].set_index(["step", "message"]).arrived_s
    sent = whole.kind == "send"
    keys = pd.MultiIndex.from_frame(whole.loc[sent, ["step", "message"]])
    whole.loc[sent, "arrived_s"] = received.reindex(keys).to_numpy()
    return whole


def error_frame(divisions: Sequence[tuple[int, tuple[str, str], int, int]]) -> pd.DataFrame:
    """One row per worker, cause and phase, as `Comparison.errors` says; times come in ps."""
    rows = [
        (worker, *key, predicted / 1e12, measured / 1e12, (measured - predicted) / 1e12)
        for worker, key, predicted, measured in divisions
    ]
    names = ["worker", "cause", "phase", "predicted_s", "measured_s", "error_s"]
    return pd.DataFrame(rows, columns=names)
