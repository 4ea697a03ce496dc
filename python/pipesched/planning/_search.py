"""Best-first search. Candidates that cannot fit or cannot be fast enough are never generated.

Every candidate has two lower bounds for all schedules on its placement: on the step time, the work
of all microbatches spread evenly over the workers; on the memory, that of one microbatch. Both come
from a probe, a step of one microbatch per path. Candidates are evaluated in order of the first
bound, until it exceeds the slowest of the best candidates found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._batch import Configuration, simulate_batch
from .._errors import PipeSchedError
from ._candidate import Candidate
from ._request import Progress
from ._space import Space

if TYPE_CHECKING:
    import pandas as pd

FIRST_CELLS, MOST_CELLS = 100_000, 4_000_000
"""The number of cells of the first round of evaluation and of the largest. The first is small
because its results prune the others.
"""

NEAREST = 96
"""The number of candidates that cannot fit to evaluate to find those that nearly fit."""


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
    """The number of candidates by what became of them."""

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
    """The best that fit, in order of step time."""
    missing: list[Outcome] = field(default_factory=list)
    """Those that nearly fit, the nearest first. If anything fits, each of them is faster than the
    best that does.
    """
    counts: Counts = field(default_factory=Counts)


def per_accelerator(worker_bytes: int, candidate: Candidate) -> int:
    """An accelerator's share of a worker's memory."""
    return -(-worker_bytes // candidate.shape.tensor)


def _known(size: Any) -> int:
    """Bytes; 0 if they are not known, because there is no model."""
    from pandas import isna

    return 0 if isna(size) else int(size)


def _placed(candidate: Candidate) -> tuple[object, ...]:
    """The key of a probe, which depends on everything except the schedule."""
    return candidate.shape, candidate.paths, candidate.layers


def _bounds(candidate: Candidate, probe: Any) -> Bounds:
    """Computes bounds from the row of a probe, a step of one microbatch on each path."""
    paths = len(candidate.paths)
    work = float(probe.makespan_ps) * (1 - probe.idle_ratio) * candidate.shape.microbatches / paths
    # Microbatches of different paths need not be on a worker at the same time.
    least = probe.persistent_bytes if paths > 1 else probe.peak_bytes
    return Bounds(work * (1 - 1e-9), per_accelerator(_known(least), candidate))


def _rounds(pending: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
    """Splits candidates into rounds whose number of cells doubles up to the maximum."""
    begin, budget = 0, FIRST_CELLS
    while begin < len(pending):
        end, cells = begin, 0
        while end < len(pending) and (end == begin or cells < budget):
            cells += pending[end].cells
            end += 1
        yield pending[begin:end]
        begin, budget = end, min(2 * budget, MOST_CELLS)


class Search:
    """One search through a space."""

    def __init__(self, space: Space, threads: int | None, progress: Progress | None) -> None:
        self.space = space
        self.threads = threads
        self.progress = progress
        self.counts = Counts()
        self.outcomes: dict[Candidate, Outcome] = {}
        self.reasons: dict[str, None] = {}
        """The reasons why schedules are impossible, each once."""

    # Evaluation

    def _frame(self, configurations: Iterable[Configuration]) -> pd.DataFrame:
        return simulate_batch(configurations, threads=self.threads)

    def bounds(self, candidates: Sequence[Candidate]) -> dict[Candidate, Bounds]:
        """Computes bounds; candidates on the same placement share a probe. Candidates without costs
        have no bounds.
        """
        probes = {_placed(c): c for c in candidates}
        frame = self._frame(map(self.space.probe, probes.values()))
        rows = frame.itertuples(index=False)
        known = {
            placed: _bounds(c, row)
            for (placed, c), row in zip(probes.items(), rows, strict=True)
            if row.error is None
        }
        if not known:
            raise PipeSchedError(str(frame.error.iloc[0]))
        return {c: known[_placed(c)] for c in candidates if _placed(c) in known}

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """Evaluates candidates, each only once, and returns those that have a schedule, in
        order.
        """
        new = [c for c in dict.fromkeys(candidates) if c not in self.outcomes]
        if new:
            frame = self._frame(map(self.space.configuration, new))
            columns = zip(new, frame.error, frame.makespan_ps, frame.peak_bytes, strict=True)
            for c, error, makespan, peak in columns:
                if error is None:
                    size = per_accelerator(_known(peak), c)
                    self.outcomes[c] = Outcome(c, int(makespan), size)
                else:
                    self.counts.impossible += 1
                    self.reasons.setdefault(str(error))
            self.counts.evaluated += len(new)
        return [self.outcomes[c] for c in candidates if c in self.outcomes]

    def _report(self, done: int, total: int) -> None:
        if self.progress:
            self.progress(done, total)

    # The search

    def run(self, top: int, misses: int) -> Found:
        """Finds the best that fit and those that nearly fit."""
        candidates = self.space.candidates()
        self.counts.considered = len(candidates)
        bounds = self.bounds(candidates)
        usable = self.space.request.usable_bytes
        small = [c for c in candidates if c in bounds and bounds[c].peak_bytes <= usable]
        large = [c for c in candidates if c in bounds and bounds[c].peak_bytes > usable]
        self.counts.too_large = len(large)
        fitting = self._best(small, bounds, top)
        missing = self._nearest(large, bounds, fitting, misses)
        return Found(fitting[:top], missing, replace(self.counts))

    def _best(
        self, small: list[Candidate], bounds: dict[Candidate, Bounds], top: int
    ) -> list[Outcome]:
        small.sort(key=lambda c: (bounds[c].step_ps, c.order, c.shape))
        usable = self.space.request.usable_bytes
        fitting: list[Outcome] = []
        done = 0
        for piece in _rounds(small):
            slowest = fitting[top - 1].step_ps if len(fitting) >= top else math.inf
            if bounds[piece[0]].step_ps > slowest:
                break
            self._report(done, len(small))
            possible = [c for c in piece if bounds[c].step_ps <= slowest]
            fitting += [o for o in self.evaluate(possible) if o.peak_bytes <= usable]
            fitting.sort(key=by_step)
            done += len(possible)
        self._report(len(small), len(small))
        self.counts.too_slow = len(small) - done
        self.counts.fitting = len(fitting)
        return fitting

    def _nearest(
        self,
        large: list[Candidate],
        bounds: dict[Candidate, Bounds],
        fitting: list[Outcome],
        misses: int,
    ) -> list[Outcome]:
        """The nearest outcome for each choice of degrees, without those that are no faster than
        the best that fits.
        """
        fastest = fitting[0].step_ps if fitting else math.inf
        usable = self.space.request.usable_bytes
        tried = [o for o in self.outcomes.values() if o.peak_bytes > usable]
        large.sort(key=lambda c: (bounds[c].step_ps > fastest, bounds[c].peak_bytes, c.order))
        tried += self.evaluate(large[:NEAREST])
        tried = [o for o in tried if o.step_ps < fastest]
        tried.sort(key=nearness)
        degrees = {o.candidate.shape.degrees: o for o in reversed(tried)}
        return sorted(degrees.values(), key=nearness)[:misses]


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
