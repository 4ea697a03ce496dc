"""The timed schedule: its report, its timeline and its pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import _core
from ._options import SvgVariant, code_of
from ._report import Report, read_report

if TYPE_CHECKING:
    import pandas as pd

MOST_CELLS = 20_000
"""Notebooks do not draw schedules with more cells; `to_svg` does."""


class Svg(str):
    """The text of an SVG picture, which notebooks draw."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


@dataclass(frozen=True, eq=False)
class Simulation(Report):
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

    def to_chrome_trace(self) -> str:
        """The timeline for Perfetto and chrome://tracing."""
        return _core.chrome_trace([self._evaluation])

    def to_svg(self, variant: SvgVariant = "timed") -> Svg:
        """The timeline, or the table in its slots, as papers draw it."""
        return draw(self, variant=variant)

    def _repr_svg_(self) -> str | None:
        return self.to_svg() if self._evaluation.num_cells <= MOST_CELLS else None

    def __reduce__(self) -> tuple[object, ...]:
        # The timeline cannot be pickled, so only the report is kept.
        return read_report, (Report, self.to_json())


def simulate(
    module: _core.Module, costs: _core.Costs | None, timing: tuple[int, int, int, int]
) -> Simulation:
    """Times the one schedule of a module with costs that are already read."""
    evaluation = _core.evaluate(module, 0, costs, timing)
    return read_report(Simulation, evaluation.report(), _evaluation=evaluation)


def draw(*simulations: Simulation, variant: SvgVariant = "timed") -> Svg:
    """Draws timelines, or tables in their slots, on one scale, so that lengths can be compared."""
    for given in simulations:
        if not isinstance(given, Simulation):
            wanted = "draw takes simulations, one argument each, such as draw(a.simulate())"
            raise TypeError(f"{wanted}; got {given!r}")
    evaluations = [simulation._evaluation for simulation in simulations]
    return Svg(_core.svg(evaluations, code_of(SvgVariant, "variant", variant)))
