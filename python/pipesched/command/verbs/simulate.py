"""`pipesched simulate`: schedules of families and files, timed; several are ranked. With `--memory`
each recomputes and offloads to be the fastest that fits; `--order` times overlapped layers.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pipesched
from pipesched import Configuration, Costs, FamilyOptions, PipeSchedError, Simulation
from pipesched.costs.stage_times import stages_per_worker
from pipesched.results.configuration import usual_ending
from pipesched.support.options import TimingOptions
from pipesched.support.units import DEFAULT_RESERVE

from ..explain import answers, assumptions, comparisons, disturbances, memory
from ..explain.ranking import (
    TIMING,
    Pair,
    columns_of,
    have_own_costs,
    memory_findings,
    page_text,
    rank_by_size,
    remarks,
    stages_of_groups,
    time_entries,
)
from ..explain.rows import check_work
from ..options import files, input, passes, table
from ..options.arguments import (
    UsageError,
    add_costs,
    add_family_options,
    add_timing,
    canonical,
    no_option,
    options_for,
    read_costs,
    read_family_options,
    tell_settings,
)
from ..options.entries import (
    Entry,
    FromFamily,
    FromFile,
    Size,
    add_ending,
    check_costs,
    from_files,
    lines_of_files,
    times_by_schedule,
)
from ..render import drawings
from ..render.output import (
    CAUSES,
    Column,
    add_output,
    results,
    say,
    view_of,
    write_rows,
    write_text,
)

EXAMPLE = """  pipesched simulate 1f1b --pp 8 --microbatches 24 --model llama3-70b \\
      --system dgx-h100 --global-batch 24
  pipesched simulate 1f1b zb-h1 --pp 8 --microbatches 24,32 \\
      --times F=18.522ms,I=18.086ms,W=9.337ms,comm=0.601ms --transport delay
  pipesched simulate schedule.mlir 1f1b zb-v --disturbance worker3=1.3
  pipesched simulate segments.json --order deepseek,best"""

FAMILIES = ("gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v")
"""The families that are compared if neither files nor families are given."""

ONE = (Column("schedule", "schedule", left=True), *results(*CAUSES, "may_be_first"))


def add(parser: argparse.ArgumentParser) -> None:
    from . import overlap

    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE|FAMILY",
        help="families, and own schedules and programs: IR, bytecode or PyTorch's CSV; - for"
        f" standard input; without any the families {','.join(FAMILIES)}",
    )
    table.add(parser, "name", "schedules", many=("schedules",))
    add_family_options(parser, many=("microbatches", "chunks", "slices"))
    add_costs(parser, many=("system",), rare={"runtime": table.RARE["runtime"], **overlap.RARE})
    add_timing(parser)
    table.add(parser, "memory", "reserve")
    disturbances.add(parser)
    overlap.add_order(parser)
    drawings.add_draw(parser)
    drawings.add_width(parser)
    add_output(parser)
    parser.set_defaults(divides_slots=False)  # set by `_with_equal_work`


# Entries


def _families(arguments: argparse.Namespace) -> list[str]:
    given = arguments.schedules or (() if arguments.files else FAMILIES)
    return list(dict.fromkeys(canonical(name) for name in given))


def _sizes(arguments: argparse.Namespace, own: Sequence[FromFile]) -> list[Size]:
    """The sizes of families: given ones, else the sizes of the files."""
    sizes_of = {"--pp": arguments.workers, "--microbatches": arguments.microbatches}
    missing = [flag for flag, value in sizes_of.items() if value is None]
    if missing and not own:
        raise UsageError(f"give {' and '.join(missing)}, or files")
    sizes = [entry.size for entry in own] or [(0, 0)]
    chosen = [
        (arguments.workers or workers, count)
        for workers, microbatches in sizes
        for count in arguments.microbatches or [microbatches]
    ]
    return list(dict.fromkeys(chosen))


def _timing(arguments: argparse.Namespace) -> TimingOptions:
    return {
        "transport": arguments.transport,
        "receive_placement": arguments.receive_placement,
        "runtime": arguments.runtime,
    }


def _make_families(
    arguments: argparse.Namespace, costs: Costs | None, own: Sequence[FromFile]
) -> list[Entry]:
    given, families = read_family_options(arguments), _families(arguments)
    if not families:
        input.refuse_sizes(arguments, "families; --schedules names them")
        return []
    for option in given:
        if not any(option in options_for(family, given) for family in families):
            raise no_option(option, families)
    return [
        FromFamily(
            Configuration(
                family,
                workers,
                microbatches,
                options,
                costs=costs,
                optimizer_step=arguments.optimizer_step,
                **_timing(arguments),
            ),
            name=name,
        )
        for workers, microbatches in _sizes(arguments, own)
        for family in families
        for options, name in _with_lists(family, options_for(family, given))
    ]


def _with_lists(family: str, given: FamilyOptions) -> Iterator[tuple[FamilyOptions, str]]:
    """The options for each number of chunks and of slices, and a name that distinguishes them."""
    lists = {
        option: list(dict.fromkeys(cast("list[int]", given[option])))
        for option in ("chunks", "slices")
        if isinstance(given.get(option), list)
    }
    for values in itertools.product(*lists.values()):
        chosen = dict(zip(lists, values, strict=True))
        parts = [f"{value}-{name}" for name, value in chosen.items() if len(lists[name]) > 1]
        name = "-".join((family, *parts)) if parts else ""
        yield cast(FamilyOptions, {**given, **chosen}), name


def _make_entries(arguments: argparse.Namespace, costs: Costs | None) -> list[Entry]:
    read = from_files(arguments.read, costs, _timing(arguments), _families(arguments))
    own = [add_ending(entry, arguments) for entry in read]
    entries: list[Entry] = [*own, *_make_families(arguments, costs, own)]
    check_costs(entries, costs)
    return entries


SLOTS = "F=1us,B=2us,I=1us,W=1us,R=1us,D=0ps,U=0ps,O=1us,S=1us,T=1us"
"""Unit slots as times, without all-reduces."""

REDUCING = f"{SLOTS},G=1us"
"""The same, with all-reduces."""


def _do_unlike_work(entries: Sequence[Entry]) -> bool:
    """Whether some schedules of the same size have different numbers of stages per worker."""
    found: dict[Size, set[float]] = defaultdict(set)
    for entry in entries:
        with contextlib.suppress(PipeSchedError):  # its row has the error
            if entry.places:
                found[entry.size].add(stages_per_worker(entry.places))
    return any(len(each) > 1 for each in found.values())


def _with_all_reduces(entry: Entry, arguments: argparse.Namespace) -> Entry:
    """The entry with divided slots; times for all-reduces only if the schedule has some."""
    reduces = arguments.optimizer_step == "none"
    with contextlib.suppress(PipeSchedError):  # its row has the error
        reduces = reduces or len({workers for workers, _ in entry.places}) > 1
    if not reduces or entry.costs is None:
        return entry
    made = entry.with_costs(replace(entry.costs, times=REDUCING))
    return made if isinstance(made, FromFamily) else add_ending(made, arguments)


def _with_equal_work(
    arguments: argparse.Namespace,
) -> tuple[argparse.Namespace, Costs | None, list[Entry]]:
    """The entries to time. Slots are divided among stages if work would differ."""
    costs = read_costs(arguments)
    entries = _make_entries(arguments, costs)
    if costs is not None or have_own_costs(entries) or not _do_unlike_work(entries):
        return arguments, costs, entries
    slots = {"times": SLOTS, "times_of": "worker", "divides_slots": True}
    divided = argparse.Namespace(**{**vars(arguments), **slots})
    costs = read_costs(divided)
    made = [_with_all_reduces(entry, divided) for entry in _make_entries(divided, costs)]
    return divided, costs, made


# Output


def _passes(arguments: argparse.Namespace, entries: Sequence[Entry]) -> str:
    """A line for each file and one for all families, for each disturbance."""
    timings = disturbances.timings(arguments, entries)
    lines = lines_of_files(arguments, entries, timings)
    generated = [entry for entry in entries if isinstance(entry, FromFamily)]
    if generated:
        made = _generate(arguments, generated)
        for timing in timings:
            lines.append(passes.command_line(made, export=f"--export-report {timing}"))
    return "\n".join(lines)


def _generate(arguments: argparse.Namespace, entries: Sequence[FromFamily]) -> list[str]:
    several = len({entry.point.workers for entry in entries}) > 1
    made: list[str] = []
    named: list[tuple[str, Entry]] = []
    for entry in entries:
        point = entry.point
        name = f"{entry.label}-{point.microbatches}"
        name = f"{name}-{point.workers}" if several else name
        named.append((name, entry))
        size, places = (point.workers, point.microbatches), point.places if point._counts else ()
        made += passes.generate(point.family, name, *size, point.made_options, places)
    times = times_by_schedule(named)
    return [*made, *passes.attach_costs(arguments, times), *passes.end_step(arguments)]


@dataclass(frozen=True)
class Part:
    """Entries compared under the costs of one system, or under others."""

    arguments: argparse.Namespace
    costs: Costs | None
    entries: list[Entry]
    pairs: list[Pair]
    possible: list[Entry]
    """Timed entries, whose disturbances are reported."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for row, _ in self.pairs]

    @property
    def simulations(self) -> list[Simulation]:
        return [simulation for _, simulation in self.pairs if simulation]

    def below(self, found: Sequence[str]) -> list[str]:
        """Findings and effects of disturbances, which are also added to the rows."""
        disturbed = disturbances.rows(self.arguments, self.possible)
        if disturbed:
            disturbances.add_to(self.rows, disturbed)
        lines = [*found, *disturbances.remarks(disturbed, view_of(self.arguments).width)]
        system = self.pairs[0][0]["system"] if self.pairs else None
        return [_add_system(system, line) for line in lines] if system else lines


