"""The axes of a sweep as options of the command line, which take lists of values."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from pipesched import PipeSchedError, _grid
from pipesched._deployment import OPTIONS as OPTIONS_OF_TRAINING
from pipesched._grid import AXES, OWN_OPTIONS, kinds
from pipesched._text import truth

from .arguments import BALANCE, FAMILY_OPTIONS, RESERVE, TIMES_OF, names

_FLAGS = {"family": ("--schedules", "--families"), "workers": ("--workers", "--stages")}
_FLAGS["accelerators"] = "--accelerators", "--tensor"
"""Flags that differ from the name of the axis; files accept these words as well."""

_HELP = {
    "family": "families or their other names, such as 1f1b,VPP; without it all",
    "workers": "size of the pipeline, such as 4,8,16",
    "microbatches": "8,16,32, or ranges with their end, 8:64:8 or by a factor 8:256:x2",
    "times": "of one stage, with units, F=1ms,B=2ms, or a JSON file; again for further ones",
    **{"times_of": TIMES_OF, "balance": BALANCE, "reserve": RESERVE},
    "model": "models that ship, or their JSON files",
    "system": "systems that ship, or their JSON files",
    "microbatch_size": "sequences per microbatch",
    "global_batch": "sequences per step, in place of it",
    "sequence": "tokens of a sequence",
    "boundary_bytes": "of a message between stages",
    "accelerators": "devices of a worker",
    "disturbance": "slow workers and stages and jitter, worker3=1.3,jitter=5%%,seed=7, or none;"
    " seed 0 without one; again for further ones",
    **{name: summary for name, (_, summary) in FAMILY_OPTIONS.items()},
}

def _disturbance(text: str) -> str:
    """Parses a disturbance; `none` is that of the first row of most comparisons."""
    return "" if text == "none" else text


_WITH_COMMAS: dict[str, Callable[[str], str]] = {"times": str, "disturbance": _disturbance}
"""Axes whose values have commas, so that each value takes a flag of its own."""


def _cuts(axis: str) -> Callable[[str], list[str]]:
    """Parses names, or the sizes that stand in their place: `tokens,work` are two values, and
    `4930,4238` is one.
    """
    option = OPTIONS_OF_TRAINING[axis]

    def read(text: str) -> list[str]:
        parts = names(text)
        apart = parts if any(part in option.choices for part in parts) else [text]
        try:
            if len(apart) > 1 and not all(part in option.choices for part in apart):
                raise PipeSchedError(f"give sizes an {option.flag} of their own, found {text!r}")
            return [option.text(part) for part in apart]
        except PipeSchedError as error:
            raise argparse.ArgumentTypeError(error.diagnostics[0].message) from None

    return read


_BOOLS = ("true", "false")


def _words(axis: str) -> Callable[[str], list[Any]]:
    """Parses the values of an axis."""

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


def _help(axis: str) -> str:
    choices = _BOOLS if kinds(axis) == (bool,) else [k for k in kinds(axis) if isinstance(k, str)]
    said = OPTIONS_OF_TRAINING[axis].phrase if axis in OPTIONS_OF_TRAINING else ""
    return _HELP.get(axis) or ",".join(choices) or said or axis.replace("_", " ")


def add_axes(parser: argparse.ArgumentParser) -> None:
    """Adds an option for each axis."""
    group = parser.add_argument_group(
        "axes", "Lists of values; an option of families applies to those that have it."
    )
    for axis in AXES:
        if axis in ("paths", OWN_OPTIONS):
            continue  # only files give paths, and options of one's own have a flag
        flags = _FLAGS.get(axis, ("--" + axis.replace("_", "-"),))
        if axis in _WITH_COMMAS:
            group.add_argument(
                *flags,
                action="append",
                type=_WITH_COMMAS[axis],
                metavar=axis.upper(),
                dest=f"axis_{axis}",
                help=_help(axis),
            )
            continue
        if axis in OPTIONS_OF_TRAINING and OPTIONS_OF_TRAINING[axis].kind == "sizes":
            group.add_argument(
                *flags,
                action="extend",
                type=_cuts(axis),
                metavar="LIST",
                dest=f"axis_{axis}",
                help=f"{OPTIONS_OF_TRAINING[axis].phrase}; again for further ones",
            )
            continue
        group.add_argument(
            *flags, type=_words(axis), dest=f"axis_{axis}", metavar="LIST", help=_help(axis)
        )
