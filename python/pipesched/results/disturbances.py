"""How much longer a step takes if workers or stages are slow, or if times vary. The jitter of a
cell depends on the seed, its stage, phase and microbatch only, so that schedules compare.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _core
from ..costs.costs import Costs
from ..errors import PipeSchedError, WrongType
from ..schedule.schedule import Schedule
from ..support.options import integer, mapping_of, number_of, text_of
from .batch import evaluate_points
from .configuration import Configuration

Factor = float | str
"""`1.3` or `"1.3"`: 30 % slower."""

SEEDS = 20
_DECIMAL = re.compile(r"\d+(\.\d+)?")


def _decimal(what: str, value: Factor) -> str:
    """Returns the number as the library reads it: decimal, without an exponent."""
    if isinstance(value, str):
        return text_of(what, value).strip()
    return f"{number_of(what, value):.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Disturbed:
    """One disturbance: its text without a seed, its name, and its strength."""

    text: str
    name: str
    strength: float | None
    """The factor minus one, or the jitter; None for several disturbances together."""
    varies: bool
    others: tuple[str, ...] = ()
    """The disturbances of the other pipelines. The slowest pipeline determines the step."""

    def seeded(self, seeds: int) -> list[str]:
        """Returns the texts for the library for each seed (once if nothing depends on seeds): one
        text for each pipeline.
        """
        texts = (self.text, *self.others)
        if not self.varies:
            return list(texts)
        return [f"{text},seed={seed}" for seed in range(1, seeds + 1) for text in texts]


KINDS = ("worker", "stage", "node")
_NUMBERED = re.compile(rf"({'|'.join(KINDS)})\s*(\d+)")


def add_disturbances(text: str, found: dict[str, Any]) -> None:
    """Adds the disturbances of a text to the arguments that slow a step.

    >>> found = {"slow_worker": {0: "2"}}
    >>> add_disturbances("worker3=1.3,jitter=5%,seeds=4", found)
    >>> found
    {'slow_worker': {0: '2', 3: '1.3'}, 'jitter': '5%', 'seeds': 4}
    """
    for part in text.split(","):
        name, _, value = (each.strip() for each in part.partition("="))
        numbered = _NUMBERED.fullmatch(name)
        if not value or not (numbered or name in ("jitter", "seeds")):
            raise PipeSchedError(
                "expected a slow worker, stage or node and its factor, such as worker3=1.3, or"
                f" jitter=5%, with seeds=20 draws of it, found {part!r}"
            )
        if numbered:
            kind, number = f"slow_{numbered[1]}", int(numbered[2])
            factors: dict[int, str] = found.get(kind) or {}
            if number in factors:
                raise PipeSchedError(f"{numbered[1]} {number} is given twice")
            found[kind] = {**factors, number: value}
        elif found.get(name) is not None:
            raise PipeSchedError(f"{name} is given twice")
        elif name == "jitter":
            found[name] = value
        elif value.isascii() and value.isdecimal() and int(value):
            found[name] = int(value)
        else:
            raise PipeSchedError(f"expected a positive integer, found {value!r}")


# Nodes


@dataclass(frozen=True)
class Nodes:
    """The places of the accelerators of all pipelines."""

    per_node: int
    accelerators: int
    """Per worker."""
    workers: int
    pipelines: int
    rank_order: str

    @staticmethod
    def from_costs(costs: Costs | None, workers: int) -> Nodes:
        """The nodes of pipelines of this many workers; `costs` has the system."""
        if costs is None or costs.system is None:
            raise PipeSchedError(
                "a slow node is one of a system; give a system, or slow workers in its place"
            )
        sizes = _core.sizes(costs._raw)
        each = sizes["accelerators_per_node"], sizes["accelerators"]
        return Nodes(*each, workers, costs.data_parallel, costs.rank_order)

    @property
    def count(self) -> int:
        return -(-self.accelerators * self.workers * self.pipelines // self.per_node)

    def _place(self, rank: int) -> tuple[int, int]:
        """The pipeline and the worker of a rank."""
        group = rank // self.accelerators
        if self.rank_order == "data":
            return group % self.pipelines, group // self.pipelines
        return group // self.workers, group % self.workers

    def on(self, node: int) -> dict[int, set[int]]:
        """Returns the workers of each pipeline that have an accelerator on a node."""
        if not 0 <= node < self.count:
            nodes = "node 0 alone" if self.count == 1 else f"nodes 0 to {self.count - 1}"
            total = self.accelerators * self.workers * self.pipelines
            raise PipeSchedError(
                f"there is no node {node}: {total} accelerators, {self.per_node} on a node, are on"
                f" {nodes}"
            )
        found: dict[int, set[int]] = {}
        last = min((node + 1) * self.per_node, self.accelerators * self.workers * self.pipelines)
        for rank in range(node * self.per_node, last):
            pipeline, worker = self._place(rank)
            found.setdefault(pipeline, set()).add(worker)
        return found

    def slowed(self, nodes: Mapping[int, str]) -> list[dict[int, list[str]]]:
        """Returns the factors of workers for each pipeline with a slow node. Pipelines with equal
        factors are returned once.
        """
        pipelines: dict[int, dict[int, list[str]]] = {}
        for node, factor in nodes.items():
            for pipeline, workers in self.on(node).items():
                for worker in sorted(workers):
                    pipelines.setdefault(pipeline, {}).setdefault(worker, []).append(factor)
        kinds = {str(sorted(each.items())): each for _, each in sorted(pipelines.items())}
        return list(kinds.values())


def _product(factors: Sequence[str]) -> str:
    """Multiplies two factors exactly: `1.1` and `1.2` give `1.32`."""
    if len(factors) == 1:
        return factors[0]
    return _decimal("a factor", math.prod(map(float, factors)))


def _texts_of(
    workers: Mapping[int, str], nodes: Mapping[int, str], where: Nodes | None, rest: Sequence[str]
) -> list[str]:
    """Returns the joint disturbance of slow workers, slow nodes and the rest, for each kind of
    pipeline.
    """
    found = []
    for slowed in where.slowed(nodes) if where is not None else [{}]:
        factors = {worker: list(each) for worker, each in slowed.items()}
        for worker, factor in workers.items():
            factors.setdefault(worker, []).append(factor)
        found.append([f"worker{n}={_product(each)}" for n, each in sorted(factors.items())])
    return [",".join([*each, *rest]) for each in found]


def _factors(what: str, given: Mapping[int, Factor] | None) -> dict[int, str]:
    """The factors of slow workers, stages or nodes as the library reads them."""
    found = {}
    for number, factor in mapping_of(f"slow_{what}s", "{3: 1.3}", given).items():
        integer(f"a {what}", number, 0)
        text = _decimal(f"the factor of {what} {number}", factor)
        if not _DECIMAL.fullmatch(text):
            raise PipeSchedError(
                f"{what} {number}: expected a factor such as 1.3, found {factor!r}"
            )
        found[number] = text
    return found


def _slow(what: str, given: Mapping[int, str]) -> Iterable[Disturbed]:
    for number, text in given.items():
        name = f"{what} {number} x {text}"
        yield Disturbed(f"{what}{number}={text}", name, float(text) - 1, False)


def _slow_nodes(given: Mapping[int, str], where: Nodes | None) -> Iterable[Disturbed]:
    for number, text in given.items():
        first, *others = _texts_of({}, {number: text}, where, ())
        yield Disturbed(first, f"node {number} x {text}", float(text) - 1, False, tuple(others))


def _part(given: Factor) -> str:
    """Returns jitter as the library reads it: `5%` for `0.05` and for `"5%"`."""
    if isinstance(given, str):
        return given.strip()
    return f"{_decimal('jitter', 100 * number_of('jitter', given))}%"


def disturbances(
    slow_workers: Mapping[int, Factor] | None = None,
    slow_stages: Mapping[int, Factor] | None = None,
    jitter: Factor | None = None,
    slow_nodes: Mapping[int, Factor] | None = None,
    where: Nodes | None = None,
) -> list[Disturbed]:
    """Returns the given disturbances one by one, and then all of them together. `where` gives the
    places of the accelerators, and is needed for slow nodes.

    >>> [each.text for each in disturbances({3: 1.3}, jitter=0.05)]
    ['worker3=1.3', 'jitter=5%', 'worker3=1.3,jitter=5%']
    >>> disturbances(slow_nodes={0: 2}, where=Nodes(8, 4, 4, 1, "data"))[0].text
    'worker0=2,worker1=2'
    """
    workers, stages = _factors("worker", slow_workers), _factors("stage", slow_stages)
    nodes = _factors("node", slow_nodes)
    slow_stage = [*_slow("stage", stages)]
    found = [*_slow("worker", workers), *slow_stage, *_slow_nodes(nodes, where)]
    rest = [each.text for each in slow_stage]
    if jitter is not None:
        part = _part(jitter)
        if not part.endswith("%") or not _DECIMAL.fullmatch(part[:-1].strip()):
            raise PipeSchedError(f"jitter: expected a part such as 5%, found {jitter!r}")
        found.append(Disturbed(f"jitter={part}", f"jitter {part}", float(part[:-1]) / 100, True))
        rest.append(found[-1].text)
    if len(found) > 1:
        first, *others = _texts_of(workers, nodes, where if nodes else None, rest)
        varies = found[-1].varies
        found.append(Disturbed(first, "all together", None, varies, tuple(others)))
    return found


@dataclass(frozen=True)
class Sensitivity:
    """The effect of one disturbance on one schedule."""

    disturbance: str
    step_ps: int
    """The step without the disturbance."""
    disturbed_ps: tuple[int, ...]
    """The steps with the disturbance: one for each seed if it depends on seeds."""
    strength: float | None

    @property
    def mean_ps(self) -> float:
        """The mean of the disturbed steps."""
        return sum(self.disturbed_ps) / len(self.disturbed_ps)

    @property
    def ratio(self) -> float:
        """The mean of the disturbed steps over the step."""
        return self.mean_ps / self.step_ps

    @property
    def worst_ratio(self) -> float:
        """The longest of the disturbed steps over the step."""
        return max(self.disturbed_ps) / self.step_ps

    @property
    def per_unit(self) -> float | None:
        """The relative loss of the step divided by the relative loss of its cells."""
        return (self.ratio - 1) / self.strength if self.strength else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "disturbance": self.disturbance,
            "step_s": self.step_ps / 1e12,
            "disturbed_step_s": self.mean_ps / 1e12,
            "ratio": self.ratio,
            "worst_ratio": self.worst_ratio,
            "seeds": len(self.disturbed_ps),
            "per_unit": self.per_unit,
        }


def measured(
    steps: Callable[[Sequence[str]], Sequence[int]], given: Sequence[Disturbed], seeds: int = SEEDS
) -> list[Sensitivity]:
    """Returns the effect of each disturbance. `steps` returns the steps of the schedule, in ps,
    under the disturbances in a list of texts; the empty text means none.
    """
    integer("seeds", seeds, 1, 10_000)
    texts = [each.seeded(seeds) for each in given]
    step, *rest = steps(["", *(text for some in texts for text in some)])
    if not step:
        raise PipeSchedError("a step that takes no time cannot be disturbed")
    found, remaining = [], iter(rest)
    for each, some in zip(given, texts, strict=True):
        pipelines = 1 + len(each.others)
        drawn = [[next(remaining) for _ in range(pipelines)] for _ in some[::pipelines]]
        taken = tuple(map(max, drawn))
        found.append(Sensitivity(each.name, step, taken, each.strength))
    return found


def steps_of(point: Configuration | Schedule) -> Callable[[Sequence[str]], Sequence[int]]:
    """Returns a function that times a schedule under disturbances, on all cores for families of the
    library.
    """

    def steps(texts: Sequence[str]) -> list[int]:
        if isinstance(point, Schedule):
            found = evaluate_points([point.simulate(disturbance=text) for text in texts])
        else:
            found = evaluate_points([replace(point, disturbance=text) for text in texts])
        for error in found.errors:
            if error is not None:
                raise PipeSchedError(f"{point.family}: {error}")
        return [int(step) for step in found.columns["makespan_ps"]]

    return steps


def sensitivity(
    point: Configuration | Schedule,
    *,
    slow_workers: Mapping[int, Factor] | None = None,
    slow_stages: Mapping[int, Factor] | None = None,
    jitter: Factor | None = None,
    seeds: int = SEEDS,
    slow_nodes: Mapping[int, Factor] | None = None,
) -> list[Sensitivity]:
    """Returns by how much the step grows if workers, stages or nodes take `1.3` times as long, or
    if the time of each cell varies by up to a given part (`0.05` or `"5%"`), for seeds 1 to
    `seeds`. Stages are numbered along each path. Messages, all-reduces and copies to the host keep
    their times. A schedule uses the costs that it names. Slow nodes need a configuration with a
    system: they slow the workers that have accelerators on them, and the slowest pipeline gives the
    step.

    >>> point = Configuration("1f1b", workers=4, microbatches=8)
    >>> found = sensitivity(point, slow_workers={3: 1.5})[0]
    >>> round(found.ratio, 3), round(found.per_unit, 3)
    (1.364, 0.727)
    """
    if not isinstance(point, (Configuration, Schedule)):
        raise WrongType(f"point is a Configuration or a Schedule; got {point!r}")
    where = None
    if slow_nodes is not None and _factors("node", slow_nodes):
        where = Nodes.from_costs(getattr(point, "costs", None), point.workers)
    given = disturbances(slow_workers, slow_stages, jitter, slow_nodes, where)
    return measured(steps_of(point), given, seeds)
