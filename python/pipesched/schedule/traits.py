"""What families, placements and models are like, as verbs and plans ask: names of placements, cells
that overlap, and heads that take as long as layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from ..errors import PipeSchedError
from ..support.options import PlacementName
from .generation import generate

PlacementKind = Literal[PlacementName, "bidirectional", "other"]


@cache
def overlaps(family: str, options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a family runs pairs of cells at once, which hide what experts exchange."""
    try:
        made = generate(family, workers=2, microbatches=4, **dict(options))
    except PipeSchedError:
        return True
    return any("+" in entry for row in made.rows for entry in row)


def placement_kind(paths: Sequence[tuple[int, ...]], workers: int) -> PlacementKind:
    """The name of a placement.

    >>> placement_kind([(0, 1, 1, 0)], 2), placement_kind([(0, 1, 0, 1)], 2)
    ('v', 'interleaved')
    """
    down = tuple(range(workers))
    if len(paths) > 1:
        return "bidirectional"
    (path,) = paths
    turns = len(path) // workers
    if path == down:
        return "linear"
    if path == down * turns:
        return "interleaved"
    if path == (down + down[::-1]) * (turns // 2):
        return "v" if turns == 2 else "wave"
    return "other"
