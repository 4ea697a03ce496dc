"""How much longer a step takes if workers or stages are slow, or if times vary.

Each disturbance is tried alone, and all of them together if there are several. The factor of a cell
under jitter depends on the seed, its stage, phase and microbatch, so that schedules that have the
same cells are disturbed alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import _core
from ._batch import Configuration
from ._errors import PipeSchedError
from ._options import TimingOptions, integer, number_of
from ._schedule import Schedule

Factor = float | str
"""`1.3` or `"1.3"`: 30 % slower."""

SEEDS = 20
"""The default number of seeds."""

_DECIMAL = re.compile(r"\d+(\.\d+)?")


def _decimal(what: str, value: Factor) -> str:
    """The value as the library reads it, without an exponent."""
    if isinstance(value, str):
        return value.strip()
    return f"{number_of(what, value):.6f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Disturbed:
    """One disturbance: its text without a seed, what it is called, and how strong it is."""

    text: str
    name: str
    strength: float | None
    """The factor minus one, or the jitter; None for several disturbances together."""
    varies: bool
    """Whether it depends on the seed."""

    def seeded(self, seeds: int) -> list[str]:
        """The texts for the library, one for each seed if it depends on seeds."""
        if not self.varies:
            return [self.text]
        return [f"{self.text},seed={seed}" for seed in range(1, seeds + 1)]


def _slow(what: str, given: Mapping[int, Factor]) -> Iterable[Disturbed]:
    if not isinstance(given, Mapping):
        raise TypeError(f"slow_{what}s is a mapping such as {{3: 1.3}}; got {given!r}")
    for number, factor in given.items():
        integer(f"a {what}", number, 0)
        text = _decimal(f"the factor of {what} {number}", factor)
        if not _DECIMAL.fullmatch(text):
            raise PipeSchedError(
                f"{what} {number}: expected a factor such as 1.3, found {factor!r}"
            )
        strength = float(text) - 1
        yield Disturbed(f"{what}{number}={text}", f"{what} {number} x {text}", strength, False)


def _part(given: Factor) -> str:
    """Jitter as the library reads it: `5%` for `0.05` and for `"5%"`."""
    if isinstance(given, str):
        return given.strip()
    return f"{_decimal('jitter', 100 * number_of('jitter', given))}%"


def disturbances(
    slow_workers: Mapping[int, Factor] | None = None,
    slow_stages: Mapping[int, Factor] | None = None,
    jitter: Factor | None = None,
) -> list[Disturbed]:
    """The given disturbances, each alone, and then all together.

    >>> [each.text for each in disturbances({3: 1.3}, jitter=0.05)]
    ['worker3=1.3', 'jitter=5%', 'worker3=1.3,jitter=5%']
    """
    found = [*_slow("worker", slow_workers or {}), *_slow("stage", slow_stages or {})]
    if jitter is not None:
        part = _part(jitter)
        if not part.endswith("%") or not _DECIMAL.fullmatch(part[:-1].strip()):
            raise PipeSchedError(f"jitter: expected a part such as 5%, found {jitter!r}")
        found.append(Disturbed(f"jitter={part}", f"jitter {part}", float(part[:-1]) / 100, True))
    if len(found) > 1:
        text = ",".join(each.text for each in found)
        found.append(Disturbed(text, "all together", None, found[-1].varies))
    return found


@dataclass(frozen=True)
class Sensitivity:
    """What one disturbance does to one schedule."""

    disturbance: str
    step_ps: int
    """The step without the disturbance."""
    disturbed_ps: tuple[int, ...]
    """The steps with the disturbance: one for each seed if it depends on seeds."""
    strength: float | None
    """The factor minus one, or the jitter; None for several disturbances together."""

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
        """The relative loss of the step divided by that of its cells: 1 if the step slows down as
        much as the cells, 0 if it does not slow down.
        """
        return (self.ratio - 1) / self.strength if self.strength else None

    def to_dict(self) -> dict[str, Any]:
        """The values for JSON."""
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
    """The sensitivities of a schedule; `steps` gives its step in picoseconds under each of some
    disturbances, of which "" is none.
    """
    integer("seeds", seeds, 1, 10_000)
    texts = [each.seeded(seeds) for each in given]
    step, *rest = steps(["", *(text for some in texts for text in some)])
    if not step:
        raise PipeSchedError("a step that takes no time cannot be disturbed")
    found, remaining = [], iter(rest)
    for each, some in zip(given, texts, strict=True):
        taken = tuple(next(remaining) for _ in some)
        found.append(Sensitivity(each.name, step, taken, each.strength))
    return found


def steps_of(point: Configuration) -> Callable[[Sequence[str]], Sequence[int]]:
    """The steps of a configuration under disturbances, evaluated on all cores."""

    def steps(texts: Sequence[str]) -> list[int]:
        points = [replace(point, disturbance=text) for text in texts]
        columns, errors = _core.sweep([each._raw() for each in points], 0, None)
        for error in errors:
            if error is not None:
                raise PipeSchedError(f"{point.family}: {error}")
        return [int(step) for step in columns["makespan_ps"]]

    return steps


def _steps_one_by_one(point: Configuration | Schedule) -> Callable[[Sequence[str]], Sequence[int]]:
    """The same for rows that do not come from a family of the library."""

    def steps(texts: Sequence[str]) -> list[int]:
        schedule = point if isinstance(point, Schedule) else point._with_step(point.generate())
        costs, given = (None, {}) if isinstance(point, Schedule) else (point.costs, point._timing)
        found = []
        for text in texts:
            timing: TimingOptions = {**given, "disturbance": text}
            found.append(schedule.simulate(costs, **timing).execution.makespan_ps)
        return found

    return steps


def sensitivity(
    point: Configuration | Schedule,
    *,
    slow_workers: Mapping[int, Factor] | None = None,
    slow_stages: Mapping[int, Factor] | None = None,
    jitter: Factor | None = None,
    seeds: int = SEEDS,
) -> list[Sensitivity]:
    """How much longer the step takes if workers or stages take `1.3` times as long, or if the time
    of each cell varies by up to a part of it (`0.05` or `"5%"`), for seeds 1 to `seeds`. Stages are
    numbered along each path. Messages, all-reduces and copies to the host keep their times. A
    schedule takes the costs that it names.

    >>> point = Configuration("1f1b", workers=4, microbatches=8)
    >>> found = sensitivity(point, slow_workers={3: 1.5})[0]
    >>> round(found.ratio, 3), round(found.per_unit, 3)
    (1.364, 0.727)
    """
    if not isinstance(point, (Configuration, Schedule)):
        raise TypeError(f"point is a Configuration or a Schedule; got {point!r}")
    given = disturbances(slow_workers, slow_stages, jitter)
    if isinstance(point, Configuration) and not point._is_own:
        return measured(steps_of(point), given, seeds)
    return measured(_steps_one_by_one(point), given, seeds)
