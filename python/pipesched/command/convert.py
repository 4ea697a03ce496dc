"""`pipesched convert`: between IR, bytecode, PyTorch's CSV, pictures and traces."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pipesched import PipeSchedError, Schedule

from . import files, passes
from .arguments import UsageError
from .drawings import WIDTH, width
from .output import write_text

EXAMPLE = "  pipesched convert schedule.csv schedule.mlir"

TEXTS = ("mlir", "mlirbc", "torch-csv", "torch-comms-csv", "trace", "report", "exec")
DRAWN = ("svg", "png", "pdf", "tikz", "html")
FORMATS = (*TEXTS, *DRAWN)
ENDINGS = {".mlir": "mlir", ".mlirbc": "mlirbc", ".csv": "torch-csv"} | {
    f".{format}": format for format in DRAWN
}
EXPORTS = {
    "torch-csv": "--export-torch-csv",
    "torch-comms-csv": "--export-torch-csv --torch-csv-format=compute_comms",
    "svg": "--export-svg --svg-variant=slots",
    "trace": "--export-chrome-trace",
    "report": "--export-report",
}


_ONCE = "give OUTPUT once, behind the file or with -o"


class _Once(argparse.Action):
    """Takes a value that has two places on the line, from one of them."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if getattr(namespace, self.dest, None) is not None:
            parser.error(_ONCE)
        setattr(namespace, self.dest, values)


def add(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `convert`."""
    files.add_input(parser)
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        nargs="?",
        action=_Once,
        default=argparse.SUPPRESS,
        help="- for standard output",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", action=_Once, help="the same, as other verbs have it"
    )
    parser.add_argument("--to", choices=FORMATS, help="in place of what OUTPUT ends in")
    parser.add_argument("--width", type=width, help=WIDTH)
    parser.add_argument("--pipeline", help="passes to run first, such as pipe-align-slots")
    parser.add_argument(
        "--show-passes", action="store_true", help="print the line of pipesched-opt"
    )


def _format(arguments: argparse.Namespace) -> str:
    if arguments.to:
        return str(arguments.to)
    ending = Path(arguments.output).suffix
    if ending not in ENDINGS:
        known = ", ".join(ENDINGS)
        raise PipeSchedError(
            f"cannot tell from {arguments.output!r} what to write; known endings: {known}; or --to"
        )
    return ENDINGS[ending]


def _contents(schedule: Schedule, format: str, width: str | None) -> str | bytes:
    if format in DRAWN[:4]:
        return schedule.to_svg().contents(f".{format}", width)
    if format == "mlirbc":
        return schedule.to_bytecode()
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
    """Converts the one schedule of the file."""
    if arguments.output is None:
        raise UsageError(_ONCE)
    format = _format(arguments)
    if arguments.width and format not in DRAWN[:4]:
        raise UsageError(f"--width is that of {', '.join(DRAWN[:4])}, not of {format}")
    made = [arguments.pipeline] if arguments.pipeline else []
    if format == "exec":
        made.append("convert-pipe-to-exec")
    if arguments.show_passes:
        if format in DRAWN[1:]:
            raise UsageError(f"no tool writes {format}; --to svg has a line of passes")
        origin = files.origin_of(arguments.file)
        write_text(passes.command_line(made, origin, export=EXPORTS.get(format, "")) + "\n")
        return 0
    _, schedule = files.read_one(arguments)
    for pipeline in made:
        schedule = schedule.transform(pipeline)
    write_text(_contents(schedule, format, arguments.width), arguments.output)
    return 0
