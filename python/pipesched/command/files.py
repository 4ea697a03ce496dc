"""Schedule files: read by their contents, written by the ending of their names."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TypeVar

from pipesched import PipeSchedError, Schedule
from pipesched._making import load, loads

T = TypeVar("T")
_CSV_BEGINS = tuple(bytes([each]) for each in b"0123456789,(")
"""What PyTorch's CSV begins with, and no IR does: a stage, an empty slot, an overlapped pair."""
ENDINGS = (".mlir", ".mlirbc", ".csv", ".svg")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Adds the schedule file argument of verbs that read one."""
    parser.add_argument(
        "file", metavar="FILE", help="IR, bytecode, or PyTorch's CSV; - for standard input"
    )
    parser.add_argument("--name", help="the schedule of that name, where there are several")


class Stdin:
    """What standard input held, once it has been read."""

    is_csv = False


def shown(path: str) -> str:
    """What texts for people call the file."""
    return "<stdin>" if path == "-" else path


def read(arguments: argparse.Namespace) -> list[Schedule]:
    """The schedules of the file, or only the one that was asked for."""
    schedules = _load(arguments.file)
    if not schedules:
        raise PipeSchedError(f"{shown(arguments.file)} has no schedule or program")
    return _named(schedules, schedules, arguments.name)


def read_all(paths: Sequence[str], name: str | None) -> list[tuple[str, Schedule]]:
    """The schedules of several files with their files, or only those that are called `name`."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise PipeSchedError(f"{shown(twice)} is given twice")
    read = [(path, schedule) for path in paths for schedule in _load(path)]
    for path in paths:
        if not any(path == other for other, _ in read):
            raise PipeSchedError(f"{shown(path)} has no schedule or program")
    kept = _named([schedule for _, schedule in read], read, name)
    return kept


def _load(path: str) -> list[Schedule]:
    if path != "-":
        return load(path)
    text = sys.stdin.buffer.read()
    Stdin.is_csv = text.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in _CSV_BEGINS
    if Stdin.is_csv:
        return [Schedule.from_csv(text.decode(errors="replace"), filename="<stdin>")]
    return loads(text, filename="<stdin>")


def _named(schedules: Sequence[Schedule], items: Sequence[T], name: str | None) -> list[T]:
    """The items whose schedules have this name; without a name all."""
    if name is None:
        return list(items)
    pairs = zip(schedules, items, strict=True)
    chosen = [item for schedule, item in pairs if schedule.name == name]
    if not chosen:
        found = ", ".join(schedule.name for schedule in schedules) or "none"
        raise PipeSchedError(f"there is no schedule or program {name!r}; found {found}")
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
