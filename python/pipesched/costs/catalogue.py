"""Lists the systems and the models that ship."""

from __future__ import annotations

import json
from typing import Any

from .. import _core


def systems() -> dict[str, dict[str, Any]]:
    """The systems that ship, by name, with the fields of their files."""
    return {name: json.loads(text) for name, text in _core.systems()}


def models() -> dict[str, dict[str, Any]]:
    """The models that ship, by name, with the fields of their files."""
    return {name: json.loads(text) for name, text in _core.models()}
