"""Where schedules come from: families, problems, files."""

from __future__ import annotations

import os
from pathlib import Path as FilePath
from typing import Unpack

from . import _core
from ._families import generate_own, own_family
from ._options import FamilyOptions, Paths, integer, raw_options, raw_paths, text_of
from ._schedule import Schedule


def generate(
    family: str,
    *,
    workers: int,
    microbatches: int,
    name: str = "schedule",
    paths: Paths | None = None,
    **options: Unpack[FamilyOptions],
) -> Schedule:
    """Generates the schedule of a family, given by its name or an alias, or of one's own: by the
    name that `register_family` gave it, or by where its function is (`module:function`,
    `file.py:function`). The placement is that of the family unless `paths` are given.

    >>> generate("interleaved-1f1b", workers=4, microbatches=8, chunks=2)
    <schedule 'schedule' family='interleaved-1f1b' workers=4 microbatches=8>
    """
    workers, microbatches = integer("workers", workers), integer("microbatches", microbatches)
    if own := own_family(text_of("family", family)):
        sizes = {"workers": workers, "microbatches": microbatches}
        return generate_own(own, problem(**sizes, name=name, paths=paths), options)
    module = _core.Module.generate(
        text_of("name", name),
        family,
        workers,
        microbatches,
        raw_options(options),
        raw_paths(paths),
    )
    return Schedule(module)


def problem(
    *, workers: int, microbatches: int, name: str = "schedule", paths: Paths | None = None
) -> Schedule:
    """Creates a schedule without rows for passes to fill. Its path is linear unless `paths` are
    given.

    >>> halves = [[0, 1, 1, 0]]
    >>> p = problem(workers=2, microbatches=4, paths=halves)
    >>> p.transform("pipe-schedule-greedy").family
    'greedy'
    """
    module = _core.Module.problem(
        name,
        integer("workers", workers),
        integer("microbatches", microbatches),
        raw_paths(paths),
    )
    return Schedule(module)


def loads(text: str | bytes, *, filename: str = "<text>") -> list[Schedule]:
    """Reads all schedules and programs of a module in IR or bytecode, in order."""
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"text is IR or bytecode, a str or bytes; got {text!r}")
    module = _core.Module.parse(text, filename)
    return [Schedule(module.extract(index)) for index in range(module.num_schedules)]


def load(path: str | os.PathLike[str]) -> list[Schedule]:
    """Reads all schedules and programs of a file, in order."""
    if FilePath(path).suffix == ".csv":
        return [Schedule.from_file(path)]
    return loads(FilePath(path).read_bytes(), filename=os.fspath(path))
