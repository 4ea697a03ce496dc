"""What there is to choose: families, systems, models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from . import _core


@dataclass(frozen=True)
class Family:
    """A schedule family. `sizes` says which numbers of workers D and microbatches N it takes."""

    name: str
    summary: str
    source: str
    sizes: str
    options: tuple[str, ...]
    aliases: tuple[str, ...]


def families() -> dict[str, Family]:
    """The schedule families by name.

    >>> families()["zb-v"].aliases
    ('ZBVZeroBubble', 'V-ZB', 'ZeroBubbleV')
    """
    aliases = _core.family_aliases()
    return {
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


def systems() -> dict[str, dict[str, Any]]:
    """The systems that ship, by name, with the fields of their files."""
    return {name: json.loads(text) for name, text in _core.systems()}


def models() -> dict[str, dict[str, Any]]:
    """The models that ship, by name, with the fields of their files."""
    return {name: json.loads(text) for name, text in _core.models()}
