"""Systems with groups of nodes: the workers on each, the step that no plan beats, and the steps of
pipelines within a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product
from typing import Any

from ...costs.settings import read_system
from ...errors import PipeSchedError
from ..candidate import Candidate, Shape
from ..request import Request
from ..space.space import Space
from .search import Outcome, Search

MOST_TRIED = 8
"""The number of configurations whose pipelines are tried within groups."""

NEAR = 2
"""The microbatches by which a pipeline may differ from the number for its speed."""


@dataclass(frozen=True)
class Within:
    """A configuration with each pipeline within one group, and microbatches by speed."""

    candidate: Candidate
    pipelines: tuple[int, ...]
    """In each group."""
    microbatches: tuple[int, ...]
    """By group: the microbatches of each of its pipelines."""
    step_s: float


@dataclass(frozen=True)
class Groups:
    """The groups of a system, and a bound on the steps of all plans."""

    names: tuple[str, ...]
    least_s: float
    """The step if all accelerators shared its work by their speeds, each with the degrees, the
    microbatches and the recomputation that suit its group best, without messages or idle time.
    """
    within: Within | None

    def along(self, request: Request, shape: Shape) -> list[tuple[str, int]]:
        """The groups along the pipeline of a shape, with the number of their workers."""
        groups = groupby(request.groups_of(shape))
        return [(self.names[group], len([*same])) for group, same in groups]

    def to_dict(self) -> dict[str, Any]:
        found = None
        if self.within is not None:
            listed = zip(self.names, self.within.pipelines, self.within.microbatches, strict=True)
            keys = ("system", "pipelines", "microbatches")
            found = {
                "step_s": self.within.step_s,
                "groups": [dict(zip(keys, each, strict=True)) for each in listed],
            }
        return {"least_s": self.least_s, "within": found}


def _least_ps(request: Request, system: dict[str, Any], threads: int | None) -> float:
    """The least step if all nodes were of one group."""
    alone = Space(replace(request, system=system))
    return Search(alone, threads, None).limits.bases[0][0]


def _shares(
    counts: Sequence[int], pipelines: Sequence[int], steps: Sequence[float]
) -> Iterator[tuple[int, ...]]:
    """Microbatches of each pipeline of the groups, nearly by speed, of equally many as in all
    pipelines of `counts` together.
    """
    total = counts[0] * sum(pipelines)
    rate = sum(number / step for number, step in zip(pipelines, steps, strict=True))
    near = [round(total / (step * rate)) for step in steps[:-1]]
    for chosen in product(*(range(n - NEAR, n + NEAR + 1) for n in near)):
        rest = total - sum(n * number for n, number in zip(chosen, pipelines))
        if min(chosen) > 0 and rest > 0 and rest % pipelines[-1] == 0:
            yield *chosen, rest // pipelines[-1]


def _evaluate(
    search: Search, spaces: Sequence[Space], candidate: Candidate, shares: Sequence[Sequence[int]]
) -> list[float]:
    """The step of each share of microbatches in the slowest group; infinite if it does not fit."""
    points = [
        replace(space.configuration(candidate), microbatches=count)
        for share in shares
        for space, count in zip(spaces, share, strict=True)
    ]
    most = search.usable * candidate.shape.worker
    steps = [
        float("inf") if error or peak_bytes > most else float(makespan_ps)
        for error, makespan_ps, peak_bytes, _ in search.rows_of(points)
    ]
    size = len(spaces)
    return [max(steps[i : i + size]) for i in range(0, len(steps), size)]


def _within(
    search: Search, spaces: Sequence[Space], outcome: Outcome, counts: Sequence[int]
) -> Within | None:
    candidate = outcome.candidate
    shape = candidate.shape
    if any(count % (shape.worker * shape.pipeline) for count in counts):
        return None
    pipelines = [count // (shape.worker * shape.pipeline) for count in counts]
    equal = [shape.microbatches] * len(counts)
    alone = [_evaluate(search, [space], candidate, [equal[:1]])[0] for space in spaces]
    if not all(step < float("inf") for step in alone):
        return None
    shares = [*_shares(equal, pipelines, alone)]
    steps = _evaluate(search, spaces, candidate, shares)
    best = min(zip(steps, shares), default=None)
    if best is None or best[0] == float("inf"):
        return None
    return Within(candidate, tuple(pipelines), best[1], best[0] / 1e12)


def _find_within(request: Request, threads: int | None, counts: Sequence[int]) -> Within | None:
    """The best of the configurations that are best on the fastest group."""
    joined = {
        "accelerators_per_pod": request.sizes["group_unit"],
        "spine": read_system(request.system)["spine"],
    }
    systems = ({**group["system"], **joined} for group in request.groups)
    spaces = [Space(replace(request, system=system)) for system in systems]
    search = Search(spaces[0], threads, None)
    try:
        fitting = search.run(MOST_TRIED, 0).fitting
    except PipeSchedError:
        return None
    found = (_within(search, spaces, outcome, counts) for outcome in fitting)
    return min((each for each in found if each), key=lambda each: each.step_s, default=None)


def find_groups(request: Request, threads: int | None) -> Groups | None:
    """Returns the groups of the system of a request; None if it has none."""
    groups = request.groups
    if not groups:
        return None
    counts = [group["accelerators"] for group in groups]
    steps = [_least_ps(request, group["system"], threads) for group in groups]
    # Rates add up: each group does this many steps of this batch a second for its accelerators.
    rate = sum(n / (request.gpus * step) for n, step in zip(counts, steps, strict=True))
    names = tuple(group["system"]["name"] for group in groups)
    return Groups(names, 1 / rate / 1e12, _find_within(request, threads, counts))
