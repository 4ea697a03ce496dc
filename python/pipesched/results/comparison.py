"""A measured step next to the predicted one, and the causes of the difference.

The time of each worker, from the start of the step to its end, is divided into causes, once as
measured and once as predicted:

    start        before its first cell
    compute      its cells, by phase
    messages     waits for messages, between its cells
    copies       waits for offloads and reloads, and copies that hold the worker
    all_reduces  waits for sums of gradients
    issue        all else between its cells: sending, receiving, the program around the cells. A
                 prediction has none
    end          after its last cell

Both divisions have no gaps, so the differences of the causes add up to the difference of the steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from ..costs.costs import Costs, SimulationOptions, read_simulation
from ..errors import PipeSchedError
from ..schedule.program import PHASES, Instruction, WorkerProgram
from ..support.options import Lane, SvgVariant, code_of, names_of
from ..viz.pictures import Pictures, Svg
from .measurement import NEVER, Measurement, Stamps, names_of_kind
from .simulation import Simulation, simulate

if TYPE_CHECKING:
    import pandas as pd

    from ..viz.pages import Html

CAUSES = ("start", "compute", "messages", "copies", "all_reduces", "issue", "end")
Key = tuple[str, str]
"""(cause, phase)."""
Division = dict[Key, int]
"""The time of one worker in ps, by cause and phase."""
_PS_PER_NS = 1000
_WAITS = {"recv": "messages", "all_reduce": "all_reduces", "offload": "copies", "reload": "copies"}


@dataclass(frozen=True, eq=False)
class Comparison:
    """A measured step next to its prediction."""

    measurement: Measurement
    step: int
    """The index of the measured step with the median time."""
    prediction: Simulation = field(repr=False)

    @property
    def predicted_s(self) -> float:
        return self.prediction.execution.makespan_ps / 1e12

    @property
    def measured_s(self) -> float:
        return self.measurement.step_times_s[self.step]

    @property
    def error(self) -> float:
        """How much longer the step took than predicted, as a fraction of the prediction."""
        return self.measured_s / self.predicted_s - 1

    @cached_property
    def _divisions(self) -> list[tuple[int, Key, int, int]]:
        """(worker, key, predicted, measured) of all causes, in ps."""
        rows = []
        for worker, program in enumerate(self.measurement.programs):
            predicted = _divide_predicted(self.prediction, program)
            measured = _divide_measured(self.measurement, worker, self.step)
            keys = sorted(predicted.keys() | measured.keys(), key=_order)
            rows += [(worker, k, predicted.get(k, 0), measured.get(k, 0)) for k in keys]
        return rows

    @property
    def errors(self) -> pd.DataFrame:
        """One row per worker, cause and phase: worker, cause, phase, predicted_s, measured_s,
        error_s. The phase is the cell's, for a wait the phase of the cell that waited (`F+B` for an
        overlapped pair), and empty for start, issue and end. The errors of a worker add up to the
        difference of measured and predicted step.
        """
        from .frames import error_frame

        return error_frame(self._divisions)

    def text(self, width: int | None = None) -> str:
        """The steps and a table of errors by cause, phase and worker, in parts no wider than
        `width`.
        """
        return "\n".join(_lines(self, width))

    @cached_property
    def _measured_evaluation(self) -> _core.Evaluation:
        return _evaluate(self)

    @property
    def timelines(self) -> tuple[Pictures, Pictures]:
        """The predicted and the measured step, to draw each of them by itself."""
        return self.prediction, _Measured(self._measured_evaluation)

    def to_html(self, title: str | None = None) -> Html:
        """A page on which both steps are zoomed together, on one scale."""
        from ..viz.pages import page

        return page(self.timelines, title=title)

    def to_svg(self, variant: SvgVariant = "rows") -> Svg:
        """Draws both steps on one scale, by worker or with `timed` one picture above the other."""
        pictures = [self.prediction._evaluation, self._measured_evaluation]
        return Svg(_core.svg(pictures, code_of(SvgVariant, "variant", variant)))

    def to_chrome_trace(self) -> str:
        """Both steps for Perfetto and chrome://tracing, with a process for each worker."""
        return _core.chrome_trace([self.prediction._evaluation, self._measured_evaluation])

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __str__(self) -> str:
        return self.text()


def compare(
    measurement: Measurement, costs: Costs | None, options: SimulationOptions
) -> Comparison:
    """See `Measurement.compare`."""
    given: SimulationOptions = {"transport": "delay", **options}
    if measurement.receives is not None:
        placed = given.setdefault("receive_placement", measurement.receives)
        if placed != measurement.receives:
            raise PipeSchedError(
                f"receive_placement={placed!r}, but the run had its receives at "
                f"{measurement.receives}"
            )
    has_costs = costs is not None or bool(given.keys() & _COST_NAMES)
    if not has_costs:
        given["times"] = measurement.profile()
    prediction = simulate(measurement.schedule, *read_simulation(costs, given))
    return Comparison(measurement, measurement.median_step, prediction)


