"""The axes of a sweep as options of the command line, which take lists of values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pipesched import PipeSchedError
from pipesched.costs.deployment import OPTIONS as OPTIONS_OF_TRAINING
from pipesched.support.text import truth
from pipesched.sweeps import grid as _grid
from pipesched.sweeps.grid import AXES, OPTIONS, OWN_OPTIONS, kinds

from . import table
from .table import Rare, names

FLAGGED = {
    **{name: name for name in table.OPTIONS if name in AXES},
    "family": "schedules",
    "memory": "activations",
}
"""The axes that have an option of their own, and its name."""


def _disturbance(text: str) -> str:
    """Parses a disturbance; `none` is that of the first row of most comparisons."""
    return "" if text == "none" else text


_WITH_COMMAS: dict[str, Callable[[str], str]] = {"times": str, "disturbance": _disturbance}
"""Axes whose values have commas, so that each value takes a flag of its own."""


def _cuts(axis: str) -> Callable[[str], list[str]]:
    """Parses names or sizes: `tokens,work` are two values, `4930,4238` is one."""
    option = OPTIONS_OF_TRAINING[axis]

    def read(text: str) -> list[str]:
        parts = names(text)
        apart = parts if any(part in option.choices for part in parts) else [text]
        try:
            if len(apart) > 1 and not all(part in option.choices for part in apart):
                raise PipeSchedError(
                    f"give sizes a --set {option.flag} of their own, found {text!r}"
                )
            return [option.text(part) for part in apart]
        except PipeSchedError as error:
            raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None

    return read


def words_of(axis: str) -> Callable[[str], list[Any]]:
    def read(text: str) -> list[Any]:
        parts = names(text)
        try:
            if kinds(axis) == (int,):
                return _grid.integers(text)
            if kinds(axis) == (bool,):
                return [truth(part) for part in parts]
            if axis not in ("family", "model", "system"):
                _grid.read_axis(axis, parts)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        except PipeSchedError as error:
            raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None
        return parts

    return read


def _rare(axis: str) -> Rare:
    """An axis that `--set` gives. Sizes of slices are further values where they are given again."""
    is_sizes = axis in OPTIONS_OF_TRAINING and OPTIONS_OF_TRAINING[axis].kind == "sizes"
    summary = table.RARE[axis].summary if axis in table.RARE else axis.replace("_", " ")
    return Rare(summary, _cuts(axis) if is_sizes else words_of(axis), extends=is_sizes)


def add_axes(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each axis, and the rare ones to `--set`."""
    group = parser.add_argument_group("axes", "Lists of values of what one schedule has one of.")
    for axis, name in FLAGGED.items():
        if axis == OWN_OPTIONS:
            continue
        changed: dict[str, Any] = {"dest": f"axis_{axis}", "type": words_of(axis)}
        if axis in _WITH_COMMAS:
            changed |= {"action": "append", "type": _WITH_COMMAS[axis]}
        table.add(group, name, many=(name,), **{name: changed})
    table.add(group, "tensor", "own_options", many=("tensor",))
    flagged = {*FLAGGED, "paths", OWN_OPTIONS, *OPTIONS}
    rare = {axis: _rare(axis) for axis in AXES if axis not in flagged}
    table.add_set(parser, group, rare, prefix="axis_")
