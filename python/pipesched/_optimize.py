"""Runs `pipe-optimize` and reads its result from its remarks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ._errors import Diagnostic, PipeSchedError, collect_remarks
from ._options import (
    MemoryTimes,
    Objective,
    PlacementName,
    Recompute,
    code_of,
    integer,
    list_of,
    number_of,
    pass_options,
)

if TYPE_CHECKING:
    from ._schedule import Schedule

Status = Literal["optimal", "gap-reached", "limit", "interrupted"]

DEFAULT_TIME_LIMIT = 30
"""The default time limit of `Schedule.optimize`, in seconds."""

_STATUSES: dict[str, Status] = {
    "proven optimal": "optimal",
    "within the gap asked for": "gap-reached",
    "the best within the limits": "limit",
    "interrupted": "interrupted",
}
_UNITS = {"s": 12, "ms": 9, "us": 6, "ns": 3, "ps": 0}
_FOUND = re.compile(
    r"@.*: (?P<objective>[a-z]+) (?P<found>\S+), (?P<status>[^;]+); "
    r"lower bound (?P<least>\S+) \((?P<bound>.+)\), gap \S+ %; from (?P<origin>.+)"
)
_CHOICE = r"(placement (?P<placement>[a-z]+))?(, )?(microbatch size (?P<size>\d+))?"
_CHOSEN = re.compile(f"chosen: {_CHOICE}")
_WITH = re.compile(f"with {_CHOICE}: (?P<rest>.+)", re.DOTALL)
_WITHOUT = re.compile(r"without (?P<name>[a-z-]+): (?P<rest>.+)", re.DOTALL)
_LONGER = re.compile(r"(?P<takes>[0-9.]+[a-z]+)(?P<bound> at least)?, \S+ % longer")


class OptimizeOptions(TypedDict, total=False):
    """Options of `Schedule.optimize`, as `pipe-optimize` has them."""

    objective: Objective
    memory: int | str
    memory_times: MemoryTimes
    split_backward: bool
    offload: bool
    recompute: Recompute
    placements: list[PlacementName]
    chunks: int
    waves: int
    microbatch_sizes: list[int]
    time_limit: float
    gap: float
    seed: int
    threads: int
    max_evaluations: int
    cache: str
    explain: bool


@dataclass(frozen=True)
class Alternative:
    """A placement and a microbatch size that were not chosen."""

    placement: PlacementName | None
    """None: `placements` were not given."""
    microbatch_size: int | None
    """In sequences; None: `microbatch_sizes` were not given."""
    objective_ps: int | None
    """None: no schedule exists."""
    is_bound: bool
    """Whether `objective_ps` is only a lower bound. It is no better than the result, so the
    alternative was not searched.
    """
    reason: str | None
    """Why no schedule exists."""


@dataclass(frozen=True)
class Optimization:
    """The best schedule found, and a bound on its distance from the optimum."""

    schedule: Schedule
    objective: Objective
    objective_ps: int
    lower_bound_ps: int
    """A lower bound on the objective of every schedule."""
    bound: str
    """The name of this bound."""
    status: Status
    origin: str
    """The method by which the search found the schedule."""
    without: dict[str, int | None]
    """The objective without each technique that it uses; None: nothing fits, or it was not
    tried.
    """
    placement: PlacementName | None = None
    """The best of `placements`, if these were given."""
    microbatch_size: int | None = None
    """The best of `microbatch_sizes`, if these were given."""
    others: tuple[Alternative, ...] = ()
    """The placements and sizes that were not chosen."""

    @property
    def gap(self) -> float:
        """Distance from the lower bound, as a fraction of that bound."""
        return self.objective_ps / self.lower_bound_ps - 1


def _ps(text: str) -> int:
    """Parses a printed time, such as "4.5ms"."""
    number = text.rstrip("mnpsu")
    return int(Decimal(number).scaleb(_UNITS[text[len(number) :]]))


def _without(note: Diagnostic) -> tuple[str, int | None] | None:
    said = _WITHOUT.fullmatch(note.message)
    if not said:
        return None
    longer = _LONGER.fullmatch(said["rest"])
    return said["name"].replace("-", "_"), _ps(longer["takes"]) if longer else None


def _choice(said: re.Match[str]) -> tuple[PlacementName | None, int | None]:
    placement = cast("PlacementName | None", said["placement"])
    return placement, int(said["size"]) if said["size"] else None


def _other(note: Diagnostic) -> Alternative | None:
    said = _WITH.fullmatch(note.message)
    if not said:
        return None
    longer = _LONGER.fullmatch(said["rest"])
    if not longer:
        return Alternative(*_choice(said), None, False, said["rest"])
    return Alternative(*_choice(said), _ps(longer["takes"]), bool(longer["bound"]), None)


def _chosen(notes: tuple[Diagnostic, ...]) -> tuple[PlacementName | None, int | None]:
    for note in notes:
        if said := _CHOSEN.fullmatch(note.message):
            return _choice(said)
    return None, None


def _read(schedule: Schedule, remarks: list[Diagnostic]) -> Optimization:
    for remark in remarks:
        if found := _FOUND.fullmatch(remark.message):
            placement, size = _chosen(remark.notes)
            return Optimization(
                schedule=schedule,
                objective=cast("Objective", found["objective"]),
                objective_ps=_ps(found["found"]),
                lower_bound_ps=_ps(found["least"]),
                bound=found["bound"],
                status=_STATUSES[found["status"]],
                origin=found["origin"],
                without=dict(filter(None, map(_without, remark.notes))),
                placement=placement,
                microbatch_size=size,
                others=tuple(filter(None, map(_other, remark.notes))),
            )
    raise PipeSchedError("pipe-optimize did not say what it found")


_COUNTS = {"chunks": 1, "waves": 1, "seed": 0, "threads": 0, "max_evaluations": 0}
"""Options that are integers, with the least value of each."""


def _check(options: OptimizeOptions) -> None:
    """Refuses values that no option takes. Otherwise the pass would refuse them in its own words.
    """
    given = cast("dict[str, Any]", options)
    for name, choices in (
        ("objective", Objective),
        ("memory_times", MemoryTimes),
        ("recompute", Recompute),
    ):
        if given.get(name) is not None:
            code_of(choices, name, given[name])
    for name, least in _COUNTS.items():
        if given.get(name) is not None:
            integer(name, given[name], least)
    for name in ("time_limit", "gap"):
        if given.get(name) is not None:
            number_of(name, given[name], least=float("-inf"))  # The pass knows the limits.
    for name in ("split_backward", "offload", "explain"):
        if not isinstance(given.get(name), (bool, type(None))):
            raise TypeError(f"{name} is True or False; got {given[name]!r}")
    memory = given.get("memory")
    if isinstance(memory, bool) or not isinstance(memory, (int, str, type(None))):
        raise TypeError(f"memory is activations, or bytes such as '60GiB'; got {memory!r}")
    if "placements" in options:
        for kind in list_of("placements", "['linear', 'wave']", options["placements"]):
            code_of(PlacementName, "a placement", kind)
    if "microbatch_sizes" in options:
        for size in list_of("microbatch_sizes", "[1, 2]", options["microbatch_sizes"]):
            integer("a microbatch size", size, 1)


def the_pass(options: OptimizeOptions) -> str:
    """The pass with these options. Unlike the pass itself, it has a time limit by default, and a
    limit on evaluations only on request.
    """
    _check(options)
    given = {"time_limit": DEFAULT_TIME_LIMIT, "max_evaluations": 0, **options}
    if "placements" in options:
        given["placements"] = ",".join(options["placements"])
    if "microbatch_sizes" in options:
        given["microbatch_sizes"] = ",".join(map(str, options["microbatch_sizes"]))
    return "pipe-optimize" + pass_options(given)


def optimize(search: Callable[[str], Schedule], options: OptimizeOptions) -> Optimization:
    """Runs the pass through `search`. Ctrl-C ends the search and is raised afterwards. If the
    process handles SIGINT without raising, the result is the best schedule found so far.
    """
    with collect_remarks() as remarks:
        optimized = search(the_pass(options))
    return _read(optimized, remarks)
