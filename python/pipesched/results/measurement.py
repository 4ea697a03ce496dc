"""Measured runs of a schedule: the times of every instruction."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt

from .. import _core
from ..costs.costs import Costs, SimulationOptions
from ..errors import PipeSchedError
from ..schedule.program import WorkerProgram
from ..schedule.schedule import Schedule
from ..support.files import read_json, write_whole
from ..support.options import ReceivePlacement, names_of, path_of, text_of

if TYPE_CHECKING:
    import pandas as pd

    from .comparison import Comparison

FORMAT = "pipesched-measurement"
VERSION = 1
NEVER = int(np.iinfo(np.int64).min)
"""The value of a time that is not known."""

Times = npt.NDArray[np.int64]
"""By step and instruction, in ns of a clock that all workers share."""


@dataclass(frozen=True, eq=False)
class Stamps:
    """When one worker ran its instructions; `NEVER` if that is not known."""

    ready: Times
    """When the worker reached an instruction."""
    start: Times
    """When everything that the instruction waits for was done."""
    end: Times
    """When the worker continued."""
    done: Times
    """For a receive, a copy or an all-reduce: when the worker saw that it was done."""
    arrived: Times
    """For a receive: when the message was there. For a copy that does not hold its row: its end."""


@dataclass(frozen=True)
class Clock:
    """The alignment of the clocks of workers. One process has one clock."""

    error_s: float
    """The largest possible difference between the clock of a worker and worker 0's after alignment.
    Times of two other workers differ by at most twice as much. NaN if it is not known.
    """
    offsets_s: tuple[float, ...]
    """By worker: its clock minus worker 0's, before alignment."""
    drifts_ppm: tuple[float, ...]
    """By worker: the rate of its clock above worker 0's, in millionths."""


