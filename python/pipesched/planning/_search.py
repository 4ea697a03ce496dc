"""Best-first search. Candidates that cannot fit or cannot be fast enough are never generated.

Every shape, and every candidate on it, has two lower bounds for all its schedules: on the step, the
work of all microbatches spread evenly over the workers; on the memory, that of one microbatch.
Both come from probes. That of a shape runs one microbatch through all layers on one worker: any
placement divides its work, and what it holds when its backward begins, among the workers. That of a
candidate is a step of one microbatch per path on its placement. Shapes are expanded to candidates,
and these evaluated, in order of the first bound, until it exceeds the slowest of the best found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from .._batch import Configuration, evaluate_points
from .._errors import PipeSchedError
from .._options import integer
from ._candidate import Candidate, Shape
from ._request import Progress
from ._space import Space

FIRST_CELLS, MOST_CELLS = 20_000, 50_000
"""The number of cells of the first round of evaluation and of the largest. Rounds are small because
the results of each prune the next ones, and large enough to keep all cores busy.
"""

NEAREST, NEAREST_SHAPES = 96, 48
"""The numbers of candidates to evaluate, and of shapes to expand, that cannot fit, to find those
that nearly fit.
"""


@dataclass(frozen=True)
class Bounds:
    """Lower bounds for all schedules of a candidate."""

    step_ps: float
    peak_bytes: int
    """Peak memory of one accelerator."""


@dataclass(frozen=True)
class Outcome:
    """The result of evaluating a candidate."""

    candidate: Candidate
    step_ps: int
    peak_bytes: int
    """Peak memory of one accelerator of the fullest worker."""


@dataclass
class Counts:
    """The number of candidates by their fate."""

    shapes: int = 0
    """Divisions of accelerators and batch."""
    left_out: int = 0
    """The shapes that no placement makes small or fast enough. They have no candidates."""
    considered: int = 0
    too_large: int = 0
    """A single microbatch exceeds the memory."""
    too_slow: int = 0
    """Their work alone takes longer than the steps of the best."""
    impossible: int = 0
    """The family has no schedule at this size."""
    evaluated: int = 0
    fitting: int = 0


@dataclass
class Found:
    """The result of a search."""

    fitting: list[Outcome] = field(default_factory=list)
    """The best outcomes that fit, in order of step time."""
    missing: list[Outcome] = field(default_factory=list)
    """The outcomes that nearly fit, the nearest first. If anything fits, each of these is faster
    than the best that fits.
    """
    counts: Counts = field(default_factory=Counts)


def per_accelerator(worker_bytes: int, candidate: Candidate) -> int:
    """An accelerator's share of a worker's memory."""
    return -(-worker_bytes // candidate.shape.worker)


class Numbers(NamedTuple):
    """The numbers of an evaluated configuration that a search needs. They are valid only if there
    is no error. Bytes are those of a worker, and 0 if they are not known, because there is no
    model.
    """

    makespan_ps: int
    idle_ratio: float
    persistent_bytes: int
    peak_bytes: int
    error: str | None


def _placed(candidate: Candidate) -> tuple[object, ...]:
    """The key of a probe, which depends on everything except the schedule."""
    return candidate.shape, candidate.paths, candidate.layers


def _bounds(candidate: Candidate, probe: Numbers) -> Bounds:
    """Computes bounds from the row of a probe, a step of one microbatch on each path."""
    paths = len(candidate.paths)
    work = float(probe.makespan_ps) * (1 - probe.idle_ratio) * candidate.shape.microbatches / paths
    # Microbatches of different paths need not be on a worker at the same time.
    least = probe.persistent_bytes if paths > 1 else probe.peak_bytes
    return Bounds(work * (1 - 1e-9), per_accelerator(least, candidate))


def _shape_bounds(shape: Shape, probe: Numbers) -> Bounds:
    """Computes bounds from the row of a probe on one worker. A backward that recomputes adds what
    it needs for one layer, which may be less on the worker where the first backward begins.
    """
    held = probe.peak_bytes if shape.recompute == "none" else probe.persistent_bytes
    work = float(probe.makespan_ps) * shape.microbatches / shape.pipeline
    return Bounds(work * (1 - 1e-6), held // (shape.pipeline * shape.worker))


class Search:
    """One search through a space."""

    def __init__(self, space: Space, threads: int | None, progress: Progress | None) -> None:
        self.space = space
        self.threads = 0 if threads is None else integer("threads", threads, 1, 2**16)
        self.progress = progress
        self.counts = Counts()
        self.outcomes: dict[Candidate, Outcome] = {}
        self.reasons: dict[str, None] = {}
        """The reasons why schedules are impossible, each once."""
        self.large: list[tuple[Candidate, Bounds]] = []
        """Candidates that cannot fit, of shapes that might."""

    # Evaluation

    def _numbers(self, configurations: Iterable[Configuration]) -> list[Numbers]:
        """Evaluates configurations on threads, in order. No frame: pandas takes longer to import
        than most searches take.
        """
        found = evaluate_points(list(configurations), threads=self.threads)
        bytes_of = (found.columns[name].clip(0) for name in ("persistent_bytes", "peak_bytes"))
        columns = (found.columns["makespan_ps"], found.columns["idle_ratio"], *bytes_of)
        numbers = zip(*(column.tolist() for column in columns), found.errors, strict=True)
        return list(map(Numbers._make, numbers))

    def bounds(self, candidates: Sequence[Candidate]) -> dict[Candidate, Bounds]:
        """Computes bounds; candidates on the same placement share a probe. Candidates without costs
        have no bounds.
        """
        probes = {_placed(c): c for c in candidates}
        rows = self._numbers(map(self.space.probe, probes.values()))
        known = {
            placed: _bounds(c, row)
            for (placed, c), row in zip(probes.items(), rows, strict=True)
            if row.error is None
        }
        if not known:
            raise PipeSchedError(str(rows[0].error))
        return {c: known[_placed(c)] for c in candidates if _placed(c) in known}

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Evaluates candidates, each only once, and returns those that have a schedule, in
        order.
        """
        new = [c for c in dict.fromkeys(candidates) if c not in self.outcomes]
        if new:
            rows = self._numbers(map(self.space.configuration, new))
            for c, row in zip(new, rows, strict=True):
                if row.error is None:
                    size = per_accelerator(row.peak_bytes, c)
                    self.outcomes[c] = Outcome(c, row.makespan_ps, size)
                else:
                    self.counts.impossible += 1
                    self.reasons.setdefault(row.error)
            self.counts.evaluated += len(new)
        return [self.outcomes[c] for c in candidates if c in self.outcomes]

    def _report(self, done: int, total: int) -> None:
        if self.progress:
            self.progress(done, total)

    # The search

    def shape_bounds(self, shapes: Sequence[Shape]) -> dict[Shape, Bounds]:
        """Bounds for all candidates of a shape. Shapes without costs have none."""
        alone = {self.space.of_equal_costs(shape): shape for shape in shapes}
        found = self._numbers(map(self.space.shape_probe, alone.values()))
        rows = dict(zip(alone, found, strict=True))
        if all(row.error is not None for row in found):
            raise PipeSchedError(str(found[0].error))
        probes = ((shape, rows[self.space.of_equal_costs(shape)]) for shape in shapes)
        return {shape: _shape_bounds(shape, row) for shape, row in probes if row.error is None}

    def run(self, top: int, misses: int) -> Found:
        """Finds the best that fit and those that nearly fit."""
        shapes = self.space.shapes()
        self.counts.shapes = len(shapes)
        bounds = self.shape_bounds(shapes)
        usable = self.space.request.usable_bytes
        known = sorted((s for s in shapes if s in bounds), key=lambda s: (bounds[s].step_ps, s))
        small = [shape for shape in known if bounds[shape].peak_bytes <= usable]
        fitting = self._best(small, bounds, top)
        large = [shape for shape in known if bounds[shape].peak_bytes > usable]
        missing = self._nearest(large, bounds, fitting, misses)
        if not self.counts.considered:
            raise self.space.nothing()
        return Found(fitting[:top], missing, replace(self.counts))

    def _expand(self, shapes: Iterable[Shape]) -> tuple[list[Candidate], dict[Candidate, Bounds]]:
        """The candidates of some shapes that have bounds, by the first bound, and these."""
        candidates = [c for shape in shapes for c in self.space.candidates_of(shape)]
        self.counts.considered += len(candidates)
        bounds = self.bounds(candidates) if candidates else {}
        known = (c for c in candidates if c in bounds)
        return sorted(known, key=lambda c: (bounds[c].step_ps, c.order, c.shape)), bounds

    def _best(self, small: list[Shape], bounds: dict[Shape, Bounds], top: int) -> list[Outcome]:
        usable = self.space.request.usable_bytes
        fitting: list[Outcome] = []
        done, budget = 0, FIRST_CELLS
        while done < len(small):
            slowest = fitting[top - 1].step_ps if len(fitting) >= top else math.inf
            if bounds[small[done]].step_ps > slowest:
                break
            self._report(done, len(small))
            end = _round_end(small, done, budget)
            candidates, least = self._expand(small[done:end])
            self.large += [(c, least[c]) for c in candidates if least[c].peak_bytes > usable]
            possible = [c for c in candidates if least[c].peak_bytes <= usable]
            fast = [c for c in possible if least[c].step_ps <= slowest]
            self.counts.too_slow += len(possible) - len(fast)
            fitting += [o for o in self.evaluate(fast) if o.peak_bytes <= usable]
            fitting.sort(key=by_step)
            done, budget = end, min(2 * budget, MOST_CELLS)
        self._report(len(small), len(small))
        self.counts.left_out += len(small) - done
        self.counts.fitting = len(fitting)
        return fitting

    def _nearest(
        self,
        shapes: list[Shape],
        bounds: dict[Shape, Bounds],
        fitting: list[Outcome],
        misses: int,
    ) -> list[Outcome]:
        """The nearest outcome for each choice of degrees, without those that are no faster than
        the best that fits.
        """
        fastest = fitting[0].step_ps if fitting else math.inf
        usable = self.space.request.usable_bytes
        tried = [o for o in self.outcomes.values() if o.peak_bytes > usable]
        shapes.sort(key=lambda s: (bounds[s].step_ps > fastest, bounds[s].peak_bytes, s))
        candidates, least = self._expand(shapes[:NEAREST_SHAPES])
        self.counts.left_out += len(shapes[NEAREST_SHAPES:])
        large = [*self.large, *((c, least[c]) for c in candidates)]
        self.counts.too_large = len(large)
        large.sort(key=lambda p: (p[1].step_ps > fastest, p[1].peak_bytes, p[0].order))
        tried += self.evaluate([candidate for candidate, _ in large[:NEAREST]])
        tried = [o for o in tried if o.step_ps < fastest]
        tried.sort(key=nearness)
        degrees = {o.candidate.shape.degrees: o for o in reversed(tried)}
        return sorted(degrees.values(), key=nearness)[:misses]


def _round_end(shapes: Sequence[Shape], begin: int, budget: int) -> int:
    """Where a round ends that expands shapes of about `budget` cells, and at least one."""
    cells, end = 0, begin
    while end < len(shapes) and cells < budget:
        cells += 3 * shapes[end].pipeline * shapes[end].microbatches
        end += 1
    return end


def nearness(outcome: Outcome) -> tuple[object, ...]:
    """Sort key: memory, then as `by_step`."""
    return outcome.peak_bytes, by_step(outcome)


def by_step(outcome: Outcome) -> tuple[object, ...]:
    """Sort key: step time, then memory, then simplicity of the schedule."""
    candidate = outcome.candidate
    return (
        outcome.step_ps,
        outcome.peak_bytes,
        candidate.order,
        candidate.shape,
        candidate.options,
        candidate.layers,
    )
