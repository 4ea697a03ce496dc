"""Names of parameters that equal stages have in common."""

from __future__ import annotations

from collections.abc import Iterable


def short_names(names: Iterable[str]) -> dict[str, str]:
    """By name a name in which numbers count from 0 in their order: `blocks.4.weight` and
    `blocks.5.weight` are `blocks.0.weight` and `blocks.1.weight`.
    """
    numbers: dict[tuple[str, ...], dict[str, str]] = {}
    made = {}
    for name in names:
        parts: list[str] = []
        for part in name.split("."):
            if part.isdigit():
                known = numbers.setdefault(tuple(parts), {})
                part = known.setdefault(part, str(len(known)))
            parts.append(part)
        made[name] = ".".join(parts)
    return made
