"""Schedule files: read by their contents, written by the ending of their names."""

from __future__ import annotations

import argparse
import sys

from pipesched import PipeSchedError, Schedule
from pipesched._making import load, loads

ENDINGS = (".mlir", ".mlirbc", ".csv", ".svg")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Adds the schedule file argument of verbs that read one."""
    parser.add_argument(
        "file", metavar="FILE", help="IR, bytecode, or PyTorch's CSV; - for IR on standard input"
    )
    parser.add_argument("--name", help="the schedule of that name, where there are several")


def read(arguments: argparse.Namespace) -> list[Schedule]:
    """The schedules of the file, or only the one that was asked for."""
    if arguments.file == "-":
        schedules = loads(sys.stdin.buffer.read(), filename="<stdin>")
    else:
        schedules = load(arguments.file)
    if arguments.name is None:
        return schedules
    chosen = [schedule for schedule in schedules if schedule.name == arguments.name]
    if not chosen:
        found = ", ".join(schedule.name for schedule in schedules) or "none"
        raise PipeSchedError(f"there is no schedule or program {arguments.name!r}; found {found}")
    return chosen


def read_one(arguments: argparse.Namespace) -> Schedule:
    """The only schedule of the file."""
    schedules = read(arguments)
    if len(schedules) != 1:
        names = ", ".join(schedule.name for schedule in schedules) or "none"
        raise PipeSchedError(
            f"{arguments.file} has {len(schedules)} schedules ({names}); --name chooses one"
        )
    return schedules[0]
