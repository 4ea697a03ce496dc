"""Lists the systems and the models that ship."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from .. import _core


def systems() -> dict[str, dict[str, Any]]:
    """The systems that ship, by name, with the fields of their files."""
    return {name: json.loads(text) for name, text in _core.systems()}


def models() -> dict[str, dict[str, Any]]:
    """The models that ship, by name, with the fields of their files."""
    return {name: json.loads(text) for name, text in _core.models()}


def take_rates(system: Mapping[str, Any], rates: str) -> dict[str, Any]:
    """Returns the fields of a system with these rates, as `Costs` reads them. The rates in its
    object `load` replace the others, or are removed. The object stays, empty, if it had entries.

    >>> h100 = systems()["h100-sxm"]
    >>> take_rates(h100, "auto")["sustained"], "sustained" in take_rates(h100, "data-sheet")
    (0.8, False)
    """
    fields = copy.deepcopy(dict(system))
    load = fields.get("load")
    if not isinstance(load, dict):
        return fields
    fields["load"] = {}
    if isinstance(fields.get("sources"), dict):
        fields["sources"] = _take_sources(fields["sources"], rates)
    if rates != "data-sheet":
        _put_over(fields, load)
    return fields


def _take_sources(sources: Mapping[str, Any], rates: str) -> dict[str, Any]:
    """Moves the sources of the fields that are taken to the new places of these fields."""
    under_load = {n.removeprefix("load."): s for n, s in sources.items() if n.startswith("load.")}
    found = {name: source for name, source in sources.items() if not name.startswith("load.")}
    return found if rates == "data-sheet" else found | under_load


def _put_over(fields: dict[str, Any], load: Mapping[str, Any]) -> None:
    for name, value in load.items():
        old = fields.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            _put_over(old, value)
        else:
            fields[name] = value
