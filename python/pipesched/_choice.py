"""The schedule of a module that is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from . import _core
from .errors import PipeSchedError
from .options import text_of

Made = TypeVar("Made")


def chosen(module: _core.Module, name: str | None) -> _core.Module:
    """The module of its only schedule, or of the one with this name."""
    if name is not None:
        text_of("name", name)
    names = [module.describe(index)["name"] for index in range(module.num_schedules)]
    if name is not None and name in names:
        return module if len(names) == 1 else module.extract(names.index(name))
    if name is None and len(names) == 1:
        return module
    found = ", ".join(names) or "none"
    if name is not None:
        raise PipeSchedError(f"there is no schedule or program {name!r}; found {found}")
    raise PipeSchedError(f"one schedule or program is wanted, found {len(names)}: {found}")


def restored(make: Callable[[_core.Module], Made], code: bytes) -> Made:
    """The schedule of a pickle. Pickles are trusted, so no child process reads the bytecode."""
    return make(_core.Module.parse_trusted(code))
