"""Schedule files: read by their contents, written by the ending of their names."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipesched import PipeSchedError, Schedule
from pipesched.schedule.families import canonical
from pipesched.schedule.generation import load, loads

_CSV_BEGINS = tuple(bytes([each]) for each in b"0123456789,(")
"""The start of PyTorch's CSV, never of IR: a stage, an empty slot or an overlapped pair.
"""
ENDINGS = (".mlir", ".mlirbc", ".csv", ".svg")
RECIPES = (".sh", ".bash", ".slurm", ".sbatch", ".toml", ".yaml", ".yml", ".py")
"""Endings of recipes of launchers."""


@dataclass(frozen=True)
class Origin:
    """The path of a file, `-` for standard input, empty for none; and whether it holds CSV."""

    path: str = ""
    is_csv: bool = False


def show_path(path: str) -> str:
    """The name of the file in texts for people."""
    return "<stdin>" if path == "-" else path


def read(arguments: argparse.Namespace) -> tuple[Origin, list[Schedule]]:
    """The schedules of the file, or only the one that was asked for."""
    found = read_all([arguments.file], arguments.name)
    return found[0][0], [schedule for _, schedule in found]


def read_all(paths: Sequence[str], name: str | None) -> list[tuple[Origin, Schedule]]:
    """The schedules of several files with their files, or only the ones called `name`."""
    if len(set(paths)) < len(paths):
        twice = next(path for path in paths if paths.count(path) > 1)
        raise PipeSchedError(f"{show_path(twice)} is given twice")
    read: list[tuple[Origin, Schedule]] = []
    for path in paths:
        origin, schedules = _load(path)
        if not schedules:
            raise PipeSchedError(f"{show_path(path)} has no schedule or program")
        read += [(origin, schedule) for schedule in schedules]
    chosen = [(origin, each) for origin, each in read if name in (None, each.name)]
    if not chosen:
        found = ", ".join(schedule.name for _, schedule in read)
        raise PipeSchedError(f"there is no schedule or program {name!r}; found {found}")
    return chosen


def is_schedule_file(text: str) -> bool:
    """Whether a schedule is named by a file, not by its family or the function of one."""
    if ".py:" in text:
        return False
    return os.sep in text or Path(text).suffix in (".mlir", ".mlirbc", ".csv")


def is_recipe(text: str) -> bool:
    """Whether a file is a recipe of a launcher, by its ending."""
    return Path(text).suffix in RECIPES


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The files and the families among some words. A name of a family is the family; `./1f1b` is a
    file.
    """
    found: list[str] = []
    families: list[str] = []
    for word in words:
        if word == "-" or is_schedule_file(word):
            found.append(word)
            continue
        try:
            families += [canonical(part.strip()) for part in word.split(",")]
        except PipeSchedError as error:
            if os.path.exists(word):
                found.append(word)
                continue
            reason = error.diagnostics[0].message
            raise PipeSchedError(f"{word}: there is no such file, and {reason}") from None
    return found, families


def origin_of(path: str) -> Origin:
    """The origin of schedules that need not be read; the name of a file says its kind."""
    return _from_stdin()[0] if path == "-" else Origin(path, Path(path).suffix == ".csv")


def _from_stdin() -> tuple[Origin, bytes]:
    text = sys.stdin.buffer.read()
    is_csv = text.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in _CSV_BEGINS
    return Origin("-", is_csv), text


def _load(path: str) -> tuple[Origin, list[Schedule]]:
    if path != "-":
        return origin_of(path), load(_find_schedule(path))
    origin, text = _from_stdin()
    if origin.is_csv:
        made = Schedule.from_csv(text.decode(errors="replace"), filename="<stdin>")
        return origin, [made]
    return origin, loads(text, filename="<stdin>")


def _find_schedule(path: str) -> str:
    """The schedule that `plan --save` wrote next to the numbers of a proposal."""
    if Path(path).suffix != ".json" or not os.path.isfile(path):
        return path
    schedule = str(Path(path).with_suffix(".mlir"))
    if not os.path.isfile(schedule):
        raise PipeSchedError(
            f"{path}: a schedule is IR or PyTorch's CSV, not JSON; if these are the rows of a plan,"
            " plan --save DIR writes their schedules, and whatif reads them as they are"
        )
    return schedule


def only(arguments: argparse.Namespace, schedules: Sequence[Schedule]) -> Schedule:
    """The schedule, if there is only one."""
    if len(schedules) != 1:
        names = ", ".join(schedule.name for schedule in schedules)
        raise PipeSchedError(
            f"{arguments.file} has {len(schedules)} schedules ({names}); --name chooses one"
        )
    return schedules[0]
