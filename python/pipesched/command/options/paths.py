"""Which files a command line reads (`READ`) and writes (`WRITTEN`), checked before a verb works: no
file is written twice or over one that is read, under any spelling, and all can be written.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pipesched
from pipesched.costs.costs import _looks_like_path
from pipesched.schedule.registry import elements_of, is_place
from pipesched.support.files import check_file, check_folder, descriptor_of

from .arguments import UsageError, source
from .files import is_schedule_file

WRITTEN = (
    *("output", "export", "html", "svg", "png", "pdf", "tikz", "trace", "save", "cache"),
    *("write-profile", "save-parameters"),
)
"""The options that name files to write, or folders (`folders` of the verb) with the endings of
files that are always written there; for other names a verb calls `check_in_folder`.
"""

Endings = tuple[str, ...]


@dataclass(frozen=True)
class Named:
    """A file that an argument names, or the files of a folder with some endings."""

    argument: str
    path: str
    endings: Endings | None = None

    @property
    def is_folder(self) -> bool:
        return self.endings is not None


# Read paths

Found = Iterator[tuple[str, Endings | None]]


def _file(text: str) -> Found:
    place = text.rpartition(":")[0]
    if place.endswith(".py"):
        yield place, None
    elif text != "-":
        yield text, None


def _find_measured(text: str) -> Found:
    yield text, (".json", ".json.gz") if os.path.isdir(text) else None


def _parameters(text: str) -> Found:
    yield text, (".npy",)


def _find_in_catalogue(shipped: Callable[[], dict[str, Any]]) -> Callable[[str], Found]:
    """A model or system: a name, or a file."""

    def found(text: str) -> Found:
        path = source(text, shipped)
        if path is not None and _looks_like_path(path):
            yield path, None

    return found


def _times(text: str) -> Found:
    if _looks_like_path(text):
        yield text, None


def _schedule(text: str) -> Found:
    """A family, maybe by the place of its function, or a file."""
    place = text.rpartition(":")[0]
    if place.endswith(".py"):
        yield place, None
    elif is_schedule_file(text):
        yield text, None


def _find_model(text: str) -> Found:
    """The model of a training: one that ships, a file, or a folder with it."""
    if not (Path(pipesched.__file__).parent / "examples" / text / "model.py").is_file():
        yield text, (".py",) if os.path.isdir(text) else None


_FILE_OPTION = re.compile(r"""\bfile=("[^"]*"|'[^']*'|[^\s,{}]+)""")


def _pipeline(text: str) -> Found:
    """The files that options of passes name, and the files of passes written in Python."""
    for each in _FILE_OPTION.findall(text):
        yield each.strip("\"'"), None
    for each in filter(is_place, elements_of(text)):
        if each.rpartition(":")[0].endswith(".py"):
            yield each.rpartition(":")[0], None


_MODEL = _find_in_catalogue(pipesched.models)
_SYSTEM = _find_in_catalogue(pipesched.systems)

READ: dict[str, Callable[[str], Found]] = {
    **dict.fromkeys(("file", "files", "grid", "program", "profile"), _file),
    **dict.fromkeys(("load_pass_plugin", "load_dialect_plugin"), _file),
    **dict.fromkeys(("model", "axis_model"), _MODEL),
    **dict.fromkeys(("system", "systems", "axis_system"), _SYSTEM),
    **dict.fromkeys(("times", "axis_times"), _times),
    **dict.fromkeys(("schedule", "schedules", "axis_family"), _schedule),
    "parameters": _parameters,
    "pipeline": _pipeline,
}
"""The files that arguments read, by their names in Python."""

_OF_VERBS = {("run", "model"): _find_model, ("fit", "files"): _find_measured}
"""The same for verbs with another argument of that name."""


def _texts(value: Any) -> Iterable[str]:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else ()


def find_read(arguments: argparse.Namespace) -> list[Named]:
    """Files to read, as far as the command line says it, if it is there."""
    found = []
    for name, usual in READ.items():
        reads = _OF_VERBS.get((arguments.verb, name), usual)
        for text in _texts(getattr(arguments, name, None)):
            for path, endings in reads(text):
                if os.path.exists(path):
                    found.append(Named(arguments.shown[name], path, endings))
    return found


