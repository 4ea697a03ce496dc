"""Bounds for the shapes and the candidates of a space, and the order in which they are tried.

A base is everything that decides the time of a microbatch except its size (`_divisions.Base`).
Larger microbatches never take longer per sequence, so the largest size that may fit bounds all of a
base, and the activations of one grow in proportion to its size. Both are measured by probes: one or
two microbatches through all layers on one worker.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ... import _core
from ...errors import PipeSchedError
from ...schedule.families import overlaps
from ...schedule.megatron import NAME as COMBINED
from ...support.options import Sharding
from ..candidate import Candidate, Shape
from ..space.divisions import Base, Split, base_of
from ..space.schedules import alone
from ..space.space import Probe, Space
from .disturbances import Slow

BASES = 32
"""The number of bases whose sizes of microbatches are probed at once."""

SEEDS = 12
"""The number of shapes to try first."""


CLOSE = 1 - 1e-6
"""Times and bytes of stages are rounded otherwise than the sums of their layers."""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds for all schedules of a candidate."""

    step_ps: float
    peak_bytes: int
    """Peak memory of one accelerator."""


class Layers(NamedTuple):
    """The sums over the layers of a base, without additions of sharding."""

    number: int
    """Their numbers in the library."""
    held: float
    """Bytes multiplied by the time for which they are held, of all layers, with split backwards."""
    headless: float
    """The same with a head that takes no time: a lower bound for one in shards."""


WAITING = ("gradients", "full")
"""Kinds of sharding for whose messages cells wait."""

SHARDED: dict[Sharding, tuple[bool, bool, bool]] = {
    "none": (False, False, False),
    "optimizer": (False, False, True),
    "full-kept": (False, False, True),
    "gradients": (False, True, True),
    "full": (True, True, True),
}
"""Whether weights, gradients and optimizer state are divided among the replicas."""

Sized = tuple[Base, int]
"""A base, and the size of its microbatches."""


