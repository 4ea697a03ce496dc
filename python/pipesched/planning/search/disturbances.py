"""Slow parts while a plan runs, and the steps that it makes of configurations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ...costs.costs import Costs
from ...results.disturbances import KINDS, Disturbed, Factor, Nodes, add_disturbances, disturbances
from ...support.options import mapping_of, text_of

_WORKER = re.compile(r"worker(\d+)=([\d.]+)")


@dataclass(frozen=True)
class Slow:
    """Slow parts: factors by number, and jitter."""

    workers: Mapping[int, Factor] = field(default_factory=dict)
    stages: Mapping[int, Factor] = field(default_factory=dict)
    nodes: Mapping[int, Factor] = field(default_factory=dict)
    jitter: Factor | None = None

    def __or__(self, other: Slow) -> Slow:
        return Slow(
            {**self.workers, **other.workers},
            {**self.stages, **other.stages},
            {**self.nodes, **other.nodes},
            self.jitter if other.jitter is None else other.jitter,
        )

    def _found(self, costs: Costs | None, workers: int) -> list[Disturbed]:
        where = Nodes.from_costs(costs, workers) if self.nodes else None
        return disturbances(self.workers, self.stages, self.jitter, self.nodes, where)

    def draws(self, costs: Costs | None, workers: int, seeds: int) -> list[list[str]]:
        """Returns the arguments of the library for all disturbances together: for each draw the
        texts for all kinds of pipelines, the slowest of which has the step; `[[""]]` without any.
        """
        found = self._found(costs, workers)
        if not found:
            return [[""]]
        last = found[-1]  # all together, if there are several
        kinds = 1 + len(last.others)
        texts = last.seeded(seeds)
        return [texts[i : i + kinds] for i in range(0, len(texts), kinds)]

    def name(self, costs: Costs | None, workers: int) -> str:
        """Returns the slow parts in words, such as `worker 3 x 1.3 and jitter 5%`."""
        found = self._found(costs, workers)
        return " and ".join(each.name for each in found if each.strength is not None)

    def least(self) -> float:
        """Returns the least factor of all cells."""
        factors = [*self.workers.values(), *self.stages.values(), *self.nodes.values()]
        found = 1.0
        for each in disturbances(dict(enumerate(factors)), jitter=self.jitter):
            if each.strength is not None:
                found *= 1 - each.strength if each.varies else min(1.0, 1 + each.strength)
        return found

    def speeds(self, costs: Costs | None, workers: int) -> list[float]:
        """Returns the factors that slow the workers, in the pipeline that is slowed most."""
        found: list[float] = []
        for text in self.draws(costs, workers, 1)[0]:
            factors = {int(number): float(factor) for number, factor in _WORKER.findall(text)}
            each = [factors.get(worker, 1.0) for worker in range(workers)]
            found = [*map(max, found, each)] if found else each
        return found

    def factors(self, costs: Costs | None, workers: int) -> npt.NDArray[np.float64]:
        """Returns the factors that the cells of each worker do not fall below, in the pipeline
        whose worker is the slowest.
        """
        found = np.ones(workers)
        for text in self.draws(costs, workers, 1)[0]:
            for number, factor in _WORKER.findall(text):
                if int(number) < workers:
                    found[int(number)] = max(found[int(number)], float(factor))
        return found * Slow(stages=self.stages, jitter=self.jitter).least()


def slow_of(
    workers: Mapping[int, Factor] | None,
    stages: Mapping[int, Factor] | None,
    nodes: Mapping[int, Factor] | None,
    jitter: Factor | None,
) -> Slow | None:
    """Returns the given slow parts; None without any."""
    one, two, three = (mapping_of("what is slow", "{0: 1.3}", e) for e in (workers, stages, nodes))
    slow = Slow(one, two, three, jitter)
    is_slow = jitter is not None or slow.workers or slow.stages or slow.nodes
    return slow if is_slow else None


def slow_by(disturbance: str, slow: Slow | None, seeds: int) -> tuple[Slow, int]:
    """Returns the slow parts, also from a text such as `worker3=1.3,jitter=5%`, and the draws."""
    found: dict[str, Any] = {}
    add_disturbances(text_of("disturbance", disturbance), found)
    workers, stages, nodes = (found.get(f"slow_{kind}", {}) for kind in KINDS)
    told = Slow(workers, stages, nodes, found.get("jitter"))
    return (slow or Slow()) | told, found.get("seeds", seeds)


def mean_step(draws: Sequence[Sequence[str]], step: Callable[[str], int]) -> int:
    """Returns the mean of the steps of all draws, in picoseconds."""
    return round(sum(max(map(step, texts)) for texts in draws) / len(draws))
