"""The costs of the points of a grid, read once for equal arguments."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .costs import Costs, held_bytes


@lru_cache(maxsize=256)
def _costs(text: str) -> Costs:
    return Costs(**json.loads(text))


@lru_cache(maxsize=256)
def _costs_of_items(items: tuple[tuple[str, Any], ...]) -> Costs:
    return Costs(**dict(items))


def _costs_with(given: Mapping[str, Any]) -> Costs:
    """The costs with these arguments, the same object for equal ones."""
    items = tuple(given.items())
    try:
        hash(items)
    except TypeError:  # some value is an object with fields
        return _costs(json.dumps(given))
    return _costs_of_items(items)


def _held(model: Any) -> str | None:
    """Whose memory is counted if no axis says it, as in plans."""
    if isinstance(model, Mapping):
        return held_bytes(model)
    return _held_of_file(os.fspath(model))


@lru_cache(maxsize=256)
def _held_of_file(model: str) -> str | None:
    return held_bytes(model)


def costs_of(given: Mapping[str, Any]) -> Costs:
    """The costs with these arguments, the same object for equal ones. Memory is counted as in plans
    unless an axis says otherwise.
    """
    if "model" in given and "parameter_bytes" not in given:
        return _costs_with({**given, "parameter_bytes": _held(given["model"])})
    return _costs_with(given)