class Limits:
    """Lower bounds on time and memory of shapes and candidates."""

    def __init__(self, space: Space, slow: Slow | None = None, seeds: int = 1) -> None:
        self.space = space
        self.slow, self._seeds = slow, seeds
        self.usable = space.request.usable_bytes
        self.splits: dict[Base, list[Split]] = space.divisions.bases()
        self._times: dict[Sized, float | None] = {}
        """The time of a microbatch through all layers; None if a probe has an error."""
        self._stashes: dict[Base, float] = {}
        """The activations of a sequence, of a worker that has all layers."""
        self._savings: dict[Sized, tuple[int, float, float] | None] = {}
        self._firsts: dict[Base, Base] = {}
        self._holders: dict[Shape, Shape] = {}
        self._held: dict[Shape, float] = {}
        self._sharded: dict[Shape, float] = {}
        """The time of a microbatch through all layers where cells wait for sharded state."""
        self._layers: dict[Sized, Layers] = {}
        self._parameters: dict[Shape, int] = {}
        """The numbers of weights, gradients and optimizer states of layers."""
        self._known: set[Shape] = set()
        """The shapes whose rows the library knows."""
        self._prepared: set[Shape] = set()
        """Shapes for whose schedules it also knows bounds."""
        self._most: dict[Shape, int | None] = {}
        """The numbers of the most that layers always hold; None for shapes without costs."""
        self._least: dict[Shape, int] = {}
        """The numbers of the least that layers always hold."""
        self._factors: dict[Sized, list[float]] = {}
        self._works: dict[tuple[Sized, int], list[float]] = {}

    # Probes

    def _shape(self, base: Base, size: int) -> Shape:
        """A shape of one worker, for the costs of a base."""
        return base.shape(Split(1, self.splits[base][0].data), size)

    def _probe(self, shapes: Sequence[Shape]) -> list[Probe]:
        return self.space.probe(shapes, itertools.repeat(1, len(shapes))) if shapes else []

    def _probe_times(self, sized: Iterable[Sized]) -> None:
        new = [each for each in dict.fromkeys(sized) if each not in self._times]
        if not new:
            return
        rows = self._probe([self._shape(*each) for each in new])
        for each, row in zip(new, rows, strict=True):
            self._times[each] = None if row.error else float(row.makespan_ps)

    def _probe_stashes(self) -> None:
        """Stores the memory of each base for a sequence. Drops bases without costs."""
        least = {
            base: min(map(min, map(self.space.divisions.sizes, splits)), default=0)
            for base, splits in self._splits_with_sizes()
        }
        probed = [(self._shape(*each), count) for each in least.items() for count in (1, 2)]
        rows = iter(self.space.probe(*zip(*probed, strict=True)) if probed else ())
        errors = []
        for base, size in least.items():
            one, two = next(rows), next(rows)
            if one.error is not None:
                errors.append(one.error)
                continue
            self._times[base, size] = float(one.makespan_ps)
            self._stashes[base] = (two.peak_bytes - one.peak_bytes) / size
        if least and not self._stashes:
            raise PipeSchedError(errors[0])

    def _splits_with_sizes(self) -> Iterable[tuple[Base, list[Split]]]:
        for base, splits in self.splits.items():
            if kept := [split for split in splits if self.space.divisions.sizes(split)]:
                yield base, kept

    def time(self, base: Base, size: int) -> float:
        """The time of a microbatch through all layers."""
        return self._times.get((base, size)) or math.inf

    def _held_by(self, shapes: Iterable[Shape]) -> None:
        """Probes the permanent memory of shapes of one worker."""
        new = [shape for shape in dict.fromkeys(shapes) if shape not in self._held]
        for shape, row in zip(new, self._probe(new), strict=True):
            self._held[shape] = math.inf if row.error else float(row.persistent_bytes)

    def _holder(self, shape: Shape) -> Shape:
        """The shape that holds the same for any microbatches, workers and recomputation."""
        if shape not in self._holders:
            base = self._alike(base_of(shape))
            self._holders[shape] = base.shape(Split(1, shape.data), 1, 1, shape.sharding)
        return self._holders[shape]

    def _alike(self, base: Base) -> Base:
        """The first base that holds the same but recomputes and exchanges otherwise."""
        return self._firsts.setdefault(base._replace(recompute="none", exchange="ring"), base)

    # Layers

    @cached_property
    def _runs(self) -> list[int]:
        """The lengths of runs of layers that cost the same, and 0 for the head."""
        base, splits = next(iter(self._splits_with_sizes()))
        shape = self._shape(base, self.space.divisions.sizes(splits[0])[0])
        layers = self.space.request.sizes["layers"]
        costs = self.space.stage_costs(shape, [*[1] * layers, 0], has_host=False)
        return _core.find_runs(costs, layers)

    def layers(self, base: Base, size: int) -> Layers:
        """The layers of a base, without sharding."""
        if (base, size) not in self._layers:
            request, runs = self.space.request, self._runs
            costs = self.space.stage_costs(self._shape(base, size), runs, has_host=False)
            has_split = request.times is None or "I" in request.described._timed_names
            self._layers[base, size] = Layers(*self.space.core.add_layers(costs, runs, has_split))
        return self._layers[base, size]

    def _parameters_of(self, shape: Shape) -> int:
        if shape not in self._parameters:
            costs = self.space.stage_costs(shape, self._runs)
            self._parameters[shape] = self.space.core.add_parameters(costs, self._runs)
        return self._parameters[shape]

    def _work(self, base: Base, size: int, group: int = 0) -> list[float]:
        """The work of each layer and of the head, without the host, on a group of nodes."""
        key = (base, size), group
        if key not in self._works:
            shape, runs = self._shape(base, size), self._runs
            costs = self.space.stage_costs(shape, runs, has_host=False, group=group)
            self._works[key] = _core.work_of_layers(costs, runs)
        return self._works[key]

    def _group_factors(self, base: Base, size: int) -> list[float]:
        """For each group of nodes, the least time of each layer relative to the first group."""
        if (base, size) not in self._factors:
            own = self._work(base, size)
            others = range(1, len(self.space.request.groups))
            works = (zip(self._work(base, size, group), own, strict=True) for group in others)
            least = (min(ps / first for ps, first in work if first > 0) for work in works)
            self._factors[base, size] = [1.0, *least]
        return self._factors[base, size]

    def _factors_of(self, shape: Shape) -> list[float]:
        """The same for each worker."""
        if not self.space.request.groups:
            return [1.0] * shape.pipeline
        factors = self._group_factors(base_of(shape), shape.microbatch_size)
        return [factors[group] for group in self.space.request.groups_of(shape)]

    def _shared(self, base: Base, size: int) -> float:
        """The work of a sequence in all layers, without the host, shared by the accelerators of all
        groups by speed.
        """
        groups, work = self.space.request.groups, sum(self._work(base, size))
        factors = zip(groups, self._group_factors(base, size), strict=True)
        rate = sum(group["accelerators"] / factor for group, factor in factors)
        return float(work / size * base.worker / rate)

    def _least_of(self, shape: Shape) -> int:
        """The number of the least that layers always hold. State that sharding gathers for one
        layer at a time is held once for all layers of a worker.
        """
        holder = self._holder(shape)
        if holder not in self._least:
            # Whole parameters take the same bytes for any number of replicas.
            data = self.splits[base_of(holder)][0].data
            whole = holder._replace(sharding="none", data=data)
            request = self.space.request
            before, after = map(request.parameter_bytes, ("none", shape.sharding))
            ratios = [a / b if b else 1.0 for a, b in zip(after, before, strict=True)]
            replicas = shape.data * shape.context * max(1.0, shape.tensor / shape.expert)
            sharded = SHARDED[shape.sharding]
            shares = [r / replicas if is_cut else r for r, is_cut in zip(ratios, sharded)]
            number = self._parameters_of(whole)
            self._least[holder] = self.space.core.add_sums(number, shares)
        return self._least[holder]

    # Bounds

    def step(self, base: Base, size: int) -> float:
        """Returns the bound for all shapes with microbatches of this size."""
        sequences = self.space.request.global_batch * base.worker / self.space.request.gpus
        step = (self.time(base, size) - self.hidden(base, size)) / size * sequences
        if self._divides_by_speed(base, size):
            step = max(step, self._shared(base, size) * self.space.request.global_batch)
        return CLOSE * step

    def _divides_by_speed(self, base: Base, size: int) -> bool:
        """Whether groups of nodes have bounds by their speeds. Where pairs of cells hide exchanges
        that are slower on some of them, the cells need not be.
        """
        has_groups = bool(self.space.request.groups) and math.isfinite(self.time(base, size))
        return has_groups and not self.hidden(base, size)

    def whole_step(self, shape: Shape) -> float:
        """Returns the bound for schedules of a shape that hide no exchange of experts."""
        time = self.time(base_of(shape), shape.microbatch_size)
        known = time if math.isfinite(time) else 0.0
        if self._divides_by_speed(base_of(shape), shape.microbatch_size):
            # The workers, weighted by speed, do less work than the same number of fast ones.
            work = sum(self._work(base_of(shape), shape.microbatch_size))
            share = shape.pipeline / sum(1 / factor for factor in self._factors_of(shape))
            known = max(known, work * share)
        return CLOSE * known * shape.microbatches / shape.pipeline

    @cached_property
    def _pairs(self) -> tuple[str, ...]:
        """The families that run pairs of cells."""
        return tuple(f for f in self.space.families if overlaps(f, ()))

    def _savings_of(self, base: Base, size: int) -> tuple[int, float, float] | None:
        """Returns the number of the savings of pairs of cells, the most of a microbatch, and the
        largest part of a layer; None where nothing divides experts.
        """
        sized = base, size
        if sized not in self._savings:
            is_known = self.space.request.times is None and math.isfinite(self.time(base, size))
            has_savings = base.expert > 1 and self._pairs and is_known
            if has_savings:
                costs = self.space.stage_costs(self._shape(base, size), ())
                self._savings[sized] = self.space.core.add_savings(costs)
            else:
                self._savings[sized] = None
        return self._savings[sized]

    def hidden(self, base: Base, size: int) -> float:
        """The time of a microbatch that pairs of cells may hide: exchanges of experts."""
        found = self._savings_of(base, size)
        return found[1] if found else 0.0

    def hidden_on(self, shape: Shape) -> float:
        """The same of a step on a shape, where some cells run in no pair."""
        hidden = self.hidden(base_of(shape), shape.microbatch_size)
        if not hidden:
            return 0.0
        pairs = self._pairs if shape.pipeline > 1 else {COMBINED} & {*self._pairs}
        single = min((alone(family, shape.pipeline) for family in pairs), default=math.inf)
        return hidden * max(0.0, shape.microbatches - single) / shape.pipeline

    def step_on(self, shape: Shape) -> float:
        """Returns the bound for all schedules of a shape."""
        return self.whole_step(shape) - self.hidden_on(shape)

    def sharded_step(self, shape: Shape) -> float:
        """Returns the bound for schedules that hide nothing under a sharding whose messages cells
        wait for, else 0. Several stages wait at least as long as one with all layers.
        """
        if shape.sharding not in WAITING:
            return 0.0
        alone = self.space.of_equal_costs(shape)
        self._probe_sharded([alone])
        return CLOSE * self._sharded[alone] * shape.microbatches / shape.pipeline

    def _probe_sharded(self, shapes: Iterable[Shape]) -> None:
        new = [shape for shape in dict.fromkeys(shapes) if shape not in self._sharded]
        for shape, row in zip(new, self._probe(new), strict=True):
            self._sharded[shape] = 0.0 if row.error else float(row.makespan_ps)

    def prune(
        self, shapes: Sequence[tuple[float, Shape]], limit_ps: float
    ) -> tuple[list[Shape], list[tuple[Shape, Bounds]], int]:
        """Returns the shapes that may fit and take at most `limit_ps`, the shapes that cannot fit,
        and the number of shapes that take longer.
        """
        self._held_by(self._holder(shape) for _, shape in shapes)
        kept, large = [], []
        for step, shape in shapes:
            peak = self.peak(shape, limit_ps)
            if peak > self.usable:
                large.append((shape, Bounds(step, peak)))
            else:
                kept.append(shape)
        waiting = (self.space.of_equal_costs(s) for s in kept if s.sharding in WAITING)
        self._probe_sharded(waiting)
        fast = [s for s in kept if self.sharded_step(s) - self.hidden_on(s) <= limit_ps]
        return fast, large, len(kept) - len(fast)

    def peak(self, shape: Shape, limit_ps: float) -> int:
        """The least memory of an accelerator in a step of at most `limit_ps`."""
        base, workers = base_of(shape), shape.pipeline * shape.worker
        holder = self._holder(shape)
        self._held_by([holder])
        least = self._held[holder] + self._stashes[base] * shape.microbatch_size
        if least <= self.usable * workers and math.isfinite(limit_ps):
            layers = self.layers(base, shape.microbatch_size)
            sum_of_layers = layers.headless if self.space.spreads else layers.held
            held = sum_of_layers * shape.microbatches / limit_ps
            if found := self._savings_of(base, shape.microbatch_size):
                held *= 1 - found[2]
            least = max(least, self._held[holder] + held)
        return int(CLOSE * least / workers) if math.isfinite(least) else 2**62

    def of_candidate(self, candidate: Candidate, limit_ps: float) -> Bounds:
        """Returns the bounds for a candidate in a step of at most `limit_ps`, with slow workers."""
        return Bounds(*self.space.core.bounds(self.number(candidate), limit_ps))

    def alive(self, candidate: Candidate) -> int:
        """The least memory of an accelerator, by known facts of the same rows."""
        return self.space.core.held_bytes(self.number(candidate))

    def loads(self, candidate: Candidate) -> tuple[list[float], list[float]]:
        """The least compute and memory of workers, as estimates that order them."""
        busy, held = self.space.core.loads(self.number(candidate))
        shape = candidate.shape
        if self.slow is not None:
            speeds = self.slow.speeds(self.space.costs(shape), shape.pipeline)
            busy = [ps * factor for ps, factor in zip(busy, speeds, strict=True)]
        factors = self._factors_of(shape)
        return [ps * factor for ps, factor in zip(busy, factors, strict=True)], held

    @property
    def is_uneven(self) -> bool:
        """Whether workers may differ in speed."""
        return self.slow is not None or bool(self.space.request.groups)

    # State of the library

    def number(self, candidate: Candidate) -> int:
        """The number of a candidate of the space, for which there can be bounds."""
        self.prepare([candidate.shape])
        return self.space.number_of(candidate)

    def prepare(self, shapes: Iterable[Shape]) -> None:
        """Prepares the library for bounds on the schedules of shapes."""
        for shape in shapes:
            if shape not in self._prepared:
                self._prepared.add(shape)
                self.prepare_rows([shape])
                self._set_limits(shape)

    def prepare_rows(self, shapes: Iterable[Shape]) -> None:
        """Gives the library the data to evaluate the schedules of shapes, which may have another
        number of accelerators.
        """
        space = self.space
        for shape in shapes:
            if shape in self._known:
                continue
            self._known.add(shape)
            unsharded = shape._replace(sharding="none")
            self.prepare_rows([unsharded])
            space.core.set_rows(
                space.number(shape),
                most=self._most_of(shape) if base_of(shape) in self.splits else None,
                unsharded=space.number(unsharded),
                waits=shape.sharding in WAITING,
                draws=self.draws(shape) if self.slow else [],
            )

    def draws(self, shape: Shape) -> list[list[str]]:
        """The disturbances of a shape, as `Slow.draws` has them."""
        assert self.slow is not None
        return self.slow.draws(self.space.costs(shape), shape.pipeline, self._seeds)

    def _most_of(self, shape: Shape) -> int | None:
        """The number of the most that layers always hold; None for shapes without costs."""
        holder = self._holder(shape)
        if holder not in self._most:
            try:
                number = self._parameters_of(holder)
            except PipeSchedError:
                self._most[holder] = None
            else:
                self._most[holder] = self.space.core.add_sums(number, (1.0, 1.0, 1.0))
        return self._most[holder]

    def _set_limits(self, shape: Shape) -> None:
        space, base, size = self.space, base_of(shape), shape.microbatch_size
        savings = self._savings_of(base, size)
        factors = self._factors_of(shape) if self._divides_by_speed(base, size) else []
        if self.slow is not None:
            own = self.slow.factors(space.costs(shape), shape.pipeline).tolist()
            factors = [a * b for a, b in zip(own, factors or itertools.repeat(1.0))]
            speeds = self.slow.speeds(space.costs(shape), shape.pipeline)
            stages = [(stage, float(factor)) for stage, factor in self.slow.stages.items()]
            space.core.set_slow(space.number(shape), workers=speeds, stages=stages)
        space.core.set_limits(
            space.number(shape),
            layers=self.layers(base, size).number,
            bytes=self._least_of(shape),
            whole_ps=max(self.whole_step(shape), self.sharded_step(shape)),
            savings=savings[0] if savings else None,
            factors=factors,
        )

    # The order

    def largest(self, base: Base) -> int | None:
        """The largest microbatch that may be held; None without any."""
        stash = self._stashes[base] / (self.usable * base.worker)
        sizes = [
            size
            for split in self.splits[base]
            for size in self.space.divisions.sizes(split)
            if CLOSE * size * stash <= split.pipeline
        ]
        return max(sizes, default=None)

    @cached_property
    def bases(self) -> list[tuple[float, Base]]:
        """Bounds on the step of each base, the least first."""
        self._probe_stashes()
        most = {base: self.largest(base) for base in self._stashes}
        known = [(base, size) for base, size in most.items() if size is not None]
        self._probe_times(known)
        return sorted((self.step(base, size), base) for base, size in known)

    def expand(self, bases: Iterable[Base]) -> list[tuple[float, Shape]]:
        """The shapes of some bases that may hold a microbatch, with bounds on the step."""
        found: list[tuple[Base, Split, int]] = []
        for base in bases:
            stash = self._stashes[base] / (self.usable * base.worker)
            for split in self.splits[base]:
                sizes = self.space.divisions.sizes(split)
                fit = (size for size in sizes if CLOSE * size * stash <= split.pipeline)
                found += ((base, split, size) for size in fit)
        self._probe_times((base, size) for base, _, size in found)
        return [
            (self.step_on(shape), shape)
            for base, split, size in found
            if math.isfinite(self.time(base, size))
            for shape in self.space.divisions.shapes_of(base, split, size)
        ]

    def seeds(self) -> list[Shape]:
        """Shapes that 1F1B is estimated to run fast and to fit, if there are some without sharding
        for which cells wait.
        """
        best: list[tuple[float, Shape]] = []
        for at in range(0, len(self.bases), BASES):
            some = self.bases[at : at + BASES]
            slowest = best[-1][0] if len(best) >= SEEDS else math.inf
            if some[0][0] > slowest:
                break
            likely = []
            for step, shape in self.expand(base for _, base in some):
                estimate = step * (1.03 + (shape.pipeline - 1) / shape.microbatches)
                if shape.sharding not in WAITING and estimate < slowest:
                    likely.append((estimate, shape))
            self._held_by(self._holder(shape) for _, shape in likely)
            best += [pair for pair in likely if self._is_likely_to_fit(pair[1])]
            best = sorted(best)[:SEEDS]
        return [shape for _, shape in best]

    def _is_likely_to_fit(self, shape: Shape) -> bool:
        workers = shape.pipeline * shape.worker
        alive = min(shape.pipeline, shape.microbatches) * shape.microbatch_size
        least = self._held[self._holder(shape)] + self._stashes[base_of(shape)] * alive
        return 1.08 * least / workers <= self.usable


