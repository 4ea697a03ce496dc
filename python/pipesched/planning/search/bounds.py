"""Lower bounds on the step and on the memory of configurations, from the costs of single layers.

A step of at most T holds, on average over its time, what its activations take multiplied by how
long they are held, divided by T (Little's law). The activations of a layer are held from the end of
its forward to the begin of its backward, and thus through the forwards and the backwards of all
layers behind it. No worker's peak is below its average, so that a step that others have to beat
bounds their memory too.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import _core
from ...costs.costs import Costs
from ...costs.division import SPREAD
from ...errors import PipeSchedError
from ...results.configuration import Configuration
from ...schedule.generation import generate
from ...schedule.program import COSTED_PHASES
from ...support.options import FamilyOptions, Path
from ..candidate import Candidate, Shape

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[np.float64]

PARTS = ("weight", "gradient", "optimizer")
"""What is held for parameters."""

CLOSE = 1 - 1e-6
"""Times and bytes of stages are rounded otherwise than the sums of their layers."""


@cache
def splits_backward(family: str, options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a family has separate cells for weight gradients, which need not follow at once."""
    try:
        made = generate(family, workers=2, microbatches=4, **dict(options))
    except PipeSchedError:
        return True
    return re.search(r"\dI\d", made.to_text()) is not None


@cache
def alone(family: str, workers: int) -> int:
    """How many of the forwards of a stage, and how many of its backwards, run in no pair at least,
    however many microbatches there are.
    """
    count = 2 * workers
    try:
        rows = generate(family, workers=workers, microbatches=count).rows
    except PipeSchedError:
        return 0
    pairs = (cell for row in rows for entry in row if "+" in entry for cell in entry.split("+"))
    paired = Counter(re.sub(r"\d+$", "", cell) for cell in pairs)
    return count - max(paired.values(), default=0)


def exchanged_ps(costs: Costs, layers: int) -> float:
    """The time of what the experts of all layers exchange for a microbatch."""
    return float(np.sum(_run(costs, [layers], 1).execution.get("all_to_all_ps", 0.0)))


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


@dataclass(frozen=True)
class Placed:
    """Sums over the layers of each worker on a placement, for one microbatch of each path."""

    layers: Array
    ready_ps: Array
    """When a worker can begin, from the begin of the step."""
    work_ps: Array
    tail_ps: Array
    """What follows the last backward of a worker."""
    stash_bytes: Array
    held: tuple[Array, ...]
    bytes: Array
    paths: int
    shape: Shape
    _found: dict[tuple[bool, bool, bool, float], Bounds] = field(default_factory=dict)

    def bounds(self, candidate: Candidate, limit_ps: float) -> Bounds:
        """Bounds for all that take at most `limit_ps`. Most schedules have those of others."""
        is_split = splits_backward(candidate.schedule, candidate.options)
        is_spread = candidate.schedule in SPREAD
        key = is_split, is_spread, candidate.slices > 1, limit_ps
        if key not in self._found:
            self._found[key] = self._find(*key)
        return self._found[key]

    def work(self, candidate: Candidate, factors: Array) -> float:
        """The work of the busiest worker in a step if cells take these factors of their time."""
        each = candidate.shape.microbatches / self.paths
        part = 0.5 if candidate.slices > 1 else 1.0  # as below
        return CLOSE * part * each * float((self.work_ps * factors).max())

    def _find(self, is_split: bool, is_spread: bool, is_sliced: bool, limit_ps: float) -> Bounds:
        shape = self.shape
        each = shape.microbatches / self.paths
        step = each * self.work_ps
        held = each * self.held[is_split] / limit_ps
        if is_sliced:
            # Workers begin after a slice, and hold one for less time. Where scores are written,
            # slices leave out up to half of them.
            step, held = step / 2, np.zeros_like(held)
        else:
            # The last cell of a worker may be of a shard, behind which no gradient follows.
            step = step + self.ready_ps + (0 if is_split or is_spread else self.tail_ps)
        # Microbatches of different paths need not be on a worker at the same time.
        held = np.maximum(held, self.stash_bytes) if self.paths == 1 else held
        least = CLOSE * float((self.bytes + held).max())
        return Bounds(CLOSE * float(step.max()), int(least / shape.worker))


def placed(candidate: Candidate, layers: Layers, bytes_of: Array) -> Placed:
    """The sums for the paths of a candidate, with the layers of its stages. A head in shards, each
    of which takes no less than its part, is spread over the workers, and what the first layer holds
    and takes is not counted: the embedding in it is spread too.
    """
    workers, is_spread = candidate.shape.pipeline, candidate.schedule in SPREAD
    work, forward = layers.work, layers.forward
    if is_spread:
        counted = (np.maximum(0.0, sums - sums[1]) for sums in (bytes_of, work, forward))
        bytes_of, work, forward = counted

    def of_workers(sums: Array) -> Array:
        found = np.zeros(workers)
        for path, ends in stages:
            at = sums[ends]
            found += np.bincount(path, weights=at[1:] - at[:-1], minlength=workers)
        return found + (sums[-1] - sums[-2]) / workers if is_spread else found

    # The head is behind the layers of the last stage, which may have none.
    head = 0 if is_spread else 1
    stages = [
        (np.array(path), np.cumsum([0, *counts[:-1], counts[-1] + head]))
        for path, counts in zip(candidate.paths, candidate.layers, strict=True)
    ]
    first = np.full(workers, len(work) - 1)
    for path, ends in stages:
        np.minimum.at(first, path, ends[:-1])
    return Placed(
        layers=of_workers(np.arange(len(work), dtype=float)),
        ready_ps=forward[first],
        work_ps=of_workers(work),
        tail_ps=(work - forward)[first],
        stash_bytes=of_workers(layers.stash),
        held=tuple(map(of_workers, layers.headless if is_spread else layers.held)),
        bytes=of_workers(bytes_of),
        paths=len(stages),
        shape=candidate.shape,
    )


def of_worker(candidate: Candidate, sums: Array, worker: int) -> float:
    """The sum over the layers of a worker, and at least over those of its shards."""
    found = 0.0
    if candidate.schedule in SPREAD:
        found = float(sums[1] + sums[-1] - sums[-2]) / candidate.shape.pipeline
    for path, counts in zip(candidate.paths, candidate.layers, strict=True):
        ends = np.cumsum([0, *counts[:-1], counts[-1] + 1])
        found += float(np.diff(sums[ends])[np.array(path) == worker].sum())
    return found
