"""Lists the families."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .. import _core
from .generation import generate
from .registry import key_of, own_families, own_family


@dataclass(frozen=True)
class Family:
    """A schedule family. `sizes` says which numbers of workers D and microbatches N it supports.
    For a registered family without a source of its own, `source` says where its function is;
    `sizes` is empty.
    """

    name: str
    summary: str
    source: str
    sizes: str
    options: tuple[str, ...]
    aliases: tuple[str, ...]


def families() -> dict[str, Family]:
    """The schedule families by name, those that ship and then those that are registered.

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
