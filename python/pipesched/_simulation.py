"""The timed schedule: its report and its timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import _core
from ._pictures import Pictures
from ._report import Report, read_report

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Simulation(Report, Pictures):
    """A report with its timeline."""

    _evaluation: _core.Evaluation = field(repr=False, compare=False)

    def to_frame(self) -> pd.DataFrame:
        """The cells with their times: worker, index, stage, phase, microbatch, start_ps, end_ps,
        queue, pair, message. `index` counts the cells of a worker; after O and G, `microbatch` is
        the path. `queue` is where the cell runs, beside the cells of other queues; `pair` is the
        index of the cell that it overlaps with; `message` is the number of the message that sends
        its result to another worker, as in `Schedule.program`. -1 stands for none.
        """
        from ._frames import cell_frame

        return cell_frame(self._evaluation.cells())

    def __reduce__(self) -> tuple[object, ...]:
        # The timeline cannot be pickled, so only the report is kept.
        return read_report, (Report, self.to_json())


def simulate(
    module: _core.Module, costs: _core.Costs | None, timing: tuple[int, int, int, int]
) -> Simulation:
    """Times the one schedule of a module with costs that are already read."""
    evaluation = _core.evaluate(module, 0, costs, timing)
    return read_report(Simulation, evaluation.report(), _evaluation=evaluation)