# Written paths


def find_written(arguments: argparse.Namespace) -> list[Named]:
    found = []
    for name in WRITTEN:
        dest = name.replace("-", "_")
        given: str | None = getattr(arguments, dest, None)
        if given == "":
            raise UsageError(f"{arguments.shown[dest]} is empty, wanted the name of a file")
        if given is not None:
            found.append(Named(arguments.shown[dest], given, arguments.folders.get(name)))
    return found


# Common parts of two paths


def _identities(path: str) -> set[object]:
    """The identities shared by all paths of a file; a device may be written several times."""
    descriptor = 1 if path == "-" else descriptor_of(path)
    found: set[object] = {os.path.realpath(path) if descriptor is None else descriptor}
    with contextlib.suppress(OSError):
        status = os.stat(path) if descriptor is None else os.fstat(descriptor)
        if not stat.S_ISCHR(status.st_mode):
            found.add((status.st_dev, status.st_ino))
        elif descriptor is None:
            return set()
    return found


def _is_among(file: Named, folder: Named) -> bool:
    if file.path == "-" or not file.path.endswith(folder.endings or ()):
        return False
    parents = {os.path.dirname(os.path.abspath(file.path))}
    parents.add(os.path.dirname(os.path.realpath(file.path)))
    return any(_identities(parent) & _identities(folder.path) for parent in parents)


def _may_be_same(one: Named, other: Named) -> bool:
    if one.is_folder and other.is_folder:
        are_alike = set(one.endings or ()) & set(other.endings or ())
        return bool(are_alike and _identities(one.path) & _identities(other.path))
    if one.is_folder:
        return _is_among(other, one)
    if other.is_folder:
        return _is_among(one, other)
    return bool(_identities(one.path) & _identities(other.path))


def _paths(one: Named, other: Named) -> str:
    return one.path if one.path == other.path else f"{one.path} and {other.path}"


def _wrong(written: Sequence[Named], read: Sequence[Named]) -> str:
    """The error in files to write, or an empty text."""
    for one, other in combinations(written, 2):
        if _may_be_same(one, other):
            what = "the same folder" if one.is_folder and other.is_folder else "the same file"
            name = "may name" if one.is_folder != other.is_folder else "name"
            return f"{one.argument} and {other.argument} {name} {what}, {_paths(one, other)}"
    for made in written:
        for used in read:
            if not _may_be_same(made, used) or not os.path.exists(made.path):
                continue
            name = "may write over" if made.is_folder else "names"
            what = "files that are" if made.is_folder and used.is_folder else "the file that is"
            return f"{made.argument} {name} {what} read as {used.argument}, {_paths(made, used)}"
    return ""


# Checks


def check(arguments: argparse.Namespace) -> None:
    """Raises if a file would be written twice or over one that is read, or cannot be written."""
    written = find_written(arguments)
    if wrong := _wrong(written, find_read(arguments)):
        raise UsageError(wrong)
    if getattr(arguments, "show_passes", False):
        return  # The files of the passes are not written.
    for each in written:
        if each.path == "-":
            continue
        try:
            (check_folder if each.is_folder else check_file)(each.path)
        except OSError as error:
            error.filename = f"{each.argument} {each.path}"
            raise


def check_read(arguments: argparse.Namespace, read: Iterable[Named]) -> None:
    """The same for files whose names come from another file."""
    if wrong := _wrong(find_written(arguments), [*read]):
        raise UsageError(wrong)


def check_in_folder(
    arguments: argparse.Namespace, name: str, folder: str, files: Iterable[str]
) -> None:
    """The same for the files that a verb is about to write into the folder of an option."""
    shown = arguments.shown[name]
    others = [each for each in find_written(arguments) if each.argument != shown]
    read = find_read(arguments)
    for file in files:
        made = Named(shown, os.path.join(folder, file))
        for other in others:
            if wrong := _wrong([made, other], []):
                raise UsageError(wrong)
        if wrong := _wrong([made], read):
            raise UsageError(wrong)
