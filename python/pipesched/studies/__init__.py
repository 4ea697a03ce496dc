"""Published results, computed again: what `pipesched reproduce` prints and draws.

Each study is a function that returns a `Study`: a frame with our numbers beside the published ones,
what is given, fitted and open about them, and pictures.

>>> from pipesched.studies import study
>>> study("table1").frame.schedule.unique().tolist()
['chimera', 'hanayo']
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipesched import PipeSchedError
from pipesched._grid import closest

from . import (
    asymmetric,
    deepseek,
    figures,
    findings,
    groups,
    memory,
    overlap,
    plans,
    residuals,
    routing,
    slices,
    stability,
    table1,
    terms,
    unknowns,
    validation,
    vocabulary,
    zero_bubble,
)
from .study import Basis, Check, Finding, Study, Verdict


@dataclass(frozen=True)
class Target:
    """A result to reproduce; its options are the arguments of its function."""

    name: str
    summary: str
    function: Callable[..., Study]

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
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
        Target("zero-bubble", "published bubble rates of ICLR 2024", zero_bubble.zero_bubble),
        Target("slices", "schedules of slices: SlimPipe and Seq1F1B", slices.slices),
        Target("vocabulary", "shards of a head beside a whole one", vocabulary.vocabulary),
        Target("overlap", "exchanges of experts behind another microbatch", overlap.overlap),
        Target("routing", "steps whose experts nobody balances", routing.routing),
        Target("stability", "rankings by level, over a grid of systems", stability.stability),
        Target("validation", "measured layers, steps and memory", validation.validation),
        Target("groups", "measured rows by group, and their order", groups.groups),
        Target("switched-off", "recent rows with one term off", groups.switched_off),
        Target("residuals", "what bands are made of", residuals.residual_rows),
        Target("coverage", "measured rows inside bands of the others", residuals.coverage),
        Target("terms", "what each measured row owes to which term", terms.terms),
        Target("unknowns", "measured rows with other settings", unknowns.unknowns),
        Target("memory", "measured peaks of memory", memory.memory),
        Target("deepseek", "a published run of DeepSeek-V3, and plans", deepseek.deepseek),
        Target("plans", "what builders of published runs chose, and plans", plans.plans),
    )
}
"""All targets, in the order of `all`."""

__all__ = ["TARGETS", "Basis", "Check", "Finding", "Study", "Target", "Verdict", "find", "study"]


def find(name: str) -> Target:
    """Finds a target by its name."""
    if name in TARGETS:
        return TARGETS[name]
    hint = closest(name, (*TARGETS, "all"))
    raise PipeSchedError(f"there is nothing called {name!r} to reproduce{hint}")


def study(name: str, **options: Any) -> Study:
    """Runs a study by its name."""
    return find(name).function(**options)
