"""Systems with groups of nodes: which workers lie on which, and the step that no plan beats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..candidate import Shape
from ..request import Request
from ..space.space import Space
from .search import Search


@dataclass(frozen=True)
class Groups:
    """The groups of a system, and a bound on the steps of all plans."""

    names: tuple[str, ...]
    least_s: float
    """The step if all accelerators shared its work by their speeds, each with the degrees, the
    microbatches and the recomputation that suit its group best, without messages or idle time.
    """

    def along(self, request: Request, shape: Shape) -> list[tuple[str, int]]:
        """The groups along the pipeline of a shape, with the number of their workers."""
        groups = groupby(request.groups_of(shape))
        return [(self.names[group], len([*same])) for group, same in groups]


def _least_ps(request: Request, system: dict[str, Any], threads: int | None) -> float:
    """The least step if all nodes were those of one group."""
    alone = Space(replace(request, system=system))
    return Search(alone, threads, None).limits.bases[0][0]


def find_groups(request: Request, threads: int | None) -> Groups | None:
    """Returns the groups of the system of a request; None if it has none."""
    groups = request.groups
    if not groups:
        return None
    counts = [group["accelerators"] for group in groups]
    steps = [_least_ps(request, group["system"], threads) for group in groups]
    # Rates add up: so many steps of this batch a second does each group for its accelerators.
    rate = sum(n / (request.gpus * step) for n, step in zip(counts, steps, strict=True))
    names = tuple(group["system"]["name"] for group in groups)
    return Groups(names, 1 / rate / 1e12)