def _add_system(system: str, line: str) -> str:
    """A line below a table, with its system."""
    if line.startswith("- "):
        return f"- on {system}: {line[2:]}"
    return f"{line} on {system}" if line == disturbances.HEADING else line


def _by_system(arguments: argparse.Namespace) -> list[argparse.Namespace]:
    systems = dict.fromkeys(arguments.system or [None])
    return [argparse.Namespace(**{**vars(arguments), "system": each}) for each in systems]


def _name_system(
    arguments: argparse.Namespace, one: argparse.Namespace, pairs: Iterable[Pair]
) -> None:
    """Gives rows the name of their system if there are several."""
    several = len(set(arguments.system or ())) > 1
    for row, _ in pairs:
        row["system"] = one.system if several else None


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    return {**_timing(arguments), "optimizer_step": arguments.optimizer_step}


def _time_parts(arguments: argparse.Namespace) -> list[Part]:
    """One part for each system, whose rows and schedules then have its name."""
    found = []
    for one in _by_system(arguments):
        one, costs, entries = _with_equal_work(one)
        pairs = time_entries(entries, _settings(one), one.reserve or DEFAULT_RESERVE)
        _name_system(arguments, one, pairs)
        possible = [entry for entry, (_, made) in zip(entries, pairs, strict=True) if made]
        found.append(Part(one, costs, entries, pairs, possible))
    return found


