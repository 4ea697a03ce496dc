"""The tables, figures and findings of arXiv 2605.24006, computed again for `pipesched reproduce`,
which prints and draws them.

Each target is a function that returns a `Study`: a frame with our numbers next to the published
ones, their given, fitted and open inputs, and pictures.

>>> from pipesched.paper import study
>>> study("table1").frame.schedule.unique().tolist()
['chimera', 'hanayo']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipesched import PipeSchedError
from pipesched.support.text import closest

from . import asymmetric, figures, findings, table1
from .study import Basis, Check, Finding, Pictures, Study, Verdict, figure, picture_files


@dataclass(frozen=True)
class Target:
    """A result to reproduce; its options are the arguments of its function."""

    name: str
    summary: str
    function: Callable[..., Study]

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(inspect.signature(self.function).parameters)


TARGETS = {
    target.name: target
    for target in (
        Target("table1", "Chimera and Hanayo on nine systems", table1.table1),
        Target("figure3", "bubbles by formula and by table", figures.figure3),
        Target("figure4", "steps over microbatches, on nine systems", figures.figure4),
        Target("figure5", "peak memory over microbatches", figures.figure5),
        Target("figure6", "Chimera on asymmetric paths", asymmetric.figure6),
        Target("findings", "what of the paper's findings is met", findings.findings),
    )
}
"""All targets, in the order of `all`."""

__all__ = [
    "TARGETS",
    "Basis",
    "Check",
    "Finding",
    "Pictures",
    "Study",
    "Target",
    "Verdict",
    "figure",
    "find",
    "picture_files",
    "study",
]


def find(name: str) -> Target:
    if name in TARGETS:
        return TARGETS[name]
    hint = closest(name, (*TARGETS, "all"))
    raise PipeSchedError(f"there is nothing called {name!r} to reproduce{hint}")


def study(name: str, **options: Any) -> Study:
    return find(name).function(**options)
