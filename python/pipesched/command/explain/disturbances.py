"""Slow workers, slow stages and jitter: their option, and the table of their costs."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pipesched import Costs, PipeSchedError
from pipesched.results.disturbances import (
    KINDS,
    SEEDS,
    Disturbed,
    Nodes,
    Sensitivity,
    add_disturbances,
    disturbances,
    measured,
)

from ..options import passes, table
from ..options.arguments import UsageError
from ..options.entries import Size
from ..render.output import Column, View, percent, seconds, table_text

COLUMNS = (
    Column("D", "workers"),
    Column("N", "microbatches"),
    Column("disturbance", "disturbance", left=True),
    Column("rank", "rank"),
    Column("schedule", "schedule", left=True),
    Column("step", "step_s", seconds, detail=2),
    Column("disturbed", "disturbed_step_s", seconds),
    Column("longer by", "longer_ratio", percent),
    Column("at worst", "worst_longer_ratio", percent, detail=1),
    Column("per unit", "per_unit", lambda value: f"{value:.2f}"),
)


class Timed(Protocol):
    """A schedule that can be disturbed."""

    @property
    def label(self) -> str: ...
    @property
    def size(self) -> Size: ...
    @property
    def costs(self) -> Costs | None: ...
    @property
    def steps(self) -> Callable[[Sequence[str]], Sequence[int]]: ...


class _Disturb(argparse.Action):
    """Takes `worker3=1.3,jitter=5%`, which is added to earlier ones."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        try:
            add_disturbances(values, vars(namespace))
        except PipeSchedError as error:
            raise argparse.ArgumentError(self, error.diagnostics[0].message) from None


def add(parser: argparse.ArgumentParser) -> None:
    table.add(parser, "disturbance", disturbance={"action": _Disturb})
    usual: dict[str, Any] = {f"slow_{what}": {} for what in KINDS}
    parser.set_defaults(**usual, jitter=None, seeds=None)


def plan_options(arguments: argparse.Namespace) -> dict[str, Any]:
    check_seeds(arguments)
    slow = {f"slow_{what}s": getattr(arguments, f"slow_{what}") for what in KINDS}
    return {**slow, "jitter": arguments.jitter, "seeds": arguments.seeds or SEEDS}


def check_seeds(arguments: argparse.Namespace) -> None:
    if arguments.seeds and not arguments.jitter:
        raise UsageError("--disturbance: seeds are draws of jitter; none is given")


def read_disturbances(arguments: argparse.Namespace, entry: Timed) -> list[Disturbed]:
    """The requested disturbances of a schedule, one at a time and then together."""
    check_seeds(arguments)
    nodes = arguments.slow_node
    if nodes and (entry.costs is None or entry.costs.system is None):
        raise UsageError(
            "--disturbance: a node is one of --system; else slow a worker, such as worker3=1.3"
        )
    return disturbances(
        arguments.slow_worker,
        arguments.slow_stage,
        arguments.jitter,
        nodes,
        Nodes.from_costs(entry.costs, entry.size[0]) if nodes else None,
    )


def timings(arguments: argparse.Namespace, entries: Sequence[Timed]) -> list[str]:
    """The options of `pipesched-translate` for no disturbance and for each of them."""
    seeds = arguments.seeds or SEEDS
    found = {
        tuple(
            text for each in read_disturbances(arguments, entry) for text in each.seeded(seeds)
        ): None
        for entry in entries
    }
    if len(found) > 1:
        raise UsageError(
            "a slow node has other workers at each size; --show-passes takes one size with it"
        )
    return [passes.timing_options(arguments, text) for text in ("", *next(iter(found), ()))]


def _row(entry: Timed, found: Sensitivity) -> dict[str, Any]:
    workers, microbatches = entry.size
    sizes = {"schedule": entry.label, "workers": workers, "microbatches": microbatches}
    return {
        **sizes,
        **found.to_dict(),
        "longer_ratio": found.ratio - 1,
        "worst_longer_ratio": found.worst_ratio - 1,
    }


def rows(
    arguments: argparse.Namespace, entries: Sequence[Timed], *, across_sizes: bool = False
) -> list[dict[str, Any]]:
    """A row for each schedule and disturbance, ranked by the disturbed step."""
    groups: dict[tuple[Size | None, str], list[dict[str, Any]]] = defaultdict(list)
    for entry in entries:
        chosen = read_disturbances(arguments, entry)
        for found in measured(entry.steps, chosen, arguments.seeds or SEEDS) if chosen else ():
            size = None if across_sizes else entry.size
            groups[size, found.disturbance].append(_row(entry, found))
    ordered = []
    for group in groups.values():
        group.sort(key=lambda row: row["disturbed_step_s"])
        steps = [row["disturbed_step_s"] for row in group]
        ordered += [{**row, "rank": 1 + steps.index(row["disturbed_step_s"])} for row in group]
    return ordered


WHERE = ("schedule", "workers", "microbatches")
"""The keys that name the schedule of a row."""


def add_to(
    rows: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]], where: Sequence[str] = WHERE
) -> None:
    """Adds to each row, under `sensitivity`, the disturbances of its schedule."""
    for row in rows:
        same = [each for each in found if all(each[k] == row[own] for k, own in zip(WHERE, where))]
        left_out = {*WHERE, "step_s", "longer_ratio", "worst_longer_ratio"}
        row["sensitivity"] = [{k: v for k, v in e.items() if k not in left_out} for e in same]


HEADING = "sensitivity"


def remarks(found: Sequence[dict[str, Any]], width: int | None = None) -> list[str]:
    """The table as lines, as far as a terminal has room for it, with the meaning of its columns."""
    if not found:
        return []
    sizes = {row["workers"] for row in found}
    columns = [c for c in COLUMNS if c.key != "workers" or len(sizes) > 1]
    if all(row["seeds"] == 1 for row in found):
        columns = [c for c in columns if c.key != "worst_longer_ratio"]
    table = table_text(found, columns, View(width)).splitlines()
    return ["", HEADING, *table, "", *_tell_columns(found)]


def _tell_columns(found: Sequence[dict[str, Any]]) -> list[str]:
    drawn, seeds = "", max(row["seeds"] for row in found)
    if seeds > 1:
        drawn = f"; under jitter the mean and the worst of {seeds} draws, seeds 1 to {seeds}"
    elif any("jitter" in row["disturbance"] for row in found):
        drawn = "; under jitter that of seed 1"
    return [
        "- per unit: what the step loses for each unit that the disturbed cells lose, 1 if it slows"
        f" down as they do{drawn}"
    ]
