"""`pipesched simulate`: the full report of schedules in files, or of a generated one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipesched import Configuration, Costs, Schedule, Simulation
from pipesched._division import Counts
from pipesched._options import TimingOptions
from pipesched._times_of import Place

from . import assumed, banded, files, given, passes, routed, stragglers
from .arguments import (
    UsageError,
    add_costs,
    add_family_options,
    add_optimizer_step,
    add_timing,
    canonical,
    given_costs,
    given_family_options,
    positive,
    said_of_settings,
)
from .drawings import add_drawings, write_drawings
from .entries import FromFile, from_files, lines_of_files, times_by_schedule, with_ending
from .output import (
    CAUSES,
    Column,
    add_output,
    results,
    say_lines,
    view_of,
    write_rows,
    write_text,
)
from .timed import (
    check_work,
    layers_of,
    levels,
    memory_of,
    microbatch_size,
    named_by,
    rates,
    stages_of,
)

EXAMPLE = """  pipesched simulate --schedule 1f1b --workers 8 --microbatches 24 \\
      --model llama3-70b --system dgx-h100 --global-batch 24
  pipesched simulate schedule.mlir schedule.csv --slow-worker 3=1.3 --jitter 5%"""

TIMING = ("transport", "receive_placement", "runtime")

FILE = Column("file", "file", files.shown, left=True)
COLUMNS = (
    Column("schedule", "schedule", left=True),
    *results(*CAUSES, "fits"),
)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `simulate`."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE|FAMILY",
        help="a family, or files: IR, bytecode or PyTorch's CSV; - for standard input",
    )
    parser.add_argument("--name", help="the schedule of that name, where there are several")
    group = parser.add_argument_group("in place of files")
    group.add_argument("--schedule", metavar="FAMILY", help="generate this family")
    group.add_argument("--workers", type=positive, metavar="D")
    group.add_argument("--microbatches", type=positive, metavar="N")
    add_family_options(parser)
    add_costs(parser)
    add_timing(parser)
    add_optimizer_step(parser)
    add_drawings(parser)
    stragglers.add(parser)
    add_output(parser)


def _take_family(arguments: argparse.Namespace) -> None:
    """Lets a family stand among the files, as for `compare`."""
    arguments.files, named = files.told_apart(arguments.files)
    if not named:
        return
    arguments.schedule = given.only([*named, *filter(None, [arguments.schedule])])


def _schedules(
    arguments: argparse.Namespace, costs: Costs | None
) -> list[tuple[files.Origin, Schedule]]:
    """The schedules of the files, or the generated one, with their files."""
    if bool(arguments.files) == bool(arguments.schedule):
        raise UsageError("give either files or --schedule")
    if arguments.files:
        given.refuse_sizes(arguments, "--schedule, not about files")
        return files.read_all(arguments.files, arguments.name)
    if not arguments.workers or not arguments.microbatches:
        raise UsageError("--schedule needs --workers and --microbatches")
    return [(files.Origin(), _point(arguments, costs).generate())]


def _point(arguments: argparse.Namespace, costs: Costs | None) -> Configuration:
    """The family of `--schedule`, without an end of the step."""
    return Configuration(
        arguments.schedule,
        arguments.workers,
        arguments.microbatches,
        given_family_options(arguments),
        costs=costs,
    )


def _add_formula(arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Adds the formula of a family of one's own, which the report does not know."""
    if not arguments.schedule:
        return
    point = replace(_point(arguments, None), optimizer_step=arguments.optimizer_step)
    ratio = point._own_bubble_ratio
    if ratio is not None:
        rows[0] |= {"formula_bubble_ratio": ratio, "formula_of": "step"}


def _timing(arguments: argparse.Namespace) -> TimingOptions:
    return {
        "transport": arguments.transport,
        "receive_placement": arguments.receive_placement,
        "runtime": arguments.runtime,
    }


def summary(simulation: Simulation, entry: FromFile) -> dict[str, Any]:
    """The single numbers of a report."""
    named = named_by(entry)
    memory = memory_of(simulation, entry.costs, named)
    found = {
        "schedule": simulation.schedule,
        "file": entry.file.path or None,
        "workers": simulation.workers,
        "microbatches": simulation.microbatches,
        **levels(simulation),
        **banded.keys_of(entry, simulation.execution.makespan_ps / 1e12),
        **routed.keys_of(entry),
        **rates(entry.costs, simulation, named),
        **{key: memory[key] for key in ("peak_bytes", "peak_bytes_per_gpu")},
        **assumed.keys_of(entry.costs),
        "layers": layers_of(entry),
        "microbatch_size": microbatch_size(simulation),
    }
    return {key: value for key, value in found.items() if key not in CAUSES}


def _uneven(entry: FromFile) -> Sequence[Place]:
    """The places of a generated schedule whose stages hold different numbers of layers."""
    return entry.places if any(lengths for _, lengths in entry.places) else ()


