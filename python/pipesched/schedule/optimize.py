"""Runs `pipe-optimize` and returns the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from ..errors import WrongType
from ..support.options import (
    MemoryTimes,
    Objective,
    PlacementName,
    Recompute,
    code_of,
    flag_of,
    integer,
    list_of,
    names_of,
    number_of,
    pass_options,
    text_of,
)

if TYPE_CHECKING:
    from .schedule import Schedule

Status = Literal["optimal", "gap-reached", "limit", "interrupted"]

DEFAULT_TIME_LIMIT = 30
"""The default time limit of `Schedule.optimize`, in seconds."""

_STATUSES: tuple[Status, ...] = ("optimal", "gap-reached", "limit", "interrupted")
"""In the order of the library's."""


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
    """In sequences; None if `microbatch_sizes` were not given."""
    objective_ps: int | None
    """None: no schedule exists."""
    is_bound: bool
    """Whether `objective_ps` is only a lower bound, no better than the result."""
    reason: str | None
    """The reason why no schedule exists."""


@dataclass(frozen=True)
class Optimization:
    """The best schedule found, and a bound on its distance from the optimum."""

    schedule: Schedule
    objective: Objective
    objective_ps: int
    lower_bound_ps: int
    bound: str
    status: Status
    origin: str
    """The method by which the search found the schedule."""
    without: dict[str, int | None]
    """The objective without each technique that it uses; None: nothing fits, or not tried."""
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


def _placement(code: int | None) -> PlacementName | None:
    return None if code is None else cast("PlacementName", names_of(PlacementName)[code])


def _other(found: Mapping[str, Any]) -> Alternative:
    return Alternative(
        placement=_placement(found["placement"]),
        microbatch_size=found["microbatch_size"],
        objective_ps=found["objective_ps"],
        is_bound=found["is_bound"],
        reason=found["reason"] if found["objective_ps"] is None else None,
    )


def _read(schedule: Schedule, found: Mapping[str, Any]) -> Optimization:
    without = {each["name"].replace("-", "_"): each["objective_ps"] for each in found["without"]}
    return Optimization(
        schedule=schedule,
        objective=cast("Objective", names_of(Objective)[found["objective"]]),
        objective_ps=found["objective_ps"],
        lower_bound_ps=found["lower_bound_ps"],
        bound=found["bound"],
        status=_STATUSES[found["status"]],
        origin=found["origin"],
        without=without,
        placement=_placement(found["placement"]),
        microbatch_size=found["microbatch_size"],
        others=tuple(map(_other, found["others"])),
    )


_CHOICES = {"objective": Objective, "memory_times": MemoryTimes, "recompute": Recompute}
_COUNTS = {"chunks": 1, "waves": 1, "seed": 0, "threads": 0, "max_evaluations": 0}
"""Options that are integers, with the least value of each."""


def _check_option(name: str, value: Any) -> None:
    """Refuses a value that the option does not take. The message uses the names of Python, not of
    the pass.
    """
    if name in _CHOICES:
        code_of(_CHOICES[name], name, value)
    elif name in _COUNTS:
        if isinstance(value, bool):
            raise WrongType(f"{name} is an integer; got {value!r}")
        integer(name, value, _COUNTS[name])
    elif name in ("time_limit", "gap"):
        number_of(name, value, least=float("-inf"))  # The pass knows the limits.
    elif name in ("split_backward", "offload", "explain"):
        flag_of(name, value)
    elif name == "memory":
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            raise WrongType(f"memory is activations, or bytes such as '60GiB'; got {value!r}")
        text_of("memory", str(value))
    elif name == "placements":
        for kind in list_of(name, "['linear', 'wave']", value):
            code_of(PlacementName, "a placement", kind)
    elif name == "microbatch_sizes":
        for size in list_of(name, "[1, 2]", value):
            integer("a microbatch size", size, 1)


def the_pass(options: OptimizeOptions) -> str:
    """Returns the pass with these options. By default its time is limited and its number of
    evaluations is not.
    """
    for name, value in options.items():
        if value is not None or name in ("placements", "microbatch_sizes"):
            _check_option(name, value)
    given = {"time_limit": DEFAULT_TIME_LIMIT, "max_evaluations": 0, **options}
    if "placements" in options:
        given["placements"] = ",".join(options["placements"])
    if "microbatch_sizes" in options:
        given["microbatch_sizes"] = ",".join(map(str, options["microbatch_sizes"]))
    return "pipe-optimize" + pass_options(given)


def optimize(
    search: Callable[[str], tuple[Schedule, Sequence[Mapping[str, Any]]]], options: OptimizeOptions
) -> Optimization:
    """Runs the pass through `search`. Ctrl-C ends the search and is raised afterwards; if SIGINT
    does not raise an exception, the result is the best schedule found so far.
    """
    optimized, (found,) = search(the_pass(options))
    return _read(optimized, found)