def _title(parts: Sequence[Part]) -> str:
    arguments = parts[0].arguments
    entries = [entry for part in parts for entry in part.entries]
    times = None if arguments.divides_slots else arguments.times
    systems = " and ".join(part.arguments.system for part in parts if part.arguments.system)
    costs = times or " on ".join(filter(None, (arguments.model, systems)))
    own = "times of their own" if entries and have_own_costs(entries) else "unit slots of 1 us"
    given = assumptions.was_given(arguments)
    timing = [
        f", {name.replace('_', ' ')} {getattr(arguments, name)}" for name in TIMING if given(name)
    ]
    sizes = list(dict.fromkeys(str(entry.size[0]) for entry in entries))
    return f"{' and '.join(sizes)} workers, {costs or own}{''.join(timing)}"


def _ends_in_optimizer(simulation: Simulation) -> bool:
    """Whether the cell that ends the step is an optimizer step."""
    return any("O" in cell for cell in (simulation.execution.critical_path or ())[-1:])


def _free(entries: Sequence[Entry]) -> assumptions.Facts:
    """Own times of files that say nothing of messages."""
    free = [e.label for e in entries if isinstance(e, FromFile) and e.has_free_messages()]
    return {"messages": f"free (no comm) in {', '.join(free)}"} if free else {}


