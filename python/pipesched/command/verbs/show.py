"""`pipesched show`: schedules as tables, models in a few numbers, and lists of choices."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any, cast

import pipesched
from pipesched import Costs, PipeSchedError, Schedule, Simulation, _core
from pipesched.costs.passes import source_option
from pipesched.support.options import TimingOptions

from ..explain import assumptions, ranking
from ..explain.rows import check_work
from ..options import files, input, passes, table
from ..options.arguments import (
    UsageError,
    add_family_options,
    passes_error,
    read_descriptions,
    source,
)
from ..options.entries import check_costs, from_files
from ..render.drawings import add_draw
from ..render.output import (
    Column,
    Row,
    add_output,
    cells,
    gibibytes,
    say,
    thousands,
    write_rows,
    write_text,
)

EXAMPLE = """  pipesched show zb-v --pp 4 --microbatches 8
  pipesched show --model llama3-70b
  pipesched show families"""

FAMILIES = (
    Column("family", "family", left=True),
    Column("what it is", "summary", left=True, wraps=True),
    Column("sizes", "sizes", left=True, wraps=True),
    Column("options", "options", ", ".join, left=True, wraps=True),
    Column("other names", "aliases", ", ".join, left=True, wraps=True),
)
DESCRIPTIONS = (
    Column("name", "name", left=True),
    Column("description", "description", left=True, wraps=True),
)
MODEL = (
    Column("model", "model", left=True),
    Column("parameters", "parameters", thousands),
    Column("active", "active_parameters", thousands, detail=1),
    Column("in experts", "expert_parameters", thousands, detail=2),
    Column("FLOPs per token", "flops_per_token", thousands),
    Column("layers", "layers"),
    Column("sequence", "sequence", detail=1),
    Column("activations/layer", "activation_bytes_per_block", gibibytes, detail=2),
    Column("activations/model", "activation_bytes", gibibytes, detail=1),
    Column("weights/model", "weight_bytes", gibibytes),
    Column("of experts", "expert_weight_bytes", gibibytes, detail=2),
    Column("optimizer/model", "optimizer_bytes", gibibytes, detail=1),
)
SYSTEM = (Column("field", "field", left=True), Column("value", "value", str, left=True))


LISTS = ("families", "models", "systems")
_LISTS_HELP = f"or what there is to choose: {', '.join(LISTS)}"


def add(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "file", nargs="?", metavar=f"{input.METAVAR}|LIST", help=f"{input.HELP}; {_LISTS_HELP}"
    )
    table.add(what, "model", "system")
    table.add(parser, "name", "sequence", "microbatch_size")
    table.add_set(parser, parser, {})
    add_draw(parser, ("html",))
    add_family_options(parser)
    add_output(parser)


# Schedules


def _simulated(schedule: Schedule, output: str | None) -> Simulation:
    """The schedule in its slots. A deadlock is drawn up to its place and then refused."""
    try:
        return schedule.simulate()
    except PipeSchedError:
        if picture := draw_deadlock(schedule):
            write_text(picture, output)
        raise


def _picture(arguments: argparse.Namespace, schedules: Sequence[Schedule]) -> str:
    """The tables in their slots, in colour if the terminal has colours."""
    is_terminal = arguments.output is None and sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size((120, 24)).columns if is_terminal else 120
    colours = is_terminal and not os.environ.get("NO_COLOR")
    simulations = [_simulated(schedule, arguments.output) for schedule in schedules]
    return _core.text([simulation._evaluation for simulation in simulations], width, colours)


def _write_page(
    arguments: argparse.Namespace, origin: files.Origin, schedules: Sequence[Schedule]
) -> None:
    """The page of several schedules, only for these and with the costs that they name."""
    timing: TimingOptions = {"transport": "overlap", "receive_placement": "arrival"}
    entries = from_files([(origin, each) for each in schedules], None, timing)
    check_costs(entries, None)
    pairs = ranking.time_entries(entries, timing)
    own = ranking.have_own_costs(entries)
    work = [] if own else check_work(ranking.stages_of_groups(row for row, _ in pairs), None, None)
    facts = assumptions.assume_timing(timing, lambda _: False, () if own else (None,))
    title = f"{arguments.file}, {'times of their own' if own else 'unit slots of 1 us'}"
    above = [title, *work, *assumptions.head_lines(facts)]
    write_text(ranking.page_text("; ".join(above), ranking.rank_by_size(pairs)), arguments.html)
    say(f"wrote {arguments.html}")


def _show_file(arguments: argparse.Namespace) -> None:
    origin, schedules = input.read(arguments)
    if arguments.html:
        _write_page(arguments, origin, schedules)
    if arguments.format == "text":
        write_text(_picture(arguments, schedules), arguments.output)
        return
    rows = [
        {"schedule": schedule.name, **cell} for schedule in schedules for cell in cells(schedule)
    ]
    write_rows(arguments, rows, ())


# Models and systems


def _show_model(arguments: argparse.Namespace) -> None:
    costs = Costs(
        model=read_descriptions(arguments)[0],
        sequence=arguments.sequence,
        microbatch_size=arguments.microbatch_size,
    )
    model: dict[str, Any] = json.loads(costs._raw.model())
    if arguments.format == "json":
        write_text(json.dumps(model, indent=1) + "\n", arguments.output)
    else:
        remarks = [f"note: {note}" for note in model["notes"]]
        write_rows(arguments, [model], MODEL, remarks=remarks)


def _system(given: str) -> dict[str, Any]:
    """The fields of the file; the library has read it, so they are valid."""
    found = source(given, pipesched.systems)
    Costs(system=found)
    for name, fields in pipesched.systems().items():
        if found in (name, *fields.get("aliases", ())):
            return fields
    with open(str(found), encoding="utf-8-sig") as file:
        fields = json.load(file)
    return dict(fields)


def _flat(fields: dict[str, Any], prefix: str = "") -> list[Row]:
    rows: list[Row] = []
    for name, value in fields.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append({"field": prefix + name, "value": value})
    return rows


def _show_system(arguments: argparse.Namespace) -> None:
    system = _system(arguments.system)
    if arguments.settings:
        system = cast("dict[str, Any]", read_descriptions(arguments)[1])
        Costs(system=system)  # refuses values that are out of range
    if arguments.format == "json":
        write_text(json.dumps(system, indent=1) + "\n", arguments.output)
    else:
        write_rows(arguments, _flat({k: v for k, v in system.items() if k != "sources"}), SYSTEM)


# Lists


def _families() -> list[Row]:
    return [
        {
            "family": family.name,
            "summary": family.summary,
            "sizes": family.sizes,
            "source": family.source,
            "options": list(family.options),
            "aliases": list(family.aliases),
        }
        for family in pipesched.families().values()
    ]


def _show_list(arguments: argparse.Namespace) -> None:
    if arguments.list == "families":
        write_rows(arguments, _families(), FAMILIES)
        return
    shipped = pipesched.models() if arguments.list == "models" else pipesched.systems()
    rows = [
        {"name": name, "description": fields.get("description")} for name, fields in shipped.items()
    ]
    write_rows(arguments, rows, DESCRIPTIONS)


def _show_passes(arguments: argparse.Namespace) -> None:
    made = input.generate(arguments)
    if arguments.file:
        line = passes.command_line(made, input.origin_of(arguments), export="--export-text")
    elif arguments.model:
        options = {
            **source_option("model", str(source(arguments.model, pipesched.models))),
            "sequence": arguments.sequence,
            "microbatch-size": arguments.microbatch_size or 1,
        }
        # A model is attached to schedules, so there must be one.
        made = [
            passes.one_pass("pipe-create", {"name": "schedule", "workers": 1, "microbatches": 1}),
            passes.one_pass("pipe-attach-model", options),
        ]
        line = passes.command_line(made, export="--export-models")
    elif arguments.system:
        options = dict(source_option("system", str(source(arguments.system, pipesched.systems))))
        line = passes.command_line([passes.one_pass("pipe-attach-system", options)])
    else:
        raise UsageError("--show-passes: lists are not the work of passes")
    write_text(line + "\n", arguments.output)


def run(arguments: argparse.Namespace) -> int:
    arguments.list = arguments.file if arguments.file in LISTS else None
    arguments.file = None if arguments.list else arguments.file
    for option in ("sequence", "microbatch_size"):
        if getattr(arguments, option) and not arguments.model:
            raise UsageError(f"{arguments.shown[option]} is about --model")
    if arguments.html and not arguments.file:
        raise UsageError("--draw draws schedules; give a file or a family")
    if not arguments.file:
        input.family_of(arguments)  # refuses options of families
    if arguments.settings and not (arguments.model or arguments.system):
        raise UsageError("--set is about --model or --system")
    if arguments.show_passes:
        if arguments.settings:
            raise passes_error(arguments, "model" if arguments.model else "system")
        _show_passes(arguments)
    elif arguments.file:
        _show_file(arguments)
    elif arguments.model:
        _show_model(arguments)
    elif arguments.system:
        _show_system(arguments)
    else:
        _show_list(arguments)
    return 0


# Schedules that deadlock

_MOST = 8
"""The number of cells of a cycle that the first line names."""


def draw_deadlock(schedule: Schedule) -> str | None:
    """Returns the picture; None for rows without a deadlock or with a further mistake."""
    found = schedule._module.deadlock(0)
    if found is None:
        return None
    cycle, slots = found
    width = max(len(text) for row in schedule.rows for text in row)
    columns = 1 + max(slots)
    names: dict[tuple[int, int], str] = {}
    lines, runs, total, first = [], 0, 0, 0
    for worker, row in enumerate(schedule.rows):
        places, waiting, index = ["." * width] * columns, [], 0
        for text in row:
            cells = text.split("+")
            keys = [(worker, index + half) for half in range(len(cells))]
            names.update(zip(keys, cells, strict=True))
            if (slot := slots[first + index]) >= 0:
                places[slot] = text.ljust(width)
                runs += 1
            else:
                waiting.append(f"<{text}>" if any(key in cycle for key in keys) else text)
            index += len(cells)
        first += index
        total += len(row)
        lines.append(f"  worker {worker}  {' '.join([*places, '|', *waiting])}".rstrip())
    more = [f"and {len(cycle) - _MOST} more"] if len(cycle) > _MOST else []
    head = (
        f"{schedule.name}: {runs} of {total} cells run in {columns} slots, then "
        f"{', '.join([*(names[key] for key in cycle[:_MOST]), *more])} wait for each other"
    )
    return "\n".join([head, *lines]) + "\n"
