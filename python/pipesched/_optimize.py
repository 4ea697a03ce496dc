"""What the optimizer found, from what `pipe-optimize` says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Literal, TypedDict

from ._errors import Diagnostic, PipeSchedError, collect_remarks
from ._options import Recompute, pass_options

if TYPE_CHECKING:
    from ._schedule import Schedule

Objective = Literal["makespan", "period"]
Status = Literal["optimal", "gap-reached", "limit", "interrupted"]

_STATUSES: dict[str, Status] = {
    "proven optimal": "optimal",
    "within the gap asked for": "gap-reached",
    "the best within the limits": "limit",
    "interrupted": "interrupted",
}
_UNITS = {"s": 12, "ms": 9, "us": 6, "ns": 3, "ps": 0}
_FOUND = re.compile(
    r"@.*: (?P<objective>makespan|period) (?P<found>\S+), (?P<status>[^;]+); "
    r"lower bound (?P<least>\S+) \((?P<bound>.+)\), gap \S+ %; from (?P<origin>.+)"
)
_WITHOUT = re.compile(r"without (?P<name>[a-z-]+): (?P<rest>.+)", re.DOTALL)
_LONGER = re.compile(r"(?P<takes>[0-9.]+[a-z]+), \S+ % longer")


class OptimizeOptions(TypedDict, total=False):
    """Options of `Schedule.optimize`, as `pipe-optimize` has them."""

    objective: Objective
    memory: int | str
    split_backward: bool
    offload: bool
    recompute: Recompute
    placements: list[Literal["linear", "interleaved", "v", "wave"]]
    chunks: int
    waves: int
    time_limit: float
    gap: float
    seed: int
    threads: int
    max_evaluations: int
    cache: str
    explain: bool


@dataclass(frozen=True)
class Optimization:
    """The best schedule that was found, and how far it is from the best there is."""

    schedule: Schedule
    objective: Objective
    objective_ps: int
    lower_bound_ps: int
    """No schedule is below it."""
    bound: str
    """Which bound that is."""
    status: Status
    origin: str
    """What the search found it by."""
    without: dict[str, int | None]
    """What it takes without each of its freedoms; None: nothing fits, or it was not tried."""

    @property
    def gap(self) -> float:
        """Distance from the lower bound, as a share of it."""
        return self.objective_ps / self.lower_bound_ps - 1


def _ps(text: str) -> int:
    """The inverse of how times are printed: "4.5ms"."""
    number = text.rstrip("mnpsu")
    return int(Decimal(number).scaleb(_UNITS[text[len(number) :]]))


def _without(note: Diagnostic) -> tuple[str, int | None] | None:
    said = _WITHOUT.fullmatch(note.message)
    if not said:
        return None
    longer = _LONGER.fullmatch(said["rest"])
    return said["name"].replace("-", "_"), _ps(longer["takes"]) if longer else None


def _read(schedule: Schedule, remarks: list[Diagnostic]) -> Optimization:
    for remark in remarks:
        if found := _FOUND.fullmatch(remark.message):
            return Optimization(
                schedule=schedule,
                objective="makespan" if found["objective"] == "makespan" else "period",
                objective_ps=_ps(found["found"]),
                lower_bound_ps=_ps(found["least"]),
                bound=found["bound"],
                status=_STATUSES[found["status"]],
                origin=found["origin"],
                without=dict(filter(None, map(_without, remark.notes))),
            )
    raise PipeSchedError("pipe-optimize did not say what it found")


def optimize(schedule: Schedule, options: OptimizeOptions) -> Optimization:
    """Runs the pass; Ctrl-C ends its search and is raised afterwards."""
    given = dict(options)
    if "placements" in options:
        given["placements"] = ",".join(options["placements"])
    with collect_remarks() as remarks:
        optimized = schedule.transform("pipe-optimize" + pass_options(given))
    return _read(optimized, remarks)