# The division of a worker's time


class _Divider:
    """Adds up spans that follow each other."""

    def __init__(self, begin: int) -> None:
        self.spans: Division = defaultdict(int)
        self._at = begin

    def until(self, end: int, cause: str, phase: str = "") -> None:
        """Assigns the time up to `end` to a cause; assigns none if `end` has passed."""
        if end > self._at:
            self.spans[cause, phase] += end - self._at
            self._at = end


def _phase(instruction: Instruction) -> str:
    return "+".join(cell.phase for cell in instruction.cells)


def _find_awaited(program: WorkerProgram, index: int) -> Iterator[Instruction]:
    """Returns the predecessors of an instruction, also the ones that it waits for through joins."""
    for other in (program[i] for i in program[index].waits):
        if other.kind == "wait":
            yield from _find_awaited(program, other.index)
        elif other.kind in _WAITS:
            yield other


def _divide_measured(measurement: Measurement, worker: int, step: int) -> Division:
    """Divides the measured time of a worker by cause."""
    program, stamps = measurement.programs[worker], measurement.stamps[worker]
    begin, end = measurement.spans_ns[step]
    divider = _Divider(begin)
    in_time = sorted(program, key=lambda each: (int(stamps.ready[step, each.index]), each.index))
    computes = [each.index for each in in_time if each.kind == "compute"]
    for instruction in in_time:
        index = instruction.index
        if not computes or not _is_between(instruction, computes, stamps, step):
            continue
        ready, start, finish = (
            int(column[step, index]) for column in (stamps.ready, stamps.start, stamps.end)
        )
        if index == computes[0]:
            divider.until(start, "start")
        divider.until(ready, "issue")
        _divide_wait(divider, program, instruction, stamps, step)
        if instruction.kind == "compute":
            divider.until(finish, "compute", _phase(instruction))
        elif instruction.kind in ("offload", "reload"):
            divider.until(finish, "copies", _phase(instruction))
        else:
            divider.until(finish, "issue")
    divider.until(end, "end" if computes else "start")
    return {key: span * _PS_PER_NS for key, span in divider.spans.items()}


def _is_between(
    instruction: Instruction, computes: Sequence[int], stamps: Stamps, step: int
) -> bool:
    """Whether an instruction ran after the first compute began and before the last one ended."""
    at = int(stamps.ready[step, instruction.index])
    first, last = stamps.ready[step, computes[0]], stamps.end[step, computes[-1]]
    return bool(first <= at < last)


def _divide_wait(
    divider: _Divider, program: WorkerProgram, instruction: Instruction, stamps: Stamps, step: int
) -> None:
    """Divides the time from ready to start among the awaited instructions, in the order in which
    the worker saw them done. The wait after the arrival of a message is time to unpack it.
    """
    start = int(stamps.start[step, instruction.index])
    awaited = {other.index: other for other in _find_awaited(program, instruction.index)}
    for index in sorted(awaited, key=lambda index: int(stamps.done[step, index])):
        done, arrived = int(stamps.done[step, index]), int(stamps.arrived[step, index])
        if done == NEVER:
            continue
        cause = _WAITS[awaited[index].kind]
        seen = done if arrived == NEVER else min(arrived, done)
        divider.until(min(seen, start), cause, _phase(instruction))
        divider.until(min(done, start), "issue")
    divider.until(start, "issue")


class _Predicted:
    """The predicted cells of one worker, in the order of its program."""

    def __init__(self, prediction: Simulation, worker: int) -> None:
        columns = prediction._evaluation.cells()
        mine = columns["worker"] == worker
        queues = names_of(Lane)
        names = ("stage", "phase", "microbatch", "queue", "index", "pair", "start_ps", "end_ps")
        lists = [columns[name][mine].tolist() for name in names]
        self.computes: list[tuple[int, int]] = []
        """Start and end of each compute, in order."""
        self.ends: dict[tuple[int, str, int], int] = {}
        """Ends of copies and all-reduces."""
        for stage, phase, number, queue, index, pair, start, end in zip(*lists, strict=True):
            if queues[queue] != "compute":
                self.ends[stage, PHASES[phase], number] = end
            elif pair < 0 or pair > index:
                self.computes.append((start, end))

    def end_of(self, instruction: Instruction) -> int | None:
        """When a copy or an all-reduce ends."""
        cell = instruction.cell
        return self.ends.get((cell.stage, cell.phase, cell.microbatch))


def _divide_predicted(prediction: Simulation, program: WorkerProgram) -> Division:
    """Divides the predicted time of a worker by cause."""
    cells = _Predicted(prediction, program.worker)
    divider = _Divider(0)
    computes = [instruction for instruction in program if instruction.kind == "compute"]
    for number, (instruction, (start, end)) in enumerate(
        zip(computes, cells.computes, strict=True)
    ):
        cause, phase = "start", ""
        if number:
            cause, phase = _gap_cause(cells, program, instruction, start), _phase(instruction)
        divider.until(start, cause, phase)
        divider.until(end, "compute", _phase(instruction))
    divider.until(prediction.execution.makespan_ps, "end" if computes else "start")
    return divider.spans


