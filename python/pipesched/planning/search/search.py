"""Best-first search. Candidates that cannot fit or cannot be fast enough are never generated.

Every shape, and every candidate on it, has two lower bounds for all its schedules: on the step, the
work of all microbatches spread evenly over the workers; on the memory, the memory of one
microbatch. Both come from probes. The probe of a shape runs one microbatch through all layers on
one worker: any placement divides its work, and its memory when its backward starts, among the
workers. The probe of a candidate is a step of one microbatch per path on its placement. Shapes are
expanded to candidates, and these evaluated, in order of the first bound, until it exceeds the
slowest of the best found.
"""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ... import _core
from ...results.batch import evaluate_points
from ...results.configuration import Configuration
from ...results.disturbances import SEEDS
from ...support.options import integer
from ..candidate import ALONE, Candidate, Shape
from ..launch.launchers import is_run
from ..request import Progress
from ..space.space import Kind, Space
from .disturbances import Slow
from .limits import Bounds, Limits, Queue

FIRST_CELLS, MOST_CELLS = 20_000, 50_000
"""The number of cells of the first round of evaluation and of the largest. Rounds are small because
the results of each prune the next ones, and large enough to keep all cores busy.
"""

LEAST_SHAPES = 192
"""The least number of shapes of a round; most are pruned."""

EQUAL = 0.02
"""Steps that differ by at most this part are as fast: predictions are not more exact."""

SLOWEST = 2.0
"""Configurations that take this many times as long as the fastest are not listed, whoever runs
them.
"""

COLLECTED = 100_000
"""The number of new objects after which Python looks for cycles during a search."""

KEPT = 10
"""The best is chosen among this many of the fastest rows, however many are shown."""

NEAREST, NEAREST_SHAPES = 96, 48
"""The numbers of candidates to evaluate, and of shapes to expand, that cannot fit, to find the
ones that nearly fit.
"""


Row = tuple[str | None, int, int, int]
"""An error, the makespan, the peak bytes and the fullest worker."""

ByPython = Callable[[list[tuple[int, bool, str]]], list[Row]]
"""Evaluates candidates by number: whole steps, or short ones for the memory of rows, under a
disturbance.
"""


@dataclass(frozen=True)
class Outcome:
    """The result of evaluating a candidate."""

    candidate: Candidate
    step_ps: int
    """The step by which outcomes are ranked: under the disturbances of the plan, if it has any."""
    peak_bytes: int
    """Peak memory of one accelerator of the fullest worker."""
    undisturbed_ps: int | None = None
    """The step without the disturbances; None if there are none."""

    @property
    def plain_ps(self) -> int:
        """The step without any disturbance."""
        return self.step_ps if self.undisturbed_ps is None else self.undisturbed_ps


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
    """Their work takes longer than the steps of the best."""
    impossible: int = 0
    """The family has no schedule at this size."""
    evaluated: int = 0
    fitting: int = 0


@dataclass
class Found:
    """The result of a search."""

    fitting: list[Outcome] = field(default_factory=list)
    """The best outcomes that fit and may be listed, in order of step time."""
    missing: list[Outcome] = field(default_factory=list)
    """The outcomes that nearly fit, the nearest first. If any fits, each of these is faster than
    the best that fits.
    """
    counts: Counts = field(default_factory=Counts)
    elsewhere: Outcome | None = None
    """The fastest that fits, if it is not listed, because no framework runs it unchanged."""