class Queue:
    """Shapes in the order of their bounds on the step. A base is expanded into its shapes only when
    no shape in the queue has a lower bound.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.bases = limits.bases
        self.at = 0
        self.heap: list[tuple[float, int, Shape]] = []
        self.done = 0
        self._numbers = itertools.count()

    @cached_property
    def total(self) -> int:
        """The number of all shapes."""
        divisions = self.limits.space.divisions
        return sum(
            sum(1 for _ in divisions.shapes_of(base, split, 1)) * len(divisions.sizes(split))
            for base, splits in self.limits.splits.items()
            for split in splits
        )

    def pop(self, limit_ps: float) -> tuple[float, Shape] | None:
        """The next shape, with its bound; None if all others take longer than `limit_ps`."""
        while self.at < len(self.bases) and (
            not self.heap or self.bases[self.at][0] <= self.heap[0][0]
        ):
            if self.bases[self.at][0] > limit_ps:
                break
            some = self.bases[self.at : self.at + BASES]
            for step, shape in sorted(self.limits.expand(base for _, base in some)):
                if step <= limit_ps:
                    heapq.heappush(self.heap, (step, next(self._numbers), shape))
            self.at += BASES
        if not self.heap or self.heap[0][0] > limit_ps:
            return None
        self.done += 1
        step, _, shape = heapq.heappop(self.heap)
        return step, shape
