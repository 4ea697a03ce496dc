"""Families, their placements and properties, as verbs and plans ask."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from .. import _core
from ..errors import PipeSchedError
from ..support.options import PlacementName
from .generation import generate
from .registry import key_of, own_families, own_family


@dataclass(frozen=True)
class Family:
    """A schedule family. `sizes` gives the supported numbers of workers D and microbatches N. For a
    registered family without a separate source, `source` gives the place of its function; `sizes`
    is empty.
    """

    name: str
    summary: str
    source: str
    sizes: str
    options: tuple[str, ...]
    aliases: tuple[str, ...]


def families() -> dict[str, Family]:
    """The schedule families by name, first the families that ship and then the registered ones.

    >>> families()["zb-v"].aliases
    ('ZBVZeroBubble', 'V-ZB', 'ZeroBubbleV')
    """
    aliases = _core.family_aliases()
    shipped = {
        name: Family(
            name,
            summary,
            source,
            sizes,
            tuple(option.replace("-", "_") for option in options),
            tuple(alias for alias, family in aliases if family == name),
        )
        for name, summary, source, sizes, options in _core.families()
    }
    own = {
        name: Family(name, each.summary, each.source or each.place, "", each.options, ())
        for name, each in own_families().items()
    }
    return {**shipped, **own}


@cache
def _names() -> dict[str, str]:
    return {
        key_of(name): family.name
        for family in families().values()
        if family.name not in own_families()
        for name in (family.name, *family.aliases)
    }


def canonical(name: str) -> str:
    """The name of the family with this name or alias; for a registered family it is the name or the
    place under which it is known. Raises an error for other names.

    >>> canonical("Interleaved1F1B")
    'interleaved-1f1b'
    """
    if own := own_family(name):
        return own.name
    found = _names().get(key_of(name))
    if found is None:
        found = generate(name, workers=1, microbatches=1).family
        assert found is not None
    return found


# Properties

PlacementKind = Literal[PlacementName, "bidirectional", "other"]


@cache
def overlaps(family: str, options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether a family runs pairs of cells at once, which hide exchanges of experts."""
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
