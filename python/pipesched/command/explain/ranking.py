"""Timed schedules, ranked by size: the columns, the findings and the page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipesched import Simulation
from pipesched.results.batch import findings
from pipesched.support.text import gib
from pipesched.support.units import DEFAULT_RESERVE

from ..options.entries import Entry, FromFile, Size
from ..options.files import show_path
from ..render import page
from ..render.output import Column, announce_cells, progress, results
from .rows import row_of

TIMING = ("transport", "receive_placement", "runtime")

METRICS: dict[str, tuple[str, int]] = {
    "step": ("makespan_ps", 1),
    "idle": ("idle_ratio", 1),
    "span": ("span_bubble_ratio", 1),
    "table": ("table_bubble_ratio", 1),
    "activations": ("activations", 1),
    "memory": ("peak_bytes", 1),
    "tokens": ("tokens_per_s", -1),
    "mfu": ("mfu", -1),
}
"""Measures for ranking, with 1 if less is better and -1 if more is better."""

OF_WORK = ("step", "tokens", "mfu")
"""Measures by which schedules with different amounts of work cannot be ranked."""

Pair = tuple[dict[str, Any], Simulation | None]
"""The row of a schedule, and its report if it could be timed."""

COLUMNS = (
    Column("N", "microbatches"),
    Column("rank", "rank"),
    Column("schedule", "schedule", left=True),
    Column("uses", "uses", left=True, wraps=True),
    *results(),
    Column("why not", "error", left=True, wraps=True, reason="error"),
)


def size_of(row: Mapping[str, Any]) -> Size:
    return row["workers"], row["microbatches"]


def where_of(size: Size, sizes: Iterable[Size]) -> str:
    """The start of a sentence about a size, which names the workers only if they differ."""
    workers, microbatches = size
    several = len({workers for workers, _ in sizes}) > 1
    return f"- {f'{workers} workers, ' if several else ''}{microbatches} microbatches:"


def time_entries(
    entries: Sequence[Entry], settings: Mapping[str, Any], reserve: str = DEFAULT_RESERVE
) -> list[Pair]:
    """The rows of the entries in order; announces a long computation."""
    announce_cells(entry.size for entry in entries)
    made: list[Pair] = []
    with progress() as show:
        for entry in entries:
            show(len(made), len(entries))
            made.append(row_of(entry, settings, reserve))
    return made


def rank_by_size(pairs: Iterable[Pair]) -> dict[Size, list[Pair]]:
    """Ranks the rows of each size by step time, and sorts them; equal times share a rank."""
    groups: dict[Size, list[Pair]] = defaultdict(list)
    for row, simulation in pairs:
        groups[size_of(row)].append((row, simulation))
    for group in groups.values():
        _rank(group)
    return groups


def _rank(group: list[Pair]) -> None:
    def step(pair: Pair) -> float:
        return float(pair[0].get("step_s", float("inf")))

    group.sort(key=step)
    steps = [step(pair) for pair in group]
    for row, _ in group:
        if "step_s" in row:
            row["rank"] = 1 + steps.index(row["step_s"])


def stages_of_groups(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Stages per worker by schedule, for each group that is ranked."""
    groups: dict[Size, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if "step_s" in row:
            groups[size_of(row)][row["schedule"]] = row["stages_per_worker"]
    return list(groups.values())


def have_own_costs(entries: Sequence[Entry]) -> bool:
    """Whether all come from files that name a model, a system or times."""
    return all(isinstance(entry, FromFile) and entry.has_own_costs() for entry in entries)


# Output


def columns_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    columns = list(COLUMNS)
    if any(row["file"] for row in rows):
        columns.insert(3, Column("file", "file", show_path, left=True))
    if any("+" in (row.get("layers") or "") for row in rows):
        columns.insert(len(columns) - 1, Column("layers", "layers", left=True, detail=3))
    if any(row.get("system") for row in rows):
        columns.insert(3, Column("system", "system", left=True))
    if len({row["workers"] for row in rows}) > 1:
        columns.insert(0, Column("D", "workers"))
    return tuple(columns)


def _need(row: Mapping[str, Any], simulation: Simulation) -> str:
    """The memory of the fullest worker of a schedule, by purpose."""
    worst, memory = row["worst_worker"], simulation.memory
    assert memory is not None
    parts = max(1, round(row["peak_bytes"] / (row["peak_bytes_per_gpu"] or row["peak_bytes"])))
    held, alive = memory.persistent_bytes[worst], memory.peak_activation_bytes[worst]
    return (
        f"worker {worst} needs {gib(row['peak_bytes'] / parts)} of"
        f" {gib(row['usable_bytes_per_gpu'])} an accelerator, {gib(held / parts)} for weights,"
        f" gradients and optimizer state, {gib(alive / parts)} for activations"
    )


def memory_findings(group: Sequence[Pair]) -> list[str]:
    """The schedules that do not fit with the reserve, and the fastest that does."""
    large = [(row, s) for row, s in group if s is not None and row.get("fits") is False]
    if not large:
        return []
    names = list(dict.fromkeys(str(row["schedule"]) for row, _ in large))
    fitting = [row for row, s in group if s is not None and row.get("fits") is not False]
    found = []
    if fitting:
        best = min(fitting, key=lambda row: float(row["step_s"]))
        if any(row["step_s"] < best["step_s"] for row, _ in large):
            found.append(f"fastest that fits: {best['schedule']}")
    row, simulation = min(
        large, key=lambda pair: int(pair[0]["peak_bytes"]) / pair[0]["usable_bytes_per_gpu"]
    )
    if len(names) == 1:
        return [*found, f"{names[0]} does not fit: {_need(row, simulation)}"]
    *first, last = names
    listed = f"{', '.join(first)} and {last} do not fit; closest is {row['schedule']}"
    return [*found, f"{listed}: {_need(row, simulation)}"]


def _is_open(group: Sequence[Pair]) -> bool:
    """Whether several schedules may be the fastest, which the line `order:` says."""
    first = [row.get("system") for row, _ in group if row.get("may_be_first")]
    return len(set(first)) < len(first)


def _findings(pairs: Iterable[Pair]) -> dict[Size, str]:
    """The findings by size, from the library and about schedules that fit with the reserve."""
    groups: dict[Size, list[Pair]] = defaultdict(list)
    for row, simulation in pairs:
        if simulation is not None:
            groups[simulation.workers, simulation.microbatches].append((row, simulation))
    answer = {}
    for size, group in groups.items():
        kept = [
            each.text
            for each in findings(s for _, s in group if s is not None)
            if each.kind not in ("work", "fit") and not each.text.startswith("fastest that fits:")
        ]
        first = [text for text in kept if text.startswith("fastest: ")]
        rest = [text for text in kept if text not in first]
        first = [] if _is_open(group) else first
        answer[size] = "".join(f"{line}\n" for line in (*first, *memory_findings(group), *rest))
    return answer


def remarks(pairs: Iterable[Pair]) -> list[str]:
    """The findings as lines under a table."""
    found = _findings(pairs)
    return [
        f"{where_of(size, found)} {line}"
        for size, text in found.items()
        for line in text.splitlines()
    ]


def page_text(title: str, groups: Mapping[Size, Sequence[Pair]]) -> str:
    """The page with the tables, the findings and the timelines."""
    pairs = [pair for group in groups.values() for pair in group]
    columns = columns_of([row for row, _ in pairs])
    found = _findings(pairs)
    return page.comparison(title, groups, columns, found)