def _passes(arguments: argparse.Namespace, entries: list[FromFile]) -> str:
    timings = stragglers.timings(arguments, entries)
    if arguments.files:
        return "\n".join(lines_of_files(arguments, entries, timings))
    made = passes.generating(
        canonical(arguments.schedule),
        "schedule",
        arguments.workers,
        arguments.microbatches,
        _point(arguments, entries[0].costs).made_options,
        _uneven(entries[0]),
    )
    made += passes.attaching(arguments, times_by_schedule([("schedule", entries[0])]))
    made += passes.stepping(arguments)
    exports = (f"--export-report {timing}" for timing in timings)
    return "\n".join(passes.command_line(made, export=export) for export in exports)


def _counts(arguments: argparse.Namespace, entry: FromFile) -> Sequence[Counts] | None:
    """The layers of stages that a rule chose, for this entry or when it was generated."""
    if arguments.files:
        return entry.counts
    lengths = [lengths for _, lengths in _uneven(entry) if lengths]
    return lengths or None


def _ends_in_optimizer(simulation: Simulation) -> bool:
    """Whether the cell that ends the step is an optimizer step."""
    return any("O" in cell for cell in (simulation.execution.critical_path or ())[-1:])


def _above(
    arguments: argparse.Namespace,
    entries: list[FromFile],
    rows: list[dict[str, Any]],
    simulations: list[Simulation],
) -> list[str]:
    stages = {e.label: stages_of(e, s) for e, s in zip(entries, simulations, strict=True)}
    # Nothing is ranked, so that differing work is no obstacle.
    work = check_work([{n: c} for n, c in stages.items()], entries[0].costs, arguments.times_of)
    is_given = assumed.was_given(arguments)
    costs: Costs | None = entries[0].costs
    sizes = [(r["microbatches"], r["microbatch_size"]) for r in rows if r["microbatch_size"]]
    points = [_point(arguments, entries[0].costs)] if arguments.schedule else []
    generated = [canonical(point.family) for point in points]
    without = [e.label for e in entries if costs is None and not e.has_own_costs()]
    free = [] if costs else [e.label for e in entries if e.has_free_messages()]
    some = costs is None and len(without) < len(entries)
    timing = {name: getattr(arguments, name) for name in TIMING}
    if not all(map(_ends_in_optimizer, simulations)):
        timing["optimizer_step"] = arguments.optimizer_step
    sliced = any(each.slices > 1 for each in simulations)
    paired = assumed.overlap(costs, stored=(e.schedule for e in entries))
    known = assumed.of_costs(costs, is_given, sizes, sliced=sliced, paired=paired)
    facts = assumed.joined(
        [
            assumed.of_files(without) if some else known,
            assumed.of_own_times(free),
            assumed.of_layers([(e.costs, _counts(arguments, e)) for e in entries], is_given),
            assumed.of_timing(timing, is_given, () if some else (costs,)),
            assumed.of_families(generated, is_given, points),
            assumed.of_memory(costs, is_given),
        ]
    )
    return [
        *work,
        *said_of_settings(arguments),
        *assumed.above(facts, [costs]),
        *banded.above(rows),
        *routed.above(rows),
    ]


def run(arguments: argparse.Namespace) -> int:
    """Times the schedules. JSON has the whole reports, text and CSV their single numbers."""
    costs = given_costs(arguments)
    _take_family(arguments)
    schedules = _schedules(arguments, costs)
    read = from_files(schedules, costs, _timing(arguments))
    entries = [with_ending(entry, arguments) for entry in read]
    if arguments.show_passes:
        write_text(_passes(arguments, entries) + "\n", arguments.output)
        return 0
    simulations = [entry.simulate() for entry in entries]
    rows = [summary(s, e) for s, e in zip(simulations, entries, strict=True)]
    _add_formula(arguments, rows)
    disturbed = stragglers.rows(arguments, entries, is_ranked=False)
    above = _above(arguments, entries, rows, simulations)
    write_drawings(arguments, simulations, "; ".join(banded.above(rows)))
    if arguments.format == "json":
        reports = [json.loads(simulation.to_json()) for simulation in simulations]
        for report, row in zip(reports, rows, strict=True):
            report |= {"band": row["band"]} if row["band"] else {}
        if len(arguments.files) > 1:
            reports = [{"file": e.file.path, **r} for e, r in zip(entries, reports, strict=True)]
        if disturbed:
            stragglers.add_to(reports, disturbed)
        say_lines(above)
        write_text(json.dumps(reports) + "\n", arguments.output)
    else:
        if disturbed:
            stragglers.add_to(rows, disturbed)
        remarks = stragglers.remarks(disturbed, view_of(arguments).width)
        columns = (FILE, *COLUMNS) if len(arguments.files) > 1 else COLUMNS
        write_rows(arguments, rows, columns, above=above, remarks=remarks)
    return 0