def _gap_cause(
    cells: _Predicted, program: WorkerProgram, instruction: Instruction, start: int
) -> str:
    """Returns the cause of the gap before a cell: a copy or all-reduce that ends there, otherwise a
    message.
    """
    for other in _find_awaited(program, instruction.index):
        if other.kind != "recv" and cells.end_of(other) == start:
            return _WAITS[other.kind]
    return "messages"


# Text


def _order(key: Key) -> tuple[int, int, str]:
    cause, phase = key
    rank = PHASES.index(phase[:1]) if phase else -1
    return CAUSES.index(cause), rank, phase


def _ms(ps: float, sign: str = "") -> str:
    return format(ps / 1e9, f"{sign}.3f")


def _table(rows: Iterable[list[str]]) -> Iterator[str]:
    listed = list(rows)
    widths = [max(len(row[i]) for row in listed) for i in range(len(listed[0]))]
    for first, *rest in listed:
        others = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join([first.ljust(widths[0]), *others])


def _lines(comparison: Comparison, width: int | None) -> Iterator[str]:
    measurement = comparison.measurement
    times = sorted(measurement.step_times_s)
    yield (
        f"{measurement.schedule.name}: step {1e3 * comparison.measured_s:.3f} ms measured, "
        f"{1e3 * comparison.predicted_s:.3f} ms predicted, {100 * comparison.error:+.2f} %"
    )
    if measurement.steps > 1:
        yield (
            f"median of {measurement.steps} steps that took {1e3 * times[0]:.3f} to "
            f"{1e3 * times[-1]:.3f} ms"
        )
    if measurement.clock_error_s > 0:
        yield f"clocks of workers are aligned to {1e6 * measurement.clock_error_s:.0f} us or better"
    yield "measured - predicted, ms, by worker:"
    divisions = comparison._divisions
    keys = sorted({key for _, key, _, _ in divisions}, key=_order)
    workers = range(len(measurement.programs))
    errors = {(worker, key): got - wanted for worker, key, wanted, got in divisions}
    columns = [["cause", *(" ".join(filter(None, key)) for key in keys), "step"]]
    for w in workers:
        of_causes = [errors.get((w, key), 0) for key in keys]
        columns.append([str(w), *(_ms(each, "+") for each in (*of_causes, sum(of_causes)))])
    for part in _parts(columns, width):
        yield from _table([list(row) for row in zip(*part, strict=True)])


def _parts(columns: list[list[str]], width: int | None) -> Iterator[list[list[str]]]:
    """Splits a table into tables no wider than `width`, where possible; each repeats the first
    column.
    """
    first, *others = columns
    part = [first]
    for column in others:
        wide = sum(max(map(len, each)) + 2 for each in (*part, column)) - 2
        if width is not None and wide > width and len(part) > 1:
            yield part
            part = [first]
        part.append(column)
    yield part


# Pictures


@dataclass(frozen=True, eq=False)
class _Measured(Pictures):
    """The timeline of a measured step."""

    _evaluation: _core.Evaluation = field(repr=False)


def _evaluate(comparison: Comparison) -> _core.Evaluation:
    """An evaluation with the measured times of a step, on a graph whose messages hold no row."""
    measurement, step = comparison.measurement, comparison.step
    options: SimulationOptions = {"transport": "delay", "times": measurement.profile()}
    if measurement.receives is not None:
        options["receive_placement"] = measurement.receives
    graph = simulate(measurement.schedule, *read_simulation(None, options))
    begin, end = measurement.spans_ns[step]
    starts, ends = [], []
    for program, stamps in zip(measurement.programs, measurement.stamps, strict=True):
        is_receive = program.columns.kind == names_of_kind("recv")
        done = np.maximum(stamps.done[step], stamps.end[step])
        arrived = stamps.arrived[step]
        is_sum = program.columns.kind == names_of_kind("all_reduce")
        end_of = np.where(is_receive & (arrived != NEVER), arrived, stamps.end[step])
        end_of = np.where(is_sum | (is_receive & (arrived == NEVER)), done, end_of)
        starts.append(stamps.start[step])
        ends.append(end_of)
    limit = _PS_PER_NS * (end - begin)
    arrays = (_PS_PER_NS * (np.concatenate(each) - begin) for each in (starts, ends))
    start_ps, end_ps = (np.clip(each, 0, limit) for each in arrays)
    name = f"{measurement.schedule.name}, measured"
    return _core.measured(graph._evaluation, name, start_ps, end_ps, limit)


_COST_NAMES = frozenset(Costs.__dataclass_fields__)
