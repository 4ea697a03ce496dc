"""Texts in JSON, whose values every function can compute with."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any

_MOST = 2**63 - 1


def _integer(digits: str) -> int:
    if len(digits) > 20 or abs(value := int(digits)) > _MOST:
        raise ValueError(f"the number {digits[:24]} is outside of 64 bits")
    return value


def _float(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"the number {digits[:24]} is too large")
    return value


def twice(names: Iterable[str]) -> str | None:
    """The first name that occurs a second time."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def read_json(
    text: str | bytes,
    *,
    bounded: bool = True,
    pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
) -> Any:
    """The value of a text. Raises a ValueError (JSONDecodeError, UnicodeDecodeError) also for
    values that are nested too deeply and, if `bounded`, for numbers outside of 64 bits.
    """
    hooks: dict[str, Any] = {"parse_int": _integer, "parse_float": _float} if bounded else {}
    try:
        return json.loads(text, object_pairs_hook=pairs, **hooks)
    except RecursionError:
        raise ValueError("values are nested too deeply") from None
