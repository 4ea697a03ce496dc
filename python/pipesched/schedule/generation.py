"""The origins of schedules: families, problems, files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Unpack

from .. import _core
from ..errors import PipeSchedWarning, WrongType
from ..support.options import (
    FamilyOptions,
    Paths,
    integer,
    path_of,
    raw_options,
    raw_paths,
    text_of,
)
from ..support.text import valid
from .registry import generate_own, own_family
from .schedule import Schedule

ANNOUNCED_CELLS = 2**24
_REFUSED_CELLS = 2**28
_REPORT_BYTES, _REPORT_S = 232, 4e-7
"""Time and memory of a cell from generation to report (benchmarks/README.md)."""


def announcement(sizes: Iterable[tuple[int, int]]) -> str | None:
    """Returns the message to print before a long wait: the number of cells of the largest of these
    schedules (each given by its workers and microbatches), with their time and memory. Returns None
    if no schedule is large. Each stage has at least an F and a B for each microbatch. A table of
    more than 2**28 cells is refused.
    """
    cells = [2 * workers * microbatches for workers, microbatches in sizes]
    large = [count for count in cells if ANNOUNCED_CELLS < count <= _REFUSED_CELLS]
    if not large:
        return None
    more = f"more than {ANNOUNCED_CELLS:,} cells"
    taken = (
        f"at least {max(large):,}: up to {max(large) * _REPORT_BYTES / 2**30:.1f} GiB, and about "
        f"{sum(large) * _REPORT_S:.0f} s"
    )
    if len(cells) == 1:
        return f"the schedule has {more}, {taken}, with the report"
    count = f"{len(large)} of {len(cells)} schedules have"
    return f"{count} {more}, the largest {taken} for all, with the report"


def generate(
    family: str,
    *,
    workers: int,
    microbatches: int,
    name: str = "schedule",
    paths: Paths | None = None,
    **options: Unpack[FamilyOptions],
) -> Schedule:
    """Generates the schedule of a family, given by its name or an alias. A family that is a Python
    function is given by the name that `register_family` gave it, or by the place of the function
    (`module:function`, `file.py:function`). The placement is that of the family unless `paths` are
    given. If the schedule has more than 2**24 cells, a PipeSchedWarning gives the number before it
    is made.

    >>> generate("interleaved-1f1b", workers=4, microbatches=8, chunks=2)
    <schedule 'schedule' family='interleaved-1f1b' workers=4 microbatches=8>
    """
    workers, microbatches = integer("workers", workers), integer("microbatches", microbatches)
    if large := announcement([(workers, microbatches)]):
        warnings.warn(large, PipeSchedWarning, stacklevel=2)
    if own := own_family(text_of("family", family)):
        sizes = {"workers": workers, "microbatches": microbatches}
        return generate_own(own, problem(**sizes, name=name, paths=paths), options)
    module = _core.Module.generate(
        text_of("name", name), family, workers, microbatches, raw_options(options), raw_paths(paths)
    )
    return Schedule(module)


def problem(
    *,
    workers: int,
    microbatches: int,
    name: str = "schedule",
    paths: Paths | None = None,
    slices: int = 1,
) -> Schedule:
    """Creates a schedule without rows for passes to fill. Its path is linear unless `paths` are
    given. Each microbatch is divided into `slices` slices along its tokens.

    >>> halves = [[0, 1, 1, 0]]
    >>> p = problem(workers=2, microbatches=4, paths=halves)
    >>> p.transform("pipe-schedule-greedy").family
    'greedy'
    """
    module = _core.Module.problem(
        text_of("name", name),
        integer("workers", workers),
        integer("microbatches", microbatches),
        raw_paths(paths),
        integer("slices", slices, 1),
    )
    return Schedule(module)


def loads(text: str | bytes, *, filename: str = "<text>") -> list[Schedule]:
    """Reads all schedules and programs of a module in IR or bytecode, in order."""
    if not isinstance(text, (str, bytes)):
        raise WrongType(f"text is IR or bytecode, a str or bytes; got {text!r}")
    if isinstance(text, str):
        text_of("text", text)
    module = _core.Module.parse(text, valid(path_of("filename", filename)))
    return [Schedule(module.extract(index)) for index in range(module.num_schedules)]


def load(path: str | os.PathLike[str]) -> list[Schedule]:
    """Reads all schedules and programs of a file, in order."""
    file = FilePath(path_of("path", path))
    if file.suffix == ".csv":
        return [Schedule.from_file(file)]
    return loads(file.read_bytes(), filename=str(path))
