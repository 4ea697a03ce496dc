"""Compares schedules and simulates many of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Unpack

from . import _core
from ._costs import Costs, SimulationOptions, read_simulation
from ._options import (
    FamilyOptions,
    ForwardSends,
    OptimizerStep,
    Paths,
    ReceivePlacement,
    Runtime,
    Transport,
    code_of,
    integer,
    raw_options,
    raw_paths,
    raw_timing,
)
from ._report import read_report
from ._schedule import Schedule, Simulation, generate, simulate
from ._times_of import Place, places_of, places_of_family

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Configuration:
    """A schedule to generate and the costs and options to time it with.

    `disturbance` slows workers and stages down and lets times vary:
    `"worker3=1.3,stage5=1.2,jitter=5%,seed=7"` (docs/CostModel.md, "Slow workers and jitter").

    With an `optimizer_step` all times are those of a whole training step, which ends with optimizer
    steps. All-reduces of gradients come before these if there are other pipelines (by the costs, or
    by a time for `G`) or if paths place blocks more than once. With `overlapped` the all-reduces
    run beside the remaining compute, with `exposed` after it.

    >>> point = Configuration("chimera", workers=4, microbatches=8, options={"pairs": 2})
    >>> point.simulate().execution.makespan_ps
    24000000
    """

    family: str
    workers: int
    microbatches: int
    options: FamilyOptions = field(default_factory=FamilyOptions)
    paths: Paths | None = None
    costs: Costs | None = None
    transport: Transport = "overlap"
    receive_placement: ReceivePlacement = "arrival"
    forward_sends: ForwardSends = "async"
    runtime: Runtime = "table"
    optimizer_step: OptimizerStep = "none"
    disturbance: str = ""

    def generate(self, name: str = "schedule") -> Schedule:
        """The schedule, as IR, without an optimizer step."""
        return generate(
            self.family,
            workers=self.workers,
            microbatches=self.microbatches,
            name=name,
            paths=self.paths,
            **self.options,
        )

    def simulate(self) -> Simulation:
        """The full report, without any IR. The schedule has the name of its family."""
        evaluation = _core.evaluate_configuration(self._raw())
        return read_report(Simulation, evaluation.report(), _evaluation=evaluation)

    @property
    def places(self) -> tuple[Place, ...]:
        """The workers of the stages of each path; empty if the family has no placement."""
        if self.paths is not None:
            return places_of(self.paths)
        options = tuple(sorted((k, v) for k, v in self.options.items() if v is not None))
        return places_of_family(self.family, self.workers, options)

    @property
    def _costs(self) -> Costs | None:
        if self.costs is None or self.costs.times_of == "stage":
            return self.costs
        return self.costs._for(self.places)

    def _raw(self) -> _core.Configuration:
        return _core.Configuration(
            self.family,
            integer("workers", self.workers),
            integer("microbatches", self.microbatches),
            raw_options(self.options),
            raw_paths(self.paths),
            self._costs._raw if self._costs else None,
            raw_timing(
                {
                    "transport": self.transport,
                    "receive_placement": self.receive_placement,
                    "forward_sends": self.forward_sends,
                    "runtime": self.runtime,
                    "disturbance": self.disturbance,
                }
            ),
            code_of(OptimizerStep, "optimizer_step", self.optimizer_step),
        )


def simulate_batch(
    configurations: Iterable[Configuration],
    *,
    threads: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> pd.DataFrame:
    """Evaluates configurations on threads (default: one per core), without IR.

    Returns one row per configuration, in the given order; the number of threads does not change the
    result. A row has the configuration, the single numbers of the report (memory of the bottleneck
    worker, the maximum of peak activations), and `error`, which is None if there are numbers.
    `progress` is called from time to time with the number of finished configurations. An exception
    from `progress` or Ctrl-C ends the batch.

    >>> points = [Configuration("1f1b", 4, n) for n in (4, 8, 0)]
    >>> frame = simulate_batch(points)
    >>> frame[["microbatches", "makespan_ps", "idle_ratio"]]
       microbatches  makespan_ps  idle_ratio
    0             4     21000000    0.428571
    1             8     33000000    0.272727
    2             0         <NA>         NaN
    >>> frame.error[2]
    '0 microbatches: there must be 1 to 2147483647'
    """
    from ._frames import batch_frame

    points = list(configurations)
    raw = [point._raw() for point in points]
    count = 0 if threads is None else integer("threads", threads, 1, 2**16)
    columns, errors = _core.sweep(raw, count, progress)
    return batch_frame(points, columns, errors)


def _simulations(
    schedules: Iterable[Schedule | Simulation], costs: Costs | None, options: SimulationOptions
) -> list[Simulation]:
    costs, timing = read_simulation(costs, options)
    return [
        schedule if isinstance(schedule, Simulation) else simulate(schedule, costs, timing)
        for schedule in schedules
    ]


def compare(
    schedules: Iterable[Schedule | Simulation],
    costs: Costs | None = None,
    **options: Unpack[SimulationOptions],
) -> pd.DataFrame:
    """Compares schedules: one row each, with the single numbers of their reports. A schedule that
    is not simulated yet is simulated as by `Schedule.simulate`.

    >>> families = ("gpipe", "1f1b", "zb-h1")
    >>> made = [generate(f, workers=4, microbatches=8, name=f) for f in families]
    >>> compare(made)[["table_bubble_ratio", "makespan_ps", "peak_activations"]]
           table_bubble_ratio  makespan_ps  peak_activations
    gpipe            0.272727     33000000                 8
    1f1b             0.272727     33000000                 4
    zb-h1            0.111111     27000000                 4
    """
    from ._frames import comparison_frame

    return comparison_frame(_simulations(schedules, costs, options))


class Finding(NamedTuple):
    """One sentence about what stands out in a comparison, and what it is about: "work", "fastest",
    "cause", "equal-steps", "fit", "ranking", "tie" or "all-rankings".
    """

    kind: str
    text: str


def findings(simulations: Iterable[Simulation]) -> list[Finding]:
    """What `explain` lists: first whether the steps do different amounts of work, then what it has
    below its tables.
    """
    compared = list(simulations)
    found = _core.findings([s._evaluation for s in compared])
    return [*_work(compared), *(Finding(*each) for each in found)]


UNLIKE = 1.25
"""The ratio of the compute time of two schedules with different numbers of stages per worker from
which on these stages are not parts of one model.
"""


def _work(simulations: Sequence[Simulation]) -> list[Finding]:
    """Says if times are those of one stage although the numbers of stages per worker differ."""
    if len({s.stages / s.workers for s in simulations}) < 2:
        return []

    def work(simulation: Simulation) -> float:
        return float(simulation.execution.busy_ps.sum()) / simulation.microbatches

    least, most = min(simulations, key=work), max(simulations, key=work)
    if work(most) < UNLIKE * work(least):
        return []
    times = f"{work(most) / work(least):.2f}" if work(least) else "any number of"
    stages = [f"{s.stages / s.workers:g} in {s.schedule}" for s in (most, least)]
    text = (
        f"work differs: a microbatch of {most.schedule} computes {times} times as long as one of"
        f" {least.schedule}; stages per worker are {' and '.join(stages)}, and times may be those"
        ' of one stage (times_of="worker" divides them)'
    )
    return [Finding("work", text)]


def explain(
    schedules: Iterable[Schedule | Simulation],
    costs: Costs | None = None,
    **options: Unpack[SimulationOptions],
) -> str:
    """The same comparison as text for people. It says first if the steps do different amounts of
    work, and ends with findings: which schedule is fastest, where idle
    time goes, which schedules fit, and where formula, table and time rank them differently.
    """
    simulations = _simulations(schedules, costs, options)
    work = "".join(f"{finding.text}\n\n" for finding in _work(simulations))
    return work + _core.comparison([s._evaluation for s in simulations])