@dataclass(frozen=True, eq=False)
class Measurement:
    """Times of some steps of a schedule. `pipesched.torch.Recording.gather` makes one, and so does
    `from_torch_traces` from traces of PyTorch's profiler and of Chakra.

    A step lasts from the earliest start of a compute to the latest end of any instruction.
    """

    schedule: Schedule
    receives: ReceivePlacement | None
    """The places of receives in the schedule, as in `Schedule.program`; None for a program, which
    has them itself.
    """
    numbers: tuple[int, ...]
    """The numbers of the steps, as the program that measured them counted."""
    stamps: tuple[Stamps, ...]
    """One entry for each worker."""
    clock: Clock
    source: str

    @staticmethod
    def from_torch_traces(
        schedule: Schedule, files: Iterable[str | os.PathLike[str]]
    ) -> Measurement:
        """Reads traces that PyTorch's profiler made of PyTorch's own pipeline runtime or of
        `pipesched.torch`: one file per rank, in any order, as `export_chrome_trace` writes it,
        plain or compressed by gzip. Reads traces of Chakra (`.et`) likewise. `schedule` is the
        schedule of the run. Waits for receives, which are part of the ranges of computes of
        PyTorch's runtime, are taken out of them. Each file holds the same whole steps.

        Clocks of one host count as one; clocks of others are aligned by messages in both
        directions. `clock_error_s` is the error that these messages prove.
        """
        from .torch_traces import from_torch_traces

        return from_torch_traces(schedule, files)

    # Contents

    @property
    def steps(self) -> int:
        return len(self.numbers)

    @property
    def clock_error_s(self) -> float:
        return self.clock.error_s

    @cached_property
    def programs(self) -> tuple[WorkerProgram, ...]:
        """The program of each worker."""
        workers = range(self.schedule.workers)
        return tuple(self.schedule.program(worker, receives=self.receives) for worker in workers)

    @cached_property
    def spans_ns(self) -> tuple[tuple[int, int], ...]:
        """The start and the end of each step, on the clock of the stamps."""
        compute = names_of_kind("compute")
        spans = []
        for step in range(self.steps):
            begins, ends = [], []
            for program, stamps in zip(self.programs, self.stamps, strict=True):
                is_compute = program.columns.kind == compute
                begins += stamps.start[step][is_compute].tolist()
                columns = (stamps.end, stamps.done, stamps.arrived)
                ends += [int(column[step].max()) for column in columns if column.shape[1]]
            spans.append((min(begins), max(ends)))
        return tuple(spans)

    @property
    def step_times_s(self) -> tuple[float, ...]:
        return tuple((end - begin) / 1e9 for begin, end in self.spans_ns)

    @property
    def median_step(self) -> int:
        """The position of the step with the median time, of two in the middle the shorter one."""
        times = self.step_times_s
        return sorted(range(self.steps), key=times.__getitem__)[(self.steps - 1) // 2]

    @property
    def step_s(self) -> float:
        """The median of the times of the steps: the time of `median_step`."""
        return self.step_times_s[self.median_step]

    def to_frame(self) -> pd.DataFrame:
        """One row per instruction and step: step (its number), worker, index, kind, cell, path,
        stage, phase, microbatch, peer, message, ready_s, start_s, end_s, done_s, arrived_s. Times
        count from the start of their step. `cell` names both cells of an overlapped pair, the other
        columns have the first. `arrived_s` is when the message arrived, at a receive and at its
        send; -1 and NaN mean missing or unknown values.
        """
        from .frames import measurement_frame

        return measurement_frame(self)

    # Uses

    def profile(self, *, issue: bool = False) -> str:
        """The mean times of this run over steps and microbatches, for `times=` and
        `pipe-attach-profile`: one time for each stage, or one for all stages if paths have
        different numbers of stages. The profile has the phases that the schedule ran, FB for
        overlapped pairs, and `comm`. `comm` is the time from the start of a send, or from the
        moment when its receive was posted if that is later, to the arrival: the median of the
        messages of a stage. All of it counts as latency, since a single size does not show the
        bandwidth. With `issue` the time of a cell includes the time until the worker starts the
        next cell, without waits, such as time for sending and receiving. `pipesched-run
        --write-profile` makes its profiles by the same rule.
        """
        columns = [
            tuple(np.ascontiguousarray(getattr(each, field.name)) for field in fields(Stamps))
            for each in self.stamps
        ]
        schedule = self.schedule
        program = schedule._lowered(self.receives)
        return _core.profile(program, schedule._placement, self.steps, columns, issue)

    def compare(
        self, costs: Costs | None = None, **options: Unpack[SimulationOptions]
    ) -> Comparison:
        """Predicts the step as `Schedule.simulate` does, and puts it alongside the step with the
        median time. Without costs the prediction is by the `profile` of this measurement.
        `transport` is `delay` if it is not given.
        """
        from .comparison import compare

        return compare(self, costs, options)

    # Files

    def to_json(self) -> str:
        """The measurement as one JSON object; docs/Measuring.md describes it."""
        workers = []
        for stamps in self.stamps:
            columns = {f.name: getattr(stamps, f.name) for f in fields(Stamps)}
            workers.append({name: _to_lists(times) for name, times in columns.items()})
        return json.dumps(
            {
                "format": FORMAT,
                "version": VERSION,
                "source": self.source,
                "schedule": self.schedule.to_text(),
                "receives": self.receives,
                "clock": {
                    "error_s": None if np.isnan(self.clock.error_s) else self.clock.error_s,
                    "offsets_s": self.clock.offsets_s,
                    "drifts_ppm": self.clock.drifts_ppm,
                },
                "steps": self.numbers,
                "workers_ns": workers,
            }
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        write_whole(path, self.to_json().encode())

    @staticmethod
    def from_json(text: str, *, filename: str = "<text>") -> Measurement:
        """Reads the output of `to_json`."""
        return _Reader(path_of("filename", filename)).read(text_of("text", text))

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> Measurement:
        """Reads the output of `save`."""
        file = path_of("path", path)
        text = Path(file).read_text(encoding="utf-8-sig", errors="replace")
        return Measurement.from_json(text, filename=file)

    def __repr__(self) -> str:
        return (
            f"<measurement of {self.schedule.name!r}: {self.steps} steps, "
            f"{1e3 * self.step_s:.3f} ms>"
        )


def names_of_kind(kind: str) -> int:
    """The code of a kind of instruction in the columns of a program."""
    return WorkerProgram.kinds.index(kind)


def _to_lists(times: Times) -> list[list[int | None]]:
    return [[None if at == NEVER else at for at in row] for row in times.tolist()]


class _Reader:
    """Reads a measurement, and names the place of a mistake."""

    def __init__(self, filename: str) -> None:
        self._filename = filename

    def _fail(self, place: str, wrong: str) -> PipeSchedError:
        return PipeSchedError(f"{self._filename}: {place}{': ' if place else ''}{wrong}")

    def _get(self, raw: Any, place: str, name: str, kind: type | tuple[type, ...]) -> Any:
        if name not in raw:
            raise self._fail(place, f"{name!r} is missing")
        value = raw[name]
        if not isinstance(value, kind) or isinstance(value, bool):
            kinds = kind if isinstance(kind, tuple) else (kind,)
            wanted = " or ".join(_JSON_NAMES[each] for each in kinds)
            where = f"{place}.{name}" if place else name
            raise self._fail(where, f"found {_shown(value)}, wanted {wanted}")
        return value

    def read(self, text: str) -> Measurement:
        try:
            raw = read_json(text)
        except ValueError as error:
            raise self._fail("", f"not JSON: {error}") from error
        if not isinstance(raw, Mapping) or raw.get("format") != FORMAT:
            found = _shown(raw.get("format")) if isinstance(raw, Mapping) else _shown(raw)
            hint = ""
            if isinstance(raw, Mapping) and "traceEvents" in raw:
                hint = "; traces of PyTorch's profiler are for Measurement.from_torch_traces"
            raise self._fail("format", f"found {found}, wanted {FORMAT!r}{hint}")
        version = self._get(raw, "", "version", int)
        if version != VERSION:
            raise self._fail(
                "version",
                f"found {version}, wanted {VERSION}: the file is of another version of pipesched",
            )
        schedule = self._schedule(self._get(raw, "", "schedule", str))
        receives = self._get(raw, "", "receives", (str, type(None)))
        if receives is not None and receives not in names_of(ReceivePlacement):
            wanted = " or ".join(names_of(ReceivePlacement))
            raise self._fail("receives", f"found {receives!r}, wanted {wanted}")
        if (receives is None) != (schedule.kind == "program"):
            wanted = "null for a program, arrival or consumer for a schedule"
            raise self._fail("receives", f"found {_shown(receives)}, wanted {wanted}")
        numbers = self._get(raw, "", "steps", list)
        if not numbers or not all(type(number) is int for number in numbers):
            raise self._fail("steps", f"found {_shown(numbers)}, wanted the numbers of steps")
        workers = self._get(raw, "", "workers_ns", list)
        measurement = Measurement(
            schedule,
            receives,
            tuple(numbers),
            tuple(self._stamps(each, number) for number, each in enumerate(workers)),
            self._clock(self._get(raw, "", "clock", dict), len(workers)),
            self._get(raw, "", "source", str),
        )
        self._check(measurement)
        return measurement

    def _schedule(self, text: str) -> Schedule:
        return Schedule.from_text(text, filename=f"{self._filename}: schedule")

    def _clock(self, raw: Any, workers: int) -> Clock:
        error = self._get(raw, "clock", "error_s", (int, float, type(None)))
        lists = []
        for name in ("offsets_s", "drifts_ppm"):
            values = self._get(raw, "clock", name, list)
            if len(values) != workers or not all(type(v) in (int, float) for v in values):
                wanted = f"a number for each of the {workers} workers"
                raise self._fail(f"clock.{name}", f"found {_shown(values)}, wanted {wanted}")
            lists.append(tuple(map(float, values)))
        return Clock(float("nan") if error is None else float(error), *lists)

    def _stamps(self, raw: Any, worker: int) -> Stamps:
        place = f"workers_ns[{worker}]"
        if not isinstance(raw, Mapping):
            raise self._fail(place, f"found {_shown(raw)}, wanted an object")
        columns = []
        for column in fields(Stamps):
            rows = self._get(raw, place, column.name, list)
            try:
                table = [[NEVER if at is None else int(at) for at in row] for row in rows]
                times = np.array(table, dtype=np.int64)
                if times.ndim != 2:
                    raise ValueError("steps have different numbers of times")
            except (TypeError, ValueError, OverflowError) as error:
                wanted = "a list of times in ns (integers or null) for each step"
                raise self._fail(f"{place}.{column.name}", f"{error}; wanted {wanted}") from error
            times.flags.writeable = False
            columns.append(times)
        return Stamps(*columns)

    def _check(self, measurement: Measurement) -> None:
        """Checks that sizes match the programs, and that no time decreases."""
        programs = measurement.programs
        if len(programs) != len(measurement.stamps):
            found, wanted = len(measurement.stamps), len(programs)
            raise self._fail("workers_ns", f"found {found} workers, the schedule has {wanted}")
        for worker, (program, stamps) in enumerate(zip(programs, measurement.stamps, strict=True)):
            wanted_shape = measurement.steps, len(program)
            for column in fields(Stamps):
                times = getattr(stamps, column.name)
                if times.shape != wanted_shape:
                    raise self._fail(
                        f"workers_ns[{worker}].{column.name}",
                        f"found {times.shape[0]} steps of {times.shape[1]} times, wanted "
                        f"{wanted_shape[0]} steps of {wanted_shape[1]} instructions",
                    )
            self._check_order(program, stamps, worker)

    def _check_order(self, program: WorkerProgram, stamps: Stamps, worker: int) -> None:
        for before, after in (("ready", "start"), ("start", "end")):
            first, second = getattr(stamps, before), getattr(stamps, after)
            wrong = np.argwhere((first > second) | (first == NEVER))
            if len(wrong):
                step, index = wrong[0].tolist()
                raise self._fail(
                    f"workers_ns[{worker}].{before}[{step}][{index}]",
                    f"{program[index]} has no {before}, or it is later than its {after}",
                )


_JSON_NAMES: dict[type, str] = {
    str: "a text",
    int: "an integer",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _shown(value: Any) -> str:
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else text[:57] + "..."
