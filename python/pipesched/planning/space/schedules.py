"""The schedules that may run on the workers of a pipeline, and their properties."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from typing import Any, NamedTuple

from ...errors import PipeSchedError
from ...schedule.generation import generate
from ..candidate import Workers

Options = tuple[tuple[str, Any], ...]


class Entry(NamedTuple):
    """A schedule on a number of workers."""

    family: str
    options: Options
    paths: tuple[Workers, ...]
    order: int
    """The rank by simplicity; -1 if there is no schedule, but the reason why there is none."""
    reason: str = ""
    """The reason why there are no candidates."""


@cache
def splits_backward(family: str, options: Options) -> bool:
    """Whether a family has separate cells for weight gradients, which need not follow at once."""
    try:
        made = generate(family, workers=2, microbatches=4, **dict(options))
    except PipeSchedError:
        return True
    return re.search(r"\dI\d", made.to_text()) is not None


@cache
def alone(family: str, workers: int) -> int:
    """The least numbers of the forwards and of the backwards of a stage that run in no pair, for
    any number of microbatches.
    """
    count = 2 * workers
    try:
        rows = generate(family, workers=workers, microbatches=count).rows
    except PipeSchedError:
        return 0
    pairs = (cell for row in rows for entry in row if "+" in entry for cell in entry.split("+"))
    paired = Counter(re.sub(r"\d+$", "", cell) for cell in pairs)
    return count - max(paired.values(), default=0)