def _names_model(entry: Entry) -> bool:
    """Whether the file of an entry names the model that gives its times."""
    if entry.costs is not None or not isinstance(entry, FromFile):
        return False
    facts = entry.schedule._facts
    return bool(facts["has_model"] and not facts["times"])


def _head_lines(part: Part) -> list[str]:
    """Notes above the rows of a part."""
    arguments, costs, entries, rows = part.arguments, part.costs, part.entries, part.rows
    has_own = costs is None and bool(entries) and have_own_costs(entries)
    # The layers of a model are divided among the stages; `findings` compares the work of models.
    staged = [row for entry, row in zip(entries, rows, strict=True) if not _names_model(entry)]
    work = check_work(stages_of_groups(staged), costs, arguments.times_of)
    if arguments.divides_slots:
        work = [line.replace("times are", "slots are", 1) for line in work]
    if has_own:
        work = [line.replace("slots are", "times are", 1) for line in work]
    given = assumptions.was_given(arguments)
    sized = [row for row in rows if row.get("microbatch_size")]
    sizes = [(row["microbatches"], row["microbatch_size"]) for row in sized]
    settings = _settings(arguments)
    if part.simulations and all(map(_ends_in_optimizer, part.simulations)):
        del settings["optimizer_step"]
    points = [entry.point for entry in entries if isinstance(entry, FromFamily)]
    families = [point.family for point in points]
    sliced = any((row.get("slices") or 1) > 1 for row in rows)
    stored = (entry.schedule for entry in entries if isinstance(entry, FromFile))
    paired = assumptions.has_overlap(costs, families, stored)
    known = assumptions.assume_costs(costs, given, sizes, sliced=sliced, paired=paired)
    facts = assumptions.join(
        [
            _free(entries) if has_own else known,
            assumptions.assume_layers([(entry.costs, entry.counts) for entry in entries], given),
            assumptions.assume_timing(settings, given, () if has_own else (costs,)),
            assumptions.assume_families(families, given, points),
            assumptions.assume_memory(costs, given, reserve=True),
        ]
    )
    lines = [*work, *tell_settings(arguments), *assumptions.head_lines(facts, [costs])]
    return [*lines, *answers.moving_lines(rows)]


def _run_equal_memory(arguments: argparse.Namespace, budget: memory.Budget) -> int:
    """Times every schedule in all ways that change its memory; fails if none fits."""
    parts, found, bounds, below = [], [], [], []
    for one in _by_system(arguments):
        one, costs, entries = _with_equal_work(one)
        tried = memory.choose(entries, budget, one, _settings(one))
        least = memory.bounds_of(tried, budget, one)
        pairs = [(each.row, each.simulation) for each in tried]
        part = Part(one, costs, entries, pairs, [e.variant.entry for e in tried if e.simulation])
        _name_system(arguments, one, [*pairs, *least])
        groups = memory.rank(tried, least)
        below += part.below(memory.remarks(groups))
        parts.append(part)
        found += tried
        bounds += least
    groups = memory.rank(found, bounds)
    title = f"{_title(parts)}, {budget}"
    for part in parts:
        part.arguments.flags |= {"--recompute"}  # which was chosen, not assumed
    order = answers.add_order(groups.values())
    _write(arguments, groups, title, [*_lines_above(parts), *order], below)
    return 0 if any(each.fits for each in found) else 1


