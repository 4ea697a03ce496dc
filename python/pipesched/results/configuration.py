"""Configurations: schedules to generate, with the costs and options to time them with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

from .. import _core
from ..costs.costs import Costs
from ..costs.division import Counts, paths_with, with_counts
from ..costs.stage_times import Place, places_of, places_of_family
from ..errors import PipeSchedError, WrongType
from ..schedule.generation import generate
from ..schedule.program import COSTED_PHASES
from ..schedule.registry import key_of, own_family
from ..schedule.schedule import Schedule
from ..support.options import (
    FamilyOptions,
    ForwardSends,
    OptimizerStep,
    Paths,
    ReceivePlacement,
    Runtime,
    TimingOptions,
    Transport,
    code_of,
    integer,
    raw_options,
    raw_paths,
    raw_timing,
    text_of,
)
from .report import read_report
from .simulation import Simulation, origin_of

UNIT = 200
"""The default time of B in `vocab-1f1b`, in percent of F: B takes two unit slots."""

MOST_BACKWARD, MOST_AT_ARRIVAL = 10000, 199
"""The largest time of B for which `vocab-1f1b` has an order, in percent of F; the second number is
for receives at arrival.
"""


@cache
def takes_backward(family: str) -> bool:
    """Whether a family that ships has the option."""
    shipped = ((name, options) for name, *_, options in _core.families())
    return any("backward" in options for name, options in shipped if key_of(name) == key_of(family))


def usual_ending(family: str, given: Mapping[str, Any]) -> OptimizerStep:
    """Returns the default end of the step in verbs. If several pipelines reduce gradients, and a
    model and a system give all times, it is the end that frameworks have; otherwise there is none.
    """
    is_computed = given.get("model") and given.get("system") and not given.get("times")
    reduces = (given.get("data_parallel") or 1) > 1 and own_family(family) is None
    return "overlapped" if is_computed and reduces else "none"


def _backward_of(step: _core.Evaluation) -> int | None:
    """Returns the time of B in percent of F, as the median over workers; None if an F takes no
    time.
    """
    import numpy as np

    cells = step.cells()
    names, took = np.array(COSTED_PHASES)[cells["phase"]], cells["end_ps"] - cells["start_ps"]
    forward, backward = (
        took[names == phase][np.argsort(cells["worker"][names == phase])] for phase in "FB"
    )
    if not forward.all():
        return None
    return int(np.clip(round(100 * float(np.median(backward / forward))), 1, MOST_BACKWARD))


@dataclass(frozen=True)
class Configuration:
    """A schedule to generate and the costs and options to time it with.

    `disturbance` slows workers and stages down and lets times vary:
    `"worker3=1.3,stage5=1.2,jitter=5%,seed=7"` (docs/CostModel.md, "Slow workers and jitter").

    With an `optimizer_step` all times are of a whole training step, which ends with optimizer
    steps. All-reduces of gradients come before these if there are other pipelines (by the costs, or
    by a time for `G`) or if paths place blocks more than once. With `overlapped` the all-reduces
    run alongside the compute, layer by layer for a model on a system, with `exposed` after it
    (docs/CostModel.md, "Under the backward and the forward").

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

    def __post_init__(self) -> None:
        if not isinstance(self.options, Mapping):
            raise WrongType(f"options is a mapping such as {{'chunks': 2}}; got {self.options!r}")
        if self.costs is not None and not isinstance(self.costs, Costs):
            wanted = "costs is a pipesched.Costs, such as Costs(times='F=1ms,B=2ms')"
            raise WrongType(f"{wanted}; got {self.costs!r}")

    def generate(self, name: str = "schedule") -> Schedule:
        """The schedule, as IR, without an optimizer step."""
        return generate(
            self.family,
            workers=self.workers,
            microbatches=self.microbatches,
            name=name,
            paths=self._paths,
            **self.made_options,
        )

    def simulate(self) -> Simulation:
        """The full report. No IR is made, unless the family is a Python function."""
        if self._is_own:
            schedule = self._with_step(self.generate(self.family))
            return schedule.simulate(self.costs, **self._timing)
        evaluation = _core.evaluate_configuration(self._raw())
        places = self.places if self.costs is not None and self.costs.model is not None else ()
        origin = origin_of(self.costs, places, self.microbatches, self.disturbance)
        return read_report(Simulation, evaluation.report(), _evaluation=evaluation, _origin=origin)

    @cached_property
    def made_options(self) -> FamilyOptions:
        """Returns the options, with the time of B from the costs if the order of the family depends
        on it. With receives at arrival B is at most two F, since messages would overtake each other
        otherwise.
        """
        if self.costs is None or self.options.get("backward") or not takes_backward(self.family):
            return self.options
        probe = Configuration("gpipe", self.workers, 1, paths=self._paths, costs=self.costs)
        try:
            percent = _backward_of(_core.evaluate_configuration(probe._raw()))
        except PipeSchedError:
            return self.options  # the schedule itself reports the error
        if percent is None:
            return self.options
        if self.receive_placement == "arrival":
            percent = min(percent, MOST_AT_ARRIVAL)
        return {**self.options, "backward": percent}

    @property
    def _is_own(self) -> bool:
        return own_family(text_of("family", self.family)) is not None

    @property
    def _own_bubble_ratio(self) -> float | None:
        """Returns the bubble ratio by the formula of a family that is a Python function, without
        the end of a step.
        """
        own = own_family(self.family)
        if own is None or self.optimizer_step != "none":
            return None
        return own.bubble_ratio(self.workers, self.microbatches, self.options)

    def _with_step(self, schedule: Schedule) -> Schedule:
        """Returns the schedule with the end of a training step, for a family that is a Python
        function.
        """
        code_of(OptimizerStep, "optimizer_step", self.optimizer_step)
        if self.optimizer_step == "none":
            return schedule
        peers = self.costs.data_parallel if self.costs else 1
        if peers > 1 or (self.costs is not None and "G" in self.costs._timed_names):
            raise PipeSchedError(
                f"family {self.family!r} is one's own: optimizer_step does not know where its "
                "all-reduces with other pipelines go; let its function return a schedule with G "
                "and O cells (pipe-attach-system and pipe-add-optimizer add them)"
            )
        place = "eager" if self.optimizer_step == "overlapped" else "end"
        return schedule.transform(f"pipe-add-optimizer{{all-reduce={place}}}")

    @property
    def places(self) -> tuple[Place, ...]:
        """The workers of the stages of each path, with the layers of the stages if they are uneven;
        empty if the family has no placement.
        """
        return with_counts(self._own_places, self._counts)

    @cached_property
    def _counts(self) -> tuple[Counts, ...] | None:
        """The layers of the stages of each path, if the costs divide them unevenly."""
        if self.costs is None or not self.costs._division.layers:
            return None
        division = self.costs._division
        return division.counts_on(self._own_places, self.microbatches, self.family)

    @property
    def _paths(self) -> Paths | None:
        """The paths, with the layers of their stages if the costs divide them unevenly."""
        if self.costs is None or self._is_own:
            return self.paths
        counts = self._counts
        return self.paths if counts is None else paths_with(self.paths, self._own_places, counts)

    @cached_property
    def _own_places(self) -> tuple[Place, ...]:
        if self.paths is not None:
            return places_of(self.paths)
        if self._is_own:
            return places_of(self.generate().paths)  # which does not ask for places
        options = tuple(sorted((k, v) for k, v in self.options.items() if v is not None))
        return places_of_family(self.family, self.workers, options)

    @property
    def _costs(self) -> Costs | None:
        if self.costs is None or not self.costs._has_times_to_divide:
            return self.costs
        return self.costs._for(self.places)

    @property
    def _timing(self) -> TimingOptions:
        return {
            "transport": self.transport,
            "receive_placement": self.receive_placement,
            "forward_sends": self.forward_sends,
            "runtime": self.runtime,
            "disturbance": self.disturbance,
        }

    def _raw(self) -> _core.Configuration:
        return _core.Configuration(
            self.family,
            integer("workers", self.workers),
            integer("microbatches", self.microbatches),
            raw_options(self.made_options),
            raw_paths(self._paths),
            costs._raw if (costs := self._costs) else None,
            raw_timing(self._timing),
            code_of(OptimizerStep, "optimizer_step", self.optimizer_step),
        )


def head_in_layers(costs: Costs) -> float | None:
    """Returns the number of layers that take as long as the head; None if the model has too few."""
    layers = costs._division.layers
    if layers < 3:
        return None
    try:
        alone = Configuration("gpipe", layers, 1, costs=replace(costs, balance="exact"))
        busy = alone.simulate().execution.cells_ps
    except PipeSchedError:
        return None
    layer = sorted(float(each) for each in busy[1:-1])[(layers - 2) // 2]
    return (float(busy[-1]) - layer) / layer if layer else None
