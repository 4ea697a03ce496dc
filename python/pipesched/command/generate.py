"""`pipesched generate`: the schedule of a family, as a file."""

from __future__ import annotations

import argparse
import os

import pipesched
from pipesched import PipeSchedError, Schedule

from . import passes
from .arguments import (
    UsageError,
    add_family_options,
    canonical,
    given_family_options,
    positive,
)
from .output import cells, json_text, write_text

EXAMPLE = "  pipesched generate zb-h1 --workers 4 --microbatches 8 --align"


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `generate`."""
    parser.add_argument(
        "family",
        metavar="FAMILY",
        nargs="?",
        help="a family or one of its other names, such as VPP",
    )
    parser.add_argument(
        "--schedule", metavar="FAMILY", help="the same, as other verbs have it"
    )
    parser.add_argument("--workers", type=positive, required=True, metavar="D")
    parser.add_argument("--microbatches", type=positive, required=True, metavar="N")
    parser.add_argument("--name", default="schedule", help="the symbol of the schedule")
    parser.add_argument("--align", action="store_true", help="write idle slots")
    add_family_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format",
        choices=("text", "json", "csv"),
        default="text",
        help="IR, one JSON object per cell, or PyTorch's CSV",
    )
    group.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=".mlir, .mlirbc, .csv (PyTorch's), .svg, .png or .pdf, as it is called",
    )
    group.add_argument("--show-passes", action="store_true", help="print the line of pipesched-opt")


def _text(schedule: Schedule, format: str) -> str:
    if format == "csv":
        return schedule.to_csv()
    if format == "json":
        return json_text(cells(schedule))
    return schedule.to_text()


def run(arguments: argparse.Namespace) -> int:
    """Generates the schedule, and writes or prints it."""
    if (arguments.family is None) == (arguments.schedule is None):
        raise UsageError("give one family, by itself or with --schedule")
    arguments.family = arguments.family or arguments.schedule
    options = given_family_options(arguments)
    align = ["pipe-align-slots"] if arguments.align else []
    schedule = pipesched.generate(
        arguments.family,
        workers=arguments.workers,
        microbatches=arguments.microbatches,
        name=arguments.name,
        **options,
    )
    if arguments.show_passes:
        made = passes.generating(
            canonical(arguments.family),
            arguments.name,
            arguments.workers,
            arguments.microbatches,
            options,
        )
        write_text(passes.command_line(made + align) + "\n")
        return 0
    for name in align:
        schedule = schedule.transform(name)
    if arguments.output not in (None, "-") and arguments.format == "text":
        if not os.path.splitext(arguments.output)[1]:
            raise PipeSchedError(f"{arguments.output} has no ending that says what to write")
        write_text(schedule._contents(os.path.splitext(arguments.output)[1]), arguments.output)
    else:
        write_text(_text(schedule, arguments.format), arguments.output)
    return 0