def per_accelerator(worker_bytes: int, candidate: Candidate) -> int:
    """An accelerator's share of a worker's memory."""
    return -(-worker_bytes // candidate.shape.worker)


@contextmanager
def few_collections() -> Iterator[None]:
    """Lets Python look for unreachable cycles less often. A search makes few of these, and keeps
    most of its objects, which each collection visits again.
    """
    given = gc.get_threshold()
    if not 0 < given[0] < COLLECTED:
        yield
        return
    gc.set_threshold(COLLECTED, *given[1:])
    try:
        yield
    finally:
        gc.set_threshold(*given)


class Search:
    """One search through a space."""

    def __init__(
        self,
        space: Space,
        threads: int | None,
        progress: Progress | None,
        slow: Slow | None = None,
        seeds: int = SEEDS,
        only_run: bool | None = None,
    ) -> None:
        """`only_run` lists only configurations that a framework runs unchanged; this is the default
        unless the request names schedules or shards of the vocabulary.
        """
        self.space = space
        self.only_run = self._may_run(only_run)
        self.slow, self.seeds = slow, integer("seeds", seeds, 1, 10_000)
        self.widening = 1 / slow.least() if slow else 1.0
        """The factor by which limits grow for bounds, which ignore disturbances."""
        self.threads = 0 if threads is None else integer("threads", threads, 1, 2**16)
        self.progress = progress
        self.counts = Counts()
        self.outcomes: dict[Candidate, Outcome] = {}
        self.reasons: dict[str, None] = {}
        """The reasons why schedules are impossible, each once."""
        self.limits = Limits(space, slow, self.seeds)
        space.start(self.widening, self.threads)
        self._by_number: dict[int, Outcome] = {}
        self.moved: set[Candidate] = set()
        """Candidates whose layers were moved by hand from another one."""
        self.usable = space.request.usable_bytes
        """The memory of an accelerator that may be used."""
        self.seeded: set[Shape] = set()
        """The shapes that were tried first, which are not tried again."""
        self.visited: list[tuple[float, Shape]] = []
        """The shapes that were reached, with their bounds on the step, in order of these."""

    # Listed configurations

    def _may_run(self, only_run: bool | None) -> bool:
        """Whether only configurations that a framework runs are listed: if any can be run."""
        request = self.space.request
        if only_run is None:
            only_run = request.schedules is None and request.vocabulary in (None, ("whole",))
        plain = (Shape(1, 1, 1, 1, 1, "none", kind) for kind in request.sharding or ())
        alone = (Candidate(shape, ALONE, (), ((0,),), ((1,),), 0) for shape in plain)
        return (
            only_run
            and request.sizes["sequence"] > 0
            and any(is_run(request, each) for each in alone)
        )

    def is_listed(self, candidate: Candidate) -> bool:
        """Whether a plan may list a candidate: whether a framework runs it, if that is needed."""
        return not self.only_run or is_run(self.space.request, candidate)

    def _are_listed(self, numbers: Sequence[int]) -> list[bool]:
        return [self.is_listed(self.space.candidate(number)) for number in numbers]

    def _listed(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [outcome for outcome in outcomes if self.is_listed(outcome.candidate)]

    # Evaluation

    @property
    def core(self) -> _core.PlanSearch:
        """The candidates in the library."""
        return self.space.core

    @property
    def _by_python(self) -> ByPython | None:
        return self._rows if self.space.needs_python else None

    def _rows(self, points: list[tuple[int, bool, str]]) -> list[Row]:
        """Evaluates the points that only Python can make."""
        return self.rows_of(itertools.starmap(self._configuration, points))

    def rows_of(self, configurations: Iterable[Configuration]) -> list[Row]:
        """Evaluates configurations on threads, in order."""
        found = evaluate_points(list(configurations), threads=self.threads)
        names = ("makespan_ps", "peak_bytes", "bottleneck_worker")
        columns = (found.columns[name].clip(0).tolist() for name in names)
        return list(zip(found.errors, *columns, strict=True))

    def _configuration(self, number: int, is_short: bool, disturbance: str) -> Configuration:
        candidate = self.space.candidate(number)
        if is_short:
            unsharded = candidate.shape._replace(sharding="none")
            return self.space.short(candidate._replace(shape=unsharded))
        return replace(self.space.configuration(candidate), disturbance=disturbance)

    def _outcomes_of(self, numbers: Iterable[int]) -> list[Outcome]:
        """The outcomes of numbers that have a schedule, and takes note of all new ones."""
        for number, step_ps, peak_bytes, plain_ps in self.core.outcomes(len(self._by_number)):
            candidate = self.space.candidate(number)
            disturbed_ps = None if self.slow is None else step_ps
            outcome = self.outcome(candidate, plain_ps, peak_bytes, disturbed_ps)
            self._by_number[number] = self.outcomes[candidate] = outcome
        self.reasons.update(dict.fromkeys(self.core.errors))
        for name, count in self.core.counts.items():
            setattr(self.counts, name, count)
        return [self._by_number[number] for number in numbers if number in self._by_number]

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Evaluates candidates, each only once, and returns outcomes that have a schedule, in
        order.
        """
        self.limits.prepare_rows(candidate.shape for candidate in candidates)
        numbers = [*map(self.space.number_of, candidates)]
        self.core.evaluate(numbers, self._by_python)
        return self._outcomes_of(numbers)

    def outcome(
        self, candidate: Candidate, step_ps: int, peak_bytes: int, disturbed_ps: int | None
    ) -> Outcome:
        """The outcome of a candidate, with the step under the disturbances if there are any."""
        if disturbed_ps is None:
            return Outcome(candidate, step_ps, peak_bytes)
        return Outcome(candidate, disturbed_ps, peak_bytes, step_ps)

    # The search

    def run(self, top: int, misses: int) -> Found:
        """Finds the best that fit and the ones that nearly fit."""
        found, large, limit_ps = self._best(top)
        fitting = self._listed(found)
        if found and not fitting:
            self.only_run, fitting = False, found
        fitting = self._improve(self._others(fitting))
        missing = self._nearest(large, fitting, misses) if misses or not fitting else []
        if not self.counts.considered:
            raise self.space.nothing()
        self.counts.fitting = len(found)
        listed = [o for o in fitting if o.step_ps <= limit_ps]
        is_faster = bool(found) and (1 + EQUAL) * found[0].step_ps < listed[0].step_ps
        elsewhere = found[0] if is_faster else None
        return Found(listed, missing, replace(self.counts), elsewhere)

    def _expand(self, shapes: Sequence[Shape], limit_ps: float, kind: Kind = "usual") -> list[int]:
        """The numbers of the candidates of some shapes that may take at most `limit_ps`."""
        self.limits.prepare(shapes)
        only_pairs = [self.limits.whole_step(shape) > limit_ps for shape in shapes]
        return self.space.expand(shapes, kind, only_pairs)

    def _round(
        self, shapes: Sequence[Shape], limit_ps: float, kind: Kind, other_ps: float
    ) -> list[Outcome]:
        """Evaluates the candidates of some shapes that may fit and take at most `limit_ps`, or
        `other_ps` if they may not be listed, and returns those that fit.
        """
        numbers = self._expand(shapes, limit_ps, kind)
        limits = limit_ps, min(limit_ps, other_ps)
        found = self.core.round(numbers, *limits, self._are_listed, self._by_python)
        return self._outcomes_of(found)

    def evaluate_small(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Evaluates candidates that may fit, and returns the fitting outcomes."""
        numbers = [*map(self.limits.number, candidates)]
        return self._outcomes_of(self.core.evaluate_small(numbers, self._by_python))

    def movable(self, limit_ps: float, most_layers: int) -> list[Outcome]:
        """Evaluates the candidates that may be listed, whose steps, or bounds of those that cannot
        fit, are at most `limit_ps`, and which may fit if workers give up that many layers.
        """
        numbers = self.core.movable(limit_ps, most_layers, self._are_listed, self._by_python)
        self.core.evaluate(numbers, self._by_python)
        return self._outcomes_of(numbers)

    def _best(self, top: int) -> tuple[list[Outcome], list[tuple[Shape, Bounds]], float]:
        """The best of the usual schedules that fit, the shapes that cannot fit, and the step up to
        which nothing that fits is missing.
        """
        fitting: dict[Candidate, Outcome] = {}
        large: list[tuple[Shape, Bounds]] = []
        queue, budget = Queue(self.limits), FIRST_CELLS
        most = SLOWEST if self.only_run else math.inf
        found, steps = self._seeds(), Slowest(top, self.is_listed, most)
        while True:
            new = {o.candidate: o for o in found if o.candidate not in fitting}
            steps.add(new.values())
            fitting |= new
            limit = steps.limit_ps * self.widening
            reached: list[tuple[float, Shape]] = []
            cells = 0
            while cells < budget or len(reached) < LEAST_SHAPES:
                if (item := queue.pop(limit)) is None:
                    break
                reached.append(item)
                cells += self._cells(item[1])
            if not reached:
                break
            self.visited += reached
            untried = [pair for pair in reached if pair[1] not in self.seeded]
            shapes, too_large, slow = self.limits.prune(untried, limit)
            large += too_large
            self.counts.left_out += slow
            self._report(queue.done, queue.total)
            found = self._round(shapes, limit, "usual", self.widening * steps.other_ps)
            budget = min(2 * budget, MOST_CELLS)
        self._report(queue.total, queue.total)
        self.counts.shapes = queue.total
        self.counts.left_out += queue.total - len(self.visited) + len(large)
        return sorted(fitting.values(), key=by_step), large, steps.limit_ps

    def _seeds(self) -> list[Outcome]:
        """Some outcomes that fit, so that the bounds on memory of others hold from the start."""
        shapes = self.limits.seeds()
        self.seeded.update(shapes)
        return self._round(shapes, math.inf, "usual", math.inf)

    def _others(self, fitting: list[Outcome]) -> list[Outcome]:
        """Adds outcomes better than the best of the usual schedules: with other numbers of stages
        per worker.
        """
        at = 0
        other = 0.0 if self.only_run else math.inf
        limit = self.widening * fitting[0].step_ps / (1 + EQUAL) if fitting else math.inf
        variants: list[Outcome] = []
        while at < len(self.visited):
            cells, begin = 0, at
            while at < len(self.visited) and self.visited[at][0] < limit:
                if cells >= MOST_CELLS and at - begin >= LEAST_SHAPES:
                    break
                cells += self._cells(self.visited[at][1])
                at += 1
            if begin == at:
                break
            shapes, _, _ = self.limits.prune(self.visited[begin:at], limit)
            found = self._listed(self._round(shapes, limit, "unusual", other))
            variants += found
            faster = (self.widening * o.step_ps / (1 + EQUAL) for o in found)
            limit = min(limit, *faster, math.inf)
        # A shape is visited once, so that one round has all its variants.
        return only_better([*fitting, *variants], {o.candidate for o in variants})

    def _improve(self, fitting: list[Outcome]) -> list[Outcome]:
        """Adds other numbers of stages per worker for the best rows, also slower than the best."""
        rows: dict[object, Outcome] = {}
        for outcome in fitting:
            rows.setdefault(outcome.candidate.row, outcome)
        best = [*rows.values()][:KEPT]
        variants: list[Outcome] = []
        for outcome in best:
            shape, schedule = outcome.candidate.shape, outcome.candidate.schedule
            limit = self.widening * outcome.step_ps
            self.limits.prepare([shape])
            numbers = self.space.expand([shape], "unusual")
            same = [n for n in numbers if self.space.candidate(n).schedule == schedule]
            found = self.core.round(same, limit, 0.0, self._are_listed, self._by_python)
            variants += self._listed(self._outcomes_of(found))
        return only_better([*fitting, *variants], {o.candidate for o in variants})

    @staticmethod
    def _cells(shape: Shape) -> int:
        """The number of cells of a schedule with one stage per worker."""
        return 3 * shape.pipeline * shape.microbatches

    def _report(self, done: int, total: int) -> None:
        if self.progress:
            self.progress(done, total)

    def _nearest(
        self, shapes: list[tuple[Shape, Bounds]], fitting: list[Outcome], misses: int
    ) -> list[Outcome]:
        """The nearest outcome for each choice of degrees, without outcomes that are no faster than
        the best that fits.
        """
        fastest = float(fitting[0].step_ps) if fitting else math.inf
        tried = [o for o in self.outcomes.values() if o.peak_bytes > self.usable]
        shapes.sort(key=lambda p: (p[1].step_ps > fastest, p[1].peak_bytes, p[0]))
        near = self._expand([shape for shape, _ in shapes[:NEAREST_SHAPES]], math.inf)
        numbers = self.core.nearest(near, fastest, NEAREST)
        self.core.evaluate(numbers, self._by_python)
        tried += self._outcomes_of(numbers)
        tried = [o for o in tried if o.step_ps < fastest and o.peak_bytes > self.usable]
        tried = self._listed(tried) or ([] if fitting else tried)
        tried.sort(key=nearness)
        degrees = {o.candidate.shape.degrees: o for o in reversed(tried)}
        return sorted(degrees.values(), key=nearness)[:misses]


class Slowest:
    """The step up to which outcomes are of interest: at least the slowest of the best rows of a
    plan so far, and all that are as fast as the best of them.
    """

    def __init__(
        self, top: int, is_listed: Callable[[Candidate], bool], most: float = math.inf
    ) -> None:
        self.top, self.is_listed, self.most = top, is_listed, most
        self.rows: dict[object, int] = {}
        """The fastest step of each row."""
        self.fastest_ps = math.inf
        """All that fit, listed or not."""

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Takes note of some outcomes that fit."""
        for outcome in outcomes:
            self.fastest_ps = min(self.fastest_ps, outcome.step_ps)
            row = outcome.candidate.row
            is_faster = outcome.step_ps < self.rows.get(row, math.inf)
            if is_faster and self.is_listed(outcome.candidate):
                self.rows[row] = outcome.step_ps

    @property
    def limit_ps(self) -> float:
        """The limit; infinite until there are enough rows."""
        steps = sorted(self.rows.values())
        slowest = steps[self.top - 1] if len(steps) >= self.top else math.inf
        as_fast = (1 + EQUAL) * steps[0] if steps else math.inf
        return min(max(slowest, as_fast), self.most * self.fastest_ps)

    @property
    def other_ps(self) -> float:
        """The same for configurations that may not be listed, of which only the fastest counts, and
        only if it is faster by more than what counts as equal.
        """
        listed = min(self.rows.values(), default=math.inf)
        return min(self.fastest_ps, listed / (1 + EQUAL)) if self.rows else math.inf


def only_better(fitting: list[Outcome], variants: set[Candidate]) -> list[Outcome]:
    """All outcomes in order, but only variants that are better than others of the same shape and
    schedule.
    """
    seen: set[object] = set()
    kept = []
    for outcome in sorted(fitting, key=by_step):
        candidate = outcome.candidate
        key = candidate.shape, candidate.schedule
        if candidate not in variants or key not in seen:
            kept.append(outcome)
        seen.add(key)
    return kept


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
