"""`pipesched simulate`: the full report of schedules in a file, or of a generated one."""

from __future__ import annotations

import argparse
import json
from typing import Any

import pipesched
from pipesched import Schedule, Simulation

from . import files, passes
from .arguments import (
    UsageError,
    Verbs,
    add_costs,
    add_family_options,
    add_timing,
    add_verb,
    given_costs,
    given_family_options,
    positive,
)
from .drawings import add_drawings, write_drawings
from .output import CAUSES, Column, add_output, results, write_rows, write_text

EXAMPLE = """  pipesched simulate --schedule 1f1b --workers 8 --microbatches 24 \\
      --model llama3-70b --system dgx-h100 --global-batch 24"""

COLUMNS = (
    Column("schedule", "schedule", left=True),
    *results(*CAUSES, "tokens_per_s", "mfu", "fits"),
)


def add(verbs: Verbs) -> None:
    """Adds the parser."""
    parser = add_verb(
        verbs,
        "simulate",
        run,
        summary="The report of schedules: formula, table, execution, memory.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="IR, bytecode or PyTorch's CSV; - for standard input",
    )
    parser.add_argument("--name", help="the schedule of that name, where there are several")
    group = parser.add_argument_group("in place of a file")
    group.add_argument("--schedule", metavar="FAMILY", help="generate this family")
    group.add_argument("--workers", type=positive, metavar="D")
    group.add_argument("--microbatches", type=positive, metavar="N")
    add_family_options(parser)
    add_costs(parser)
    add_timing(parser)
    add_drawings(parser)
    add_output(parser)


def schedules_of(arguments: argparse.Namespace) -> list[Schedule]:
    """The schedules of the file, or the generated one."""
    if bool(arguments.file) == bool(arguments.schedule):
        raise UsageError("give either a file or --schedule")
    if arguments.file:
        return files.read(arguments)
    if not arguments.workers or not arguments.microbatches:
        raise UsageError("--schedule needs --workers and --microbatches")
    return [
        pipesched.generate(
            arguments.schedule,
            workers=arguments.workers,
            microbatches=arguments.microbatches,
            **given_family_options(arguments),
        )
    ]


def summary(simulation: Simulation) -> dict[str, Any]:
    """The single numbers of a report."""
    execution, table, memory = simulation.execution, simulation.table, simulation.memory
    return {
        "schedule": simulation.schedule,
        "step_s": execution.makespan_ps / 1e12,
        "idle_ratio": execution.idle_ratio,
        "span_bubble_ratio": execution.span_bubble_ratio,
        "formula_bubble_ratio": simulation.formula.bubble_ratio if simulation.formula else None,
        "table_bubble_ratio": table.bubble_ratio if table else None,
        "peak_activations": int(table.peak_activations.max()) if table else None,
        "peak_bytes": int(memory.peak_bytes.max()) if memory else None,
    }


def _passes(arguments: argparse.Namespace) -> str:
    made: list[str] = []
    if arguments.schedule:
        schedule = schedules_of(arguments)[0]
        made = passes.generating(
            schedule.family or arguments.schedule,
            "schedule",
            arguments.workers,
            arguments.microbatches,
            given_family_options(arguments),
        )
    export = f"--export-report {passes.timing(arguments)}"
    return passes.command_line(made + passes.attaching(arguments), arguments.file, export=export)


def run(arguments: argparse.Namespace) -> int:
    """Times the schedules. JSON has the whole reports, text and CSV their single numbers."""
    if arguments.show_passes:
        write_text(_passes(arguments) + "\n")
        return 0
    costs = given_costs(arguments)
    simulations = [
        schedule.simulate(
            costs,
            transport=arguments.transport,
            receive_placement=arguments.receive_placement,
            runtime=arguments.runtime,
        )
        for schedule in schedules_of(arguments)
    ]
    write_drawings(arguments, simulations)
    if arguments.format == "json":
        reports = [json.loads(simulation.to_json()) for simulation in simulations]
        write_text(json.dumps(reports) + "\n", arguments.output)
    else:
        write_rows(arguments, [summary(simulation) for simulation in simulations], COLUMNS)
    return 0
