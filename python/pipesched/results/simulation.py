"""The timed schedule: its report and its timeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .. import _core
from ..costs.costs import Costs
from ..costs.division import pass_of, with_counts
from ..costs.stage_times import Place
from ..errors import PipeSchedError
from ..support.options import RawTiming
from ..viz.pictures import Pictures
from .report import Report, read_report

if TYPE_CHECKING:
    import pandas as pd

    from ..schedule.schedule import Schedule
    from ..viz.streams import Origin


@dataclass(frozen=True, eq=False)
class Simulation(Report, Pictures):
    """A report with its timeline."""

    _evaluation: _core.Evaluation = field(repr=False, compare=False)
    _origin: tuple[Origin, ...] = field(default=(), repr=False, compare=False)
    """The inputs of its cell times: one entry for a model without disturbance, else none."""

    def to_frame(self) -> pd.DataFrame:
        """The cells with their times: worker, index, stage, phase, microbatch, start_ps, end_ps,
        queue, pair, message; also slice if microbatches have slices. `index` counts the cells of a
        worker; after O and G, `microbatch` is the path. `queue` is where the cell runs, next to the
        cells of other queues; `pair` is the index of the cell that it overlaps with; `message` is
        the number of the first message that sends its result to another worker, as in
        `Schedule.program`. -1 means none.
        """
        from .frames import cell_frame

        return cell_frame(self._evaluation.cells(), has_slices=self.slices > 1)

    def __reduce__(self) -> tuple[object, ...]:
        # The timeline cannot be pickled, so only the report is kept.
        return read_report, (Report, self.to_json())


def origin_of(
    costs: Costs | None, places: Sequence[Place], microbatches: int, disturbance: str
) -> tuple[Origin, ...]:
    """Returns the inputs of the cell times if they are sums of layer times; else an empty tuple."""
    if costs is None or costs.model is None or disturbance:
        return ()
    from ..viz.streams import Origin

    return (Origin(costs, tuple(places), microbatches),)


def _place(schedule: Schedule, costs: Costs) -> tuple[Schedule, Costs]:
    """The schedule with the layers of its stages, and the costs with times of stages."""
    if not costs._is_divided:
        return schedule, costs
    if schedule._facts["has_edges"] and costs.times_of != "stage":
        raise PipeSchedError(
            f"{schedule.name} has edges besides the chain of its path; give the times of stages"
        )
    places = schedule._places
    if not places and costs.times_of == "layer":
        raise PipeSchedError(
            f"times of layers need the paths of {schedule.name}, which has none; give the times"
            " of stages"
        )
    counts = costs._division.counts_on(places, schedule.microbatches, schedule.family)
    if counts is not None and schedule.kind == "schedule":
        schedule = schedule.transform(pass_of(counts))
        places = with_counts(places, counts)
    return schedule, costs._for(places)


def simulate(schedule: Schedule, costs: Costs | None, timing: RawTiming) -> Simulation:
    """Times a schedule with costs that are already read."""
    if costs is not None:
        schedule, costs = _place(schedule, costs)
    raw = None if costs is None else costs._raw
    evaluation = _core.evaluate(schedule._module, 0, raw, timing)
    places = schedule._places if costs is not None and costs.model is not None else ()
    origin = origin_of(costs, places, schedule.microbatches, timing[-1])
    return read_report(Simulation, evaluation.report(), _evaluation=evaluation, _origin=origin)