def _lines_above(parts: Sequence[Part]) -> list[str]:
    """Notes above the rows, each line once."""
    found: dict[str, list[str]] = {}
    for part in parts:
        for line in _head_lines(part):
            found.setdefault(line, []).append(str(part.arguments.system))
    lines = []
    for line, systems in found.items():
        what, _, said = line.partition(": ")
        differs = len(systems) < len(parts) and what in ("assumed", "changed")
        lines.append(f"{what} on {' and '.join(systems)}: {said}" if differs else line)
    return lines


def _write(
    arguments: argparse.Namespace,
    groups: Mapping[Size, Sequence[Pair]],
    title: str,
    above: Sequence[str],
    below: Sequence[str],
) -> None:
    """Writes the table, and the page and pictures if they are asked for."""
    pairs = [pair for group in groups.values() for pair in group]
    rows = [row for row, _ in pairs]
    is_one = len(pairs) == 1 and not arguments.memory and pairs[0][1] is not None
    made = [simulation for _, simulation in pairs if simulation]
    drawings.write_drawings(arguments, made)
    if arguments.html:
        page = "; ".join([title, *above])
        text = pipesched.page(made, title=page) if is_one else page_text(page, groups)
        write_text(text, arguments.html)
        say(f"wrote {arguments.html}")
    written = rows
    if arguments.format == "json":  # with the whole reports
        written = [{**json.loads(s.to_json()), **row} if s else row for row, s in pairs]
    columns = ONE if is_one else columns_of(rows)
    blank = [""] if below and not is_one else []
    write_rows(
        arguments,
        written,
        columns,
        title=None if is_one else title,
        above=above,
        remarks=[*blank, *below] if arguments.format == "text" else [],
    )


def _read(arguments: argparse.Namespace) -> None:
    """Keeps the schedules of files and the names of families, which may be among them."""
    arguments.files, named = files.split_words(arguments.files)
    arguments.schedules = [*named, *(arguments.schedules or ())] or None
    if arguments.name and not arguments.files:
        raise UsageError("--name chooses from files; none are given")
    arguments.read = files.read_all(arguments.files, arguments.name) if arguments.files else []
    if arguments.optimizer_step is None:
        usual = {usual_ending(family, vars(arguments)) for family in _families(arguments)}
        # All schedules of one comparison end in one way; schedules of files are not changed.
        ends = usual == {"overlapped"} and not arguments.read
        arguments.optimizer_step = "overlapped" if ends else "none"


def _lines_below(parts: Sequence[Part], is_one: bool) -> list[str]:
    """Findings, by part."""
    found = []
    for part in parts:
        if is_one:
            lines = [f"- {line}" for line in memory_findings(part.pairs)]
            found += part.below(["", *lines] if lines else [])
            continue
        lines = remarks(part.pairs)
        if part.arguments.format == "text":
            lines += comparisons.remarks(part.entries, part.pairs)
        found += part.below(lines)
    return found


def run(arguments: argparse.Namespace) -> int:
    """Times every schedule at every size; fails if none could be timed."""
    if arguments.order:
        from . import overlap

        return overlap.run(arguments)
    _read(arguments)
    if (budget := memory.take_budget(arguments)) is not None:
        return _run_equal_memory(arguments, budget)
    parts = _time_parts(arguments)
    pairs = [pair for part in parts for pair in part.pairs]
    groups = rank_by_size(pairs)
    if arguments.show_passes:
        rows = [row for group in groups.values() for row, _ in group]
        if not any(part.possible for part in parts):
            reasons = "; ".join(f"{row['schedule']}: {row['error']}" for row in rows)
            raise PipeSchedError(f"no schedule can be timed, and no pass makes one: {reasons}")
        lines = [_passes(part.arguments, part.possible) for part in parts if part.possible]
        write_text("".join(f"{line}\n" for line in lines), arguments.output)
        return 0
    if len(pairs) == 1 and not parts[0].possible:
        parts[0].entries[0].simulate()  # raises why it cannot be timed
    order = answers.add_order(groups.values())
    below = _lines_below(parts, len(pairs) == 1)
    _write(arguments, groups, _title(parts), [*_lines_above(parts), *order], below)
    return 0 if any(part.simulations for part in parts) else 1
