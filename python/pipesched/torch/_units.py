"""Slices of microbatches as the runtime runs them: each as a microbatch of its own."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from pipesched import Path, Schedule

from ._values import cut, flatten, unflatten

TOKENS = 1
"""The dimension of tokens in what stages take and give; dimension 0 is that of samples."""
_CELL = re.compile(r"(\d+)([A-NP-Za-z])(\d+)(?:\.(\d+))?")
"""A cell of a microbatch or slice. O has a path in its place, and so has G."""


def units_of(schedule: Schedule) -> Schedule:
    """The schedule in which each slice is a microbatch: slice s of microbatch m of k slices is
    microbatch m * k + s. A schedule without slices is returned as it is.
    """
    count = schedule.slices
    if count == 1:
        return schedule

    def renamed(cell: re.Match[str]) -> str:
        stage, phase, microbatch, part = cell.groups()
        if phase == "G":
            return cell[0]
        return f"{stage}{phase}{int(microbatch) * count + int(part or 0)}"

    rows = [[_CELL.sub(renamed, word) for word in row] for row in schedule.rows]
    paths = [
        Path(
            path.workers,
            [range(m * count, (m + 1) * count) for taken in path.takes for m in taken],
            path.blocks,
            path.weights,
        )
        for path in schedule.paths
    ]
    return Schedule.from_rows(
        rows,
        name=schedule.name,
        microbatches=schedule.microbatches * count,
        paths=paths,
        gradient_after=schedule.gradient_after,
        recompute=schedule.recompute,
    )


def has_tokens(tensor: Tensor) -> bool:
    """Whether a tensor has a dimension of tokens."""
    return tensor.dim() > TOKENS


def cut_units(value: Any, schedule: Schedule, what: str) -> list[Any]:
    """The slices of the microbatches of a batch, one after the other. A microbatch of a list may be
    a list of its slices; all others are cut along their tokens into equal slices.
    """
    microbatches = cut(value, schedule.microbatches, what)
    count = schedule.slices
    if count == 1:
        return microbatches
    kind = "slice", "slices"
    return [part for each in microbatches for part in cut(each, count, what, TOKENS, kind)]


def join_slices(outputs: list[Any], count: int) -> list[Any]:
    """The outputs of whole microbatches, from those of their slices; None where there are none."""
    if count == 1:
        return outputs
    groups = [outputs[i : i + count] for i in range(0, len(outputs), count)]
    return [None if group[0] is None else joined(group) for group in groups]


def joined(slices: list[Any]) -> Any:
    """A value of a whole microbatch, from the values of its slices, which have one structure."""
    flat = [flatten(value) for value in slices]
    parts = zip(*(tensors for tensors, _ in flat), strict=True)
    whole = [torch.cat(part, TOKENS) if has_tokens(part[0]) else part[0] for part in parts]
    return unflatten(whole, flat[0][1])
