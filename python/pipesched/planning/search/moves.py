"""Moves layers from a stage that is too full or too slow to another one, and says its
effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..candidate import OPTIMIZED, Candidate
from ..space.space import Space
from .limits import Limits
from .search import Found, Outcome, Search, only_better

if TYPE_CHECKING:
    pass

MOST_LAYERS = 2
"""The maximal number of layers to move at once."""

MOST_TARGETS = 4
"""The number of stages to try to move layers to: the least busy ones."""

MOST_TRIES = 4
"""The maximal number of moves of the best configuration, one after the other."""

SLACK = 0.02
"""The ratio by which a step may be longer than the best for moves to be tried."""

SLOWER = 0.01
"""How much longer than the mean of all workers, as a ratio, the slowest one must compute for a move
to be tried.
"""


@dataclass(frozen=True)
class Moved:
    """The best move of layers of a configuration, and the step before and after it."""

    stage: str
    """The stage that is the slowest: first or last."""
    above_mean: float
    """How much longer its worker computes than the mean of all workers, as a ratio."""
    change: str
    outcome: Outcome
    before_ps: int


def _name_stage(stage: int, stages: int) -> str:
    """`the first stage`, `stage 3`, `the last stage`."""
    return {0: "the first stage", stages - 1: "the last stage"}.get(stage, f"stage {stage}")


def _text(count: int, source: int, target: int, stages: int) -> str:
    layers = "a layer" if count == 1 else f"{count} layers"
    return f"{layers} moved from {_name_stage(source, stages)} to {_name_stage(target, stages)}"


@dataclass(frozen=True)
class Ends:
    """The stages to move layers from and to, the most urgent first."""

    sources: Sequence[int]
    targets: Sequence[int]


def move_layers(candidate: Candidate, ends: Ends) -> Iterator[tuple[str, Candidate]]:
    """The same configuration with moved layers, with a text that names them. Every stage keeps a
    layer. If several paths divide layers in different ways, layers are not moved.
    """
    if len(set(candidate.layers)) > 1:
        return
    counts, stages = candidate.layers[0], len(candidate.layers[0])
    for source in ends.sources:
        for target in ends.targets:
            for count in range(1, min(MOST_LAYERS, counts[source] - 1) + 1):
                if target == source:
                    break
                layers = list(counts)
                layers[source] -= count
                layers[target] += count
                other = candidate._replace(layers=(tuple(layers),) * len(candidate.layers))
                yield _text(count, source, target, stages), other


def _by_worker(candidate: Candidate, loads: Sequence[float]) -> list[int]:
    """The stages of the first path by the load of their workers, the least first."""
    workers = candidate.paths[0]
    return sorted(range(len(workers)), key=lambda stage: (loads[workers[stage]], -stage))


def ends_of(space: Space, candidate: Candidate) -> Ends:
    """From the fullest worker and from the ends of the path, to the emptiest workers."""
    stages = len(candidate.paths[0])
    is_made = stages > 1 and candidate.schedule != OPTIMIZED
    memory = space.configuration(candidate).simulate().memory if is_made else None
    if memory is None:
        return Ends((), ())
    ordered = _by_worker(candidate, [float(size) for size in memory.peak_bytes])
    sources = dict.fromkeys([ordered[-1], stages - 1, 0])
    return Ends(list(sources), ordered[:MOST_TARGETS])


def move_of_best(search: Search, outcome: Outcome) -> Moved | None:
    """The best move from the first or the last stage of a configuration, if the worker of one of
    them computes the longest; None if neither does, or if no move fits. It need not be better.
    """
    candidate, space = outcome.candidate, search.space
    stages = len(candidate.paths[0])
    if stages < 2 or len(candidate.paths) > 1:
        return None
    busy = [float(ps) for ps in space.configuration(candidate).simulate().execution.cells_ps]
    slowest, mean = max(range(len(busy)), key=busy.__getitem__), sum(busy) / len(busy)
    above = busy[slowest] / mean - 1
    held = [s for s in (stages - 1, 0) if candidate.paths[0][s] == slowest]
    if above < SLOWER or not held:
        return None
    ends = Ends(held[:1], _by_worker(candidate, busy)[:MOST_TARGETS])
    changes = {c: change for change, c in move_layers(candidate, ends) if space.is_run(c)}
    usable = space.request.usable_bytes
    tried = [o for o in search.evaluate(list(changes)) if o.peak_bytes <= usable]
    if not tried:
        return None
    best = min(tried, key=lambda o: (o.step_ps, o.peak_bytes))
    change = changes[best.candidate]
    return Moved(_name_stage(held[0], stages), above, change, best, outcome.step_ps)


def _ends(limits: Limits, candidate: Candidate) -> Iterator[Ends]:
    """The sources and targets of moved layers: from the fullest worker and from the ends of the
    path to the emptiest ones, and from the busiest end, or the busiest worker if some are slow, to
    the least busy ones.
    """
    busy, held = limits.loads(candidate)
    stages = len(candidate.paths[0])
    by_memory, by_time = _by_worker(candidate, held), _by_worker(candidate, busy)
    sources = list(dict.fromkeys([by_memory[-1], stages - 1, 0]))
    yield Ends(sources, by_memory[:MOST_TARGETS])
    slowest = max(range(len(busy)), key=busy.__getitem__)
    places = range(stages - 1, -1, -1) if limits.is_uneven else (stages - 1, 0)
    ends = [s for s in places if candidate.paths[0][s] == slowest]
    yield Ends(ends[:1], by_time[:MOST_TARGETS])


def _variants(search: Search, candidate: Candidate, limit_ps: float) -> list[Candidate]:
    """The configurations with layers moved that may fit and take at most `limit_ps`."""
    found = {
        c: None for ends in _ends(search.limits, candidate) for _, c in move_layers(candidate, ends)
    }
    kept = []
    for other in filter(search.space.is_run, found):
        least = search.limits.of_candidate(other, limit_ps)
        if least.peak_bytes <= search.usable and least.step_ps <= limit_ps:
            kept.append(other)
    return kept


def _movable(search: Search, limit_ps: float) -> list[Candidate]:
    """The configurations, whether they fit or not, whose step is at most a little longer than the
    best, and that may fit once layers are moved.
    """
    near = limit_ps * (1 + SLACK)
    return [o.candidate for o in search.movable(near, MOST_LAYERS) if o.step_ps <= near]


def try_moves(search: Search, found: Found) -> None:
    """Adds configurations that fit and are better than the best once layers are moved, in several
    rounds.
    """
    limit = float(found.fitting[0].step_ps) if found.fitting else math.inf
    nearest = [o.candidate for o in found.missing]
    frontier = _movable(search, limit) if found.fitting else nearest
    for _ in range(MOST_TRIES):
        wide = limit * search.widening
        variants = [v for c in frontier for v in _variants(search, c, wide)]
        untried = (c for c in dict.fromkeys(variants) if c not in search.outcomes)
        new = [c for c in untried if search.is_listed(c)]
        search.moved.update(new)
        fitting = search.evaluate_small(new)
        found.fitting = only_better([*found.fitting, *fitting], set(new))
        if not found.fitting or found.fitting[0].step_ps >= limit:
            break
        limit = float(found.fitting[0].step_ps)
        frontier = [o.candidate for o in found.fitting[:MOST_TRIES]]
    if found.fitting:
        fastest = found.fitting[0].step_ps
        found.missing = [o for o in found.missing if o.step_ps < fastest]
