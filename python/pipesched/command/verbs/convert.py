"""`pipesched convert`: schedules of files and families as IR, CSV, pictures and traces."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pipesched import PipeSchedError, Schedule
from pipesched.results.chakra import ENDING, names_of_groups
from pipesched.schedule.registry import elements_of, is_place
from pipesched.support.files import write_whole

from ..options import files, input, passes, table
from ..options.arguments import UsageError, add_family_options
from ..render.drawings import add_width
from ..render.output import cells, json_text, write_text

EXAMPLE = """  pipesched convert schedule.csv schedule.mlir
  pipesched convert zb-h1 --pp 4 --microbatches 8 --pipeline pipe-align-slots"""

TEXTS = (
    "mlir",
    "mlirbc",
    "torch-csv",
    "torch-comms-csv",
    "trace",
    "report",
    "exec",
    "cells",
    "chakra",
)
DRAWN = ("svg", "png", "pdf", "tikz", "html")
FORMATS = (*TEXTS, *DRAWN)
ENDINGS = {
    ".mlir": "mlir",
    ".mlirbc": "mlirbc",
    ".csv": "torch-csv",
    ".tex": "tikz",
    ".et": "chakra",
} | {f".{format}": format for format in DRAWN}
EXPORTS = {
    "torch-csv": "--export-torch-csv",
    "torch-comms-csv": "--export-torch-csv --torch-csv-format=compute_comms",
    "svg": "--export-svg --svg-variant=slots",
    "trace": "--export-chrome-trace",
    "report": "--export-report",
}


_ONCE = "give OUTPUT once, after the file or with -o"


class _Once(argparse.Action):
    """Takes a value with two possible places on the line from one of them."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            parser.error(_ONCE)
        setattr(namespace, self.dest, values)


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar=input.METAVAR, help=input.HELP)
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        nargs="?",
        action=_Once,
        default=argparse.SUPPRESS,
        help="without it, or with -, standard output",
    )
    table.add(parser, "name")
    add_family_options(parser)
    group = parser.add_argument_group("output")
    table.add(group, "output", "pipeline", "show_passes", output={"action": _Once})
    group.add_argument(
        "--to", choices=FORMATS, help="in place of what OUTPUT ends in; IR without either"
    )
    add_width(group)


def _format(arguments: argparse.Namespace) -> str:
    if arguments.to or arguments.output in (None, "-"):
        return str(arguments.to or "mlir")
    ending = Path(arguments.output).suffix
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise PipeSchedError(
            f"cannot tell from {arguments.output!r} what to write; known endings: {known}; or --to"
        )
    return ENDINGS[ending]


def _write_chakra(schedule: Schedule, output: str | None) -> None:
    """Writes a file for each worker, and one of the groups that collectives name."""
    if output in (None, "-"):
        raise UsageError("chakra is one file for each worker: give the prefix of their names")
    prefix = str(output).removesuffix(ENDING)
    traces, groups = schedule.to_chakra(), names_of_groups(schedule)[1]
    for worker, content in enumerate(traces):
        write_whole(f"{prefix}.{worker}{ENDING}", content)
    if groups:
        write_whole(f"{prefix}.groups.json", (json.dumps(groups) + "\n").encode())


def _contents(schedule: Schedule, format: str, width: str | None) -> str | bytes:
    if format in DRAWN[:4]:
        return schedule.to_svg().contents(f".{format}", width)
    if format == "mlirbc":
        return schedule.to_bytecode()
    if format == "cells":
        return json_text(cells(schedule))
    if format == "torch-csv":
        return schedule.to_csv()
    if format == "torch-comms-csv":
        return schedule.to_csv("compute_comms")
    if format == "html":
        return schedule.simulate().to_html()
    if format == "trace":
        return schedule.simulate().to_chrome_trace()
    if format == "report":
        return schedule.simulate().to_json() + "\n"
    return schedule.to_text()


def run(arguments: argparse.Namespace) -> int:
    format = _format(arguments)
    if arguments.width and format not in DRAWN[:4]:
        raise UsageError(f"--width is that of {', '.join(DRAWN[:4])}, not of {format}")
    made = [arguments.pipeline] if arguments.pipeline else []
    if format == "exec":
        made.append("convert-pipe-to-exec")
    if arguments.show_passes:
        if format in (*DRAWN[1:], "cells", "chakra"):
            raise UsageError(f"no tool writes {format}; --to svg has a line of passes")
        for each in filter(is_place, elements_of(arguments.pipeline or "")):
            raise UsageError(f"pipesched-opt runs no Python, such as {each} of --pipeline")
        made = [*input.generate(arguments), *made]
        origin = input.origin_of(arguments)
        write_text(passes.command_line(made, origin, export=EXPORTS.get(format, "")) + "\n")
        return 0
    schedule = files.only(arguments, input.read(arguments)[1])
    for pipeline in made:
        schedule = schedule.transform(pipeline)
    if format == "chakra":
        _write_chakra(schedule, arguments.output)
    else:
        write_text(_contents(schedule, format, arguments.width), arguments.output)
    return 0
