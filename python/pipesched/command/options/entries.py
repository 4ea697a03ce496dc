"""Compared entries: schedules of families and schedules from files, timed in the same way."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pipesched import Configuration, Costs, PipeSchedError, Schedule, Simulation
from pipesched.costs.division import Counts, pass_of, with_counts
from pipesched.costs.stage_times import Place, entries_of, listed_stages
from pipesched.results.disturbances import steps_of
from pipesched.support.options import TimingOptions
from pipesched.support.text import valid

from . import passes
from .files import Origin, show_path

Size = tuple[int, int]
"""Workers and microbatches. Schedules of one size are ranked with each other."""


@dataclass(frozen=True)
class FromFamily:
    """A schedule that a family generates."""

    point: Configuration
    file: None = None
    name: str = ""
    """The name in tables, if the family is there several times."""

    @property
    def label(self) -> str:
        return self.name or self.point.family

    @property
    def family(self) -> str:
        return self.point.family

    @property
    def size(self) -> Size:
        return self.point.workers, self.point.microbatches

    @property
    def costs(self) -> Costs | None:
        return self.point.costs

    @property
    def counts(self) -> tuple[Counts, ...] | None:
        """The layers of the stages of each path, if the costs divide them unevenly."""
        return self.point._counts

    @property
    def places(self) -> tuple[Place, ...]:
        """The workers of the stages of each path, and their layers if they are given."""
        return self.point.places

    def with_costs(self, costs: Costs | None) -> FromFamily:
        return replace(self, point=replace(self.point, costs=costs))

    def simulate(self) -> Simulation:
        """The full report. A schedule with a separate name is made as IR, which takes it."""
        if not self.name or self.point.optimizer_step != "none":
            return self.point.simulate()
        return self.point.generate(self.name).simulate(self.point.costs, **self.point._timing)

    @property
    def steps(self) -> Callable[[Sequence[str]], Sequence[int]]:
        return steps_of(self.point)


@dataclass(frozen=True)
class FromFile:
    """A schedule or program that a file has."""

    file: Origin
    schedule: Schedule
    costs: Costs | None
    timing: TimingOptions
    original: str = ""
    """The name in the file, if it is another one."""
    ending: str = ""
    """The passes that attach the costs and end a training step; empty without such an end."""

    @property
    def label(self) -> str:
        return self.schedule.name

    @property
    def family(self) -> str | None:
        return self.schedule.family

    @property
    def size(self) -> Size:
        return self.schedule.workers, self.schedule.microbatches

    @property
    def counts(self) -> tuple[Counts, ...] | None:
        if self.costs is None or self.schedule.kind == "program":
            return None
        places = self.schedule._places
        division, schedule = self.costs._division, self.schedule
        return division.counts_on(places, schedule.microbatches, schedule.family)

    @property
    def places(self) -> tuple[Place, ...]:
        """As of `FromFamily`; empty for a program without paths."""
        return with_counts(self.schedule._places, self.counts)

    def with_costs(self, costs: Costs | None) -> FromFile:
        return replace(self, costs=costs)

    @cached_property
    def _timed(self) -> tuple[Schedule, Costs | None]:
        if not self.ending:
            return self.schedule, self.costs
        if self.schedule.kind == "program":
            raise PipeSchedError(
                "--optimizer-step applies to schedules; a program keeps its own end"
            )
        return self.schedule.transform(self.ending), None

    def _simulate(self, disturbance: str) -> Simulation:
        schedule, costs = self._timed
        timing: TimingOptions = {**self.timing, "disturbance": disturbance}
        return schedule.simulate(costs, **timing)

    def simulate(self) -> Simulation:
        return self._simulate("")

    def steps(self, texts: Sequence[str]) -> list[int]:
        return [self._simulate(text).execution.makespan_ps for text in texts]

    def has_free_messages(self) -> bool:
        """Whether the file has times of phases, but none of messages and no model."""
        facts = self.schedule._facts
        if not facts["times"] or facts["has_model"]:
            return False
        return not any(each.startswith(("comm=", "send=")) for each in facts["times"].split(","))

    def has_own_costs(self) -> bool:
        """Whether the file names a model, a system or times."""
        facts = self.schedule._facts
        return bool(facts["times"] or facts["has_model"] or facts["has_system"])


Entry = FromFamily | FromFile


def rename(schedule: Schedule, name: str) -> Schedule:
    """The same schedule under another name."""
    if schedule.name == name:
        return schedule
    return Schedule(schedule._module.rename(valid(name)))


def stem_of(file: str) -> str:
    return "stdin" if file == "-" else Path(file).stem


def unique(read: Sequence[tuple[Origin, Schedule]], taken: Sequence[str]) -> list[Schedule]:
    """Renames schedules, by their files, so that their names differ from each other and from
    `taken`.
    """
    counts = Counter([*(schedule.name for _, schedule in read), *taken])
    stems = Counter(stem_of(file.path) for file, _ in read)
    found: list[Schedule] = []
    used = Counter(taken)
    for file, schedule in read:
        name, stem = schedule.name, stem_of(file.path)
        if counts[name] > 1:
            name = (
                stem if stems[stem] == 1 and not counts[stem] else f"{show_path(file.path)}:{name}"
            )
        used[name] += 1
        if used[name] > 1:
            name = f"{name}-{used[name]}"
        found.append(rename(schedule, name))
    return found


def from_files(
    read: Sequence[tuple[Origin, Schedule]],
    costs: Costs | None,
    timing: TimingOptions,
    taken: Sequence[str] = (),
) -> list[FromFile]:
    """The entries of schedules with their files, under names that differ."""
    return [
        FromFile(file, schedule, costs, timing, original=old.name)
        for (file, old), schedule in zip(read, unique(read, taken), strict=True)
    ]


def check_costs(entries: Sequence[Entry], costs: Costs | None) -> None:
    """Refuses to compare own times of some schedules with unit slots of others."""
    if costs is not None:
        return
    own = {e.label: isinstance(e, FromFile) and e.has_own_costs() for e in entries}
    if any(own.values()) and not all(own.values()):
        with_costs = next(label for label, has in own.items() if has)
        without = next(label for label, has in own.items() if not has)
        raise PipeSchedError(
            f"{with_costs} names its own times, model or system, and {without} has none and would"
            " take a slot of 1 us for each cell; give --times, or --model and --system, for all"
        )


def times_by_schedule(entries: Sequence[tuple[str, Entry]]) -> dict[str, str] | None:
    """The times of stages by schedule, if the given times are divided for each schedule."""
    costs = entries[0][1].costs if entries else None
    if costs is None or not costs.times:
        return None
    if costs.times_of == "stage" and listed_stages(entries_of(costs.times)) is None:
        return None
    own = ((name, entry.costs or costs, entry.places) for name, entry in entries)
    return {name: str(each._for(places).times) for name, each, places in own}


def _attach(arguments: argparse.Namespace, named: Sequence[tuple[str, Entry]]) -> list[str]:
    counts = {name: entry.counts for name, entry in named}
    placed = [pass_of(each, name) for name, each in counts.items() if each is not None]
    times = times_by_schedule(named)
    return [*placed, *passes.attach_costs(arguments, times), *passes.end_step(arguments)]


def lines_of_files(
    arguments: argparse.Namespace, entries: Sequence[Entry], timings: Sequence[str]
) -> list[str]:
    """The command lines of `pipesched-opt` that report the schedules of each file."""
    own = [entry for entry in entries if isinstance(entry, FromFile)]
    lines = []
    for file in dict.fromkeys(entry.file for entry in own):
        named = [(e.original or e.label, e) for e in own if e.file == file]
        made = _attach(arguments, named)
        for timing in timings:
            lines.append(passes.command_line(made, file, export=f"--export-report {timing}"))
    return lines


def add_ending(entry: FromFile, arguments: argparse.Namespace) -> FromFile:
    """The entry with the end of a training step, if one was asked for."""
    if not passes.end_step(arguments):
        return entry
    return replace(entry, ending=",".join(_attach(arguments, [(entry.label, entry)])))
