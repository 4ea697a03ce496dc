"""Schedules compared under equal memory: each uses the techniques that make it the fastest one that
fits.

Every family is tried with each kind of recomputation, with offload of half and of all activations,
and with each limit of activations that it has as an option. The last row is the optimizer's bound.
Memory is in bytes of each accelerator, or, where times are given, in activations.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pipesched
from pipesched import Costs, PipeSchedError, Simulation
from pipesched.costs.costs import has_experts
from pipesched.schedule.families import placement_kind
from pipesched.support.options import FamilyOptions, PlacementName, Recompute, names_of
from pipesched.support.text import gib, readable
from pipesched.support.units import DEFAULT_RESERVE, bytes_of, reserve_of

from ..options import passes
from ..options.arguments import UsageError, families, read_own_options
from ..options.entries import Entry, FromFamily, FromFile, Size, add_ending
from ..options.files import Origin
from .ranking import Pair, size_of
from .rows import row_of

BOUND = "bound"
SEARCH_S = 20.0
"""The most time that the bound may take for each size."""

PLACEMENTS: tuple[PlacementName, ...] = names_of(PlacementName)


@dataclass(frozen=True)
class Budget:
    """Bytes of each accelerator, or activations of each worker: one is the memory that a microbatch
    leaves on a worker that has an equal part of the model.
    """

    amount: int
    in_bytes: bool = True

    def __str__(self) -> str:
        return f"{gib(self.amount)} an accelerator" if self.in_bytes else self.within

    @property
    def within(self) -> str:
        return gib(self.amount) if self.in_bytes else f"{self.amount} activations a worker"

    def keys(self, row: dict[str, Any]) -> dict[str, Any]:
        """The JSON fields of the budget, of the fit and of missing memory."""
        unit = "bytes_per_gpu" if self.in_bytes else "activations"
        keys: dict[str, Any] = {f"budget_{unit}": self.amount}
        held = row.get("peak_bytes_per_gpu" if self.in_bytes else "activations")
        if held is not None:
            missing = max(0, held - self.amount)
            keys |= {"fits": not missing, f"missing_{unit}": missing}
        return keys


def take_budget(arguments: argparse.Namespace) -> Budget | None:
    """The bytes of an accelerator without the reserve, if `--memory` gives them, or with `--times`
    the value of `--activations`.
    """
    if arguments.memory is None:
        if not arguments.times or not arguments.activations or arguments.show_passes:
            return None
        activations, arguments.activations = arguments.activations, None  # no option of families
        return Budget(activations, in_bytes=False)
    try:
        budget = bytes_of("memory", arguments.memory)
    except PipeSchedError as error:
        raise UsageError(f"--memory: {error.diagnostics[0].message}") from None
    if not arguments.model or not arguments.system:
        raise UsageError("--memory needs --model and --system, which say what takes it")
    if arguments.show_passes:
        raise UsageError("--show-passes: give the chosen --recompute and options in place of bytes")
    reserve = reserve_of(
        arguments.reserve or DEFAULT_RESERVE, budget, has_experts(Costs(model=arguments.model))
    )
    if reserve >= budget:
        raise UsageError(f"a reserve of {arguments.reserve} leaves nothing of {gib(budget)}")
    return Budget(budget - reserve)


# Variants


@dataclass(frozen=True)
class Variant:
    """A schedule with the options that lower its memory."""

    entry: Entry
    label: str
    family: str | None
    recompute: Recompute
    offload: str | None = None
    limit: int | None = None

    @property
    def uses(self) -> str:
        """`recompute full, offload half`, or `nothing`."""
        parts = [
            f"recompute {self.recompute}" if self.recompute != "none" else "",
            f"offload {self.offload}" if self.offload else "",
            f"memory {self.limit}" if self.limit is not None else "",
        ]
        return ", ".join(filter(None, parts)) or "nothing"


def _with_recompute(entry: Entry, kind: Recompute, arguments: argparse.Namespace) -> Entry:
    made = entry.with_costs(entry.costs and replace(entry.costs, recompute=kind))
    if isinstance(made, FromFamily):
        return made
    return add_ending(made, _namespace(arguments, kind))


def _namespace(arguments: argparse.Namespace, kind: Recompute) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(arguments), "recompute": kind})


def _offload(entry: Entry, amount: str, arguments: argparse.Namespace) -> FromFile:
    """The rows of an entry with copies to the host and back."""
    costs = entry.costs
    assert costs is not None
    if isinstance(entry, FromFamily):
        point = entry.point
        schedule, timing = point.generate(entry.label.replace(":", "_")), point._timing
    else:
        schedule, timing = entry.schedule, entry.timing
    made = schedule.transform(passes.one_pass("pipe-add-offload", {"amount": amount}))
    moved = FromFile(entry.file or Origin(), made, costs, timing)
    return add_ending(moved, _namespace(arguments, costs.recompute))


def _are_timed(phases: str, costs: Costs | None) -> bool:
    """Whether the times of phases are known; copies without times would be free."""
    if costs is None or costs.times is None:
        return True
    times = str(costs.times)
    text = times if "=" in times else Path(times).read_text()
    return all(re.search(rf"\b{phase}\b", text) for phase in phases)


def _limits(entry: Entry) -> Iterator[int]:
    """The numbers of activations from the fewest to the default of the family."""
    if not isinstance(entry, FromFamily) or entry.point.options.get("memory") is not None:
        return
    family = families().get(entry.family)
    if family is not None and "memory" in family.options:
        yield from range(2, 2 * entry.point.workers)


def variants_of(entry: Entry, arguments: argparse.Namespace) -> Iterator[Variant]:
    """All ways to run a schedule, the plain one first."""
    kinds: tuple[Recompute, ...] = names_of(Recompute)
    if "--recompute" in arguments.flags or arguments.times:
        kinds = (arguments.recompute,)
    for kind in kinds:
        made = _with_recompute(entry, kind, arguments)
        yield Variant(made, entry.label, entry.family, kind)
        for amount in ("half", "all") if _are_timed("DU", made.costs) else ():
            try:
                moved = _offload(made, amount, arguments)
            except PipeSchedError:
                continue  # no copies fit, or the plain row reports the error
            yield Variant(moved, entry.label, entry.family, kind, amount)
        for limit in _limits(entry):
            assert isinstance(made, FromFamily)
            options: FamilyOptions = {**made.point.options, "memory": limit}
            limited = replace(made, point=replace(made.point, options=options))
            yield Variant(limited, entry.label, entry.family, kind, limit=limit)


# Which is chosen


@dataclass(frozen=True)
class Chosen:
    """The fastest variant that fits, or the one that lacks least."""

    variant: Variant
    row: dict[str, Any]
    simulation: Simulation | None

    @property
    def fits(self) -> bool:
        return bool(self.row.get("fits"))


def _order(found: Chosen) -> tuple[float, float]:
    missing = found.row.get("missing_bytes_per_gpu", found.row.get("missing_activations"))
    return (2**63 if missing is None else missing), found.row.get("step_s", float("inf"))


def _try(variant: Variant, budget: Budget, settings: dict[str, Any]) -> Chosen:
    row, simulation = row_of(variant.entry, settings)
    row |= {"family": variant.family, "uses": variant.uses, **budget.keys(row)}
    if variant.family is not None and row["file"] in (None, ""):
        row |= {"schedule": variant.label, "file": None}
    return Chosen(variant, row, simulation)


def choose(
    entries: Sequence[Entry],
    budget: Budget,
    arguments: argparse.Namespace,
    settings: dict[str, Any],
) -> list[Chosen]:
    """The best variant of each schedule."""
    found = []
    for entry in entries:
        tried = [_try(each, budget, settings) for each in variants_of(entry, arguments)]
        best = min(tried, key=_order)
        if best.simulation is None:
            best = tried[0]
        found.append(best)
    return found


def _by_size(found: Sequence[Chosen]) -> dict[Size, list[Chosen]]:
    groups: dict[Size, list[Chosen]] = {}
    for each in found:
        groups.setdefault(size_of(each.row), []).append(each)
    return groups


def rank(found: Sequence[Chosen], bounds: Sequence[Pair]) -> dict[Size, list[Pair]]:
    """By size: fitting rows by step time, then the others by missing memory, then the bound."""
    answer = {}
    for size, group in _by_size(found).items():
        group.sort(key=_order)
        steps = [each.row["step_s"] for each in group if each.fits]
        for each in group:
            each.row["rank"] = 1 + steps.index(each.row["step_s"]) if each.fits else None
        last = [pair for pair in bounds if size_of(pair[0]) == size]
        answer[size] = [*((each.row, each.simulation) for each in group), *last]
    return answer


# The bound


def _kinds_of_placements(found: Sequence[Chosen]) -> tuple[list[PlacementName], list[str]]:
    """The placements of the schedules, and the schedules that have others."""
    used: dict[str, None] = {}
    others = []
    for each in found:
        workers = each.row["workers"]
        paths = [place for place, _ in each.variant.entry.places]
        kind = placement_kind(paths, workers) if paths else "other"
        if kind in PLACEMENTS:
            used[kind] = None
        else:
            others.append(str(each.row["schedule"]))
    return [kind for kind in PLACEMENTS if kind in used], others


def _stages_per_worker(found: Sequence[Chosen]) -> int:
    timed = [each.simulation for each in found if each.simulation is not None]
    counts = {simulation.stages // simulation.workers for simulation in timed}
    if len(counts) != 1:
        raise PipeSchedError("the bound is for one number of stages a worker")
    return counts.pop()


def _bound(
    size: Size, found: Sequence[Chosen], budget: Budget, arguments: argparse.Namespace
) -> dict[str, Any]:
    workers, microbatches = size
    placements, others = _kinds_of_placements(found)
    if not placements:
        raise PipeSchedError(f"the optimizer has none of the placements of {', '.join(others)}")
    costs = found[0].variant.entry.costs
    is_selective = any(each.variant.recompute == "selective" for each in found)
    attached = passes.attach_costs(_namespace(arguments, "none"))
    options: dict[str, Any] = {"placements": placements, "max_evaluations": 1}
    if not budget.in_bytes:
        options |= {"memory": str(budget.amount * _stages_per_worker(found))}
        options |= {"offload": _are_timed("DU", costs), "split_backward": _are_timed("IW", costs)}
    elif not is_selective:
        bytes_of_worker = budget.amount * ((costs and costs._accelerators) or 1)
        options |= {"memory": f"{bytes_of_worker}B", "memory_times": "given"}
        options |= {"offload": True, "recompute": "full"}
    if arguments.chunks and len(arguments.chunks) == 1:
        options["chunks"] = arguments.chunks[0]
    elif arguments.chunks and "interleaved" in placements:
        raise PipeSchedError("the bound is for one number of chunks, and several are compared")
    if (waves := read_own_options(arguments).get("waves")) is not None:
        options["waves"] = waves
    bounds = []
    cuts = sorted({each.simulation.slices for each in found if each.simulation}) or [1]
    for slices in cuts:
        problem = pipesched.problem(workers=workers, microbatches=microbatches, slices=slices)
        made = problem.transform(",".join(attached)).optimize(time_limit=SEARCH_S, **options)
        others_ps = [each.objective_ps for each in made.others if each.is_bound]
        bounds += [made.lower_bound_ps, *filter(None, others_ps)]
    least = min(bounds)
    within = "any memory" if is_selective else budget.within
    except_for = f", not of {', '.join(others)}" if others else ""
    cut = f", slices {', '.join(map(str, cuts))}" if cuts != [1] else ""
    uses = f"{', '.join(placements)} in {within}{cut}{except_for}"
    return {"step_s": least / 1e12, "expected_s": least / 1e12, "uses": uses}


def bounds_of(found: Sequence[Chosen], budget: Budget, arguments: argparse.Namespace) -> list[Pair]:
    """A row for each size with the optimizer's lower bound."""
    rows: list[Pair] = []
    for size, group in _by_size(found).items():
        row: dict[str, Any] = {
            **{"schedule": BOUND, "family": None, "file": None, "rank": None},
            **{"workers": size[0], "microbatches": size[1], **budget.keys({})},
        }
        try:
            row |= _bound(size, group, budget, arguments)
        except PipeSchedError as error:
            message = error.diagnostics[0].message.removeprefix("'pipe.schedule' op ")
            row["error"] = readable(message)
        rows.append((row, None))
    return rows


def remarks(groups: dict[Size, list[Pair]]) -> list[str]:
    """How far the first row of each size is from the bound."""
    found = []
    for (workers, microbatches), group in groups.items():
        bound = next((row for row, _ in group if row["schedule"] == BOUND), {})
        best = next((row for row, _ in group if row.get("rank") == 1), None)
        where = f"- {workers} workers, {microbatches} microbatches:"
        if best is None:
            found.append(f"{where} nothing fits")
        elif "step_s" in bound:
            above = best["step_s"] / bound["step_s"] - 1
            found.append(
                f"{where} {best['schedule']} is at most {100 * above:.2f} % above what any rows"
                f" can reach ({bound['uses']}; transport delay, without the end of a step)"
            )
    return found
