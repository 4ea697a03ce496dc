"""Lower bounds on the step and on the memory of configurations, from the costs of single layers.

A step of at most T holds, on average over its time, what its activations take multiplied by how
long they are held, divided by T (Little's law). The activations of a layer are held from the end of
its forward to the begin of its backward, and thus through the forwards and the backwards of all
layers behind it. No worker's peak is below its average, so that a step that others have to beat
bounds their memory too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from ...costs.costs import Costs
from ...results.configuration import Configuration
from ...schedule.program import COSTED_PHASES
from ...support.options import FamilyOptions, Path

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

PARTS = ("weight", "gradient", "optimizer")
"""What is held for parameters."""

CLOSE = 1 - 1e-6
"""Times and bytes of stages are rounded otherwise than the sums of their layers."""


def exchanged_part(costs: Costs, layers: int) -> float:
    """What the experts of all layers exchange, as a part of the time of a microbatch."""
    execution = _run(costs, [layers], 1).execution
    return float(np.sum(execution.get("all_to_all_ps", 0.0)) / execution["makespan_ps"])


def shown_ps(costs: Costs, layers: int) -> float:
    """The part of it that cells show when they run alone."""
    return float(np.sum(_run(costs, [layers], 1).execution.get("exposed_all_to_all_ps", 0.0)))


class Step:
    """A step whose report is read no further than it is needed, since steps are many."""

    def __init__(self, configuration: Configuration) -> None:
        self.workers, self.microbatches = configuration.workers, configuration.microbatches
        self._evaluation = _core.evaluate_configuration(configuration._raw())

    @cached_property
    def _report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._evaluation.report())
        return found

    @property
    def execution(self) -> dict[str, Any]:
        """Times, by the keys of a report."""
        found: dict[str, Any] = self._report["execution"]
        return found

    def memory(self, *keys: str) -> Array | None:
        """Bytes of each worker, by the keys of a report; None without a model."""
        found: Any = self._report.get("memory")
        if found is None:
            return None
        for key in keys:
            found = found[key]
        return np.asarray(found, dtype=float)

    def cells(self) -> dict[str, Any]:
        """All cells with their times."""
        found: dict[str, Any] = self._evaluation.cells()
        return found


def _run(costs: Costs, stages: Sequence[int], count: int, is_split: bool = False) -> Step:
    """A step of `count` microbatches with a worker for each of some stages."""
    workers = range(len(stages))
    configuration = Configuration(
        "greedy" if is_split else "gpipe",
        len(stages),
        count,
        FamilyOptions(split_backward=True) if is_split else FamilyOptions(),
        paths=[Path(tuple(workers), blocks=tuple(stages))],
        costs=costs,
        transport="delay",
    )
    return Step(configuration)


def _times(run: Step, phases: str) -> Array:
    """The durations of a microbatch's cells of some phases by worker."""
    cells = run.cells()
    names = np.array(COSTED_PHASES)[cells["phase"]]
    took = (cells["end_ps"] - cells["start_ps"]) * np.isin(names, list(phases))
    return np.bincount(cells["worker"], weights=took, minlength=run.workers) / run.microbatches


def _peaks(run: Step) -> Array:
    peaks = run.memory("peak_bytes")
    return np.zeros(run.workers) if peaks is None else peaks


def alike(costs: Costs, layers: int) -> tuple[int, ...]:
    """The lengths of runs of layers that cost the same, and 0 for the head. The first layer, which
    has the embedding, is a run of its own.
    """
    stages = [*[1] * layers, 0]
    run = _run(costs, stages, 1)
    found = run.memory("persistent_bytes")
    held = np.zeros(layers + 1) if found is None else found
    costs_of = zip(_times(run, "F"), _times(run, "B"), _peaks(run), held, strict=True)
    keys = [(min(layer, 1), *each) for layer, each in enumerate(costs_of)][:-1]
    return (*(len(list(same)) for _, same in groupby(keys)), 0)


def _of_layers(of_runs: Array, runs: Sequence[int]) -> Array:
    """The part of each layer, and that of the head."""
    lengths = np.maximum(runs, 1)
    return np.repeat(of_runs / lengths, lengths)


def _sums(of_layers: Array) -> Array:
    return np.concatenate([[0.0], np.cumsum(of_layers)])


class Layers:
    """What layers take for a microbatch, in sums up to each layer: time, and bytes of a worker."""

    def __init__(self, costs: Costs, runs: Sequence[int]) -> None:
        one, two = _run(costs, runs, 1), _run(costs, runs, 2)
        forward = _of_layers(_times(two, "F"), runs)
        work = forward + _of_layers(_times(two, "B"), runs)
        chain = forward
        if costs.times is None or "I" in costs._timed_names:
            chain = forward + _of_layers(_times(_run(costs, runs, 1, True), "I"), runs)
        stash = _of_layers(_peaks(two) - _peaks(one), runs)
        self.forward, self.work, self.stash = _sums(forward), _sums(work), _sums(stash)
        chains = work, np.minimum(chain, work)
        self.held = tuple(_sums(stash * (each.sum() - np.cumsum(each))) for each in chains)
        """Bytes multiplied by the time for which they are held, with whole backwards and with
        split ones.
        """
        self.headless = tuple(
            _sums(stash * np.maximum(0.0, each[:-1].sum() - np.cumsum(each))) for each in chains
        )
        """The same with a head that takes no time: at least that of one in shards."""

    def add_to(self, core: _core.PlanSearch) -> int:
        """Tells the library the sums. Returns their number."""
        return core.add_layers(
            *(sums.tolist() for sums in (self.forward, self.work, self.stash)),
            *([each.tolist() for each in pair] for pair in (self.held, self.headless)),
        )


def at_most(costs: Costs, runs: Sequence[int]) -> Array:
    """What layers always hold at most, in sums up to each layer."""
    held = _run(costs, runs, 1).memory("persistent_bytes")
    return np.zeros(sum(runs) + 2) if held is None else _sums(_of_layers(held, runs))


def persistent(costs: Costs, runs: Sequence[int]) -> Array:
    """What layers always hold, in sums up to each layer: a row for each of weights, gradients and
    optimizer state. The costs shard nothing, since what sharding gathers for one layer at a time
    is held once for all layers of a worker.
    """
    run = _run(costs, runs, 1)
    held = [run.memory("composition", f"{part}_bytes") for part in PARTS]
    zeros = np.zeros(len(runs))
    return np.array([_sums(_of_layers(zeros if h is None else h, runs)) for h in held])


@dataclass(frozen=True)
class Bounds:
    """Lower bounds for all schedules of a candidate."""

    step_ps: float
    peak_bytes: int
    """Peak memory of one accelerator."""
