"""How much work I and W repeat of a stage, against a whole backward.

A stage whose graph has few large nodes, or that computes its forward again by itself, runs parts of
its backward in I and again in W. A schedule that splits backwards then takes longer than its table
says. The second and third step measure that: the first backward of a stage in them runs as a whole
in its I, if its W is the first one of the stage too, so that gradients are added up in the same
order.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from pipesched import Cell, PipeSchedWarning

from ._placement import StageKey, named

NOTHING = nullcontext()
STEPS = range(1, 3)
"""The steps that measure; the first one does not, since it sets up memory and kernels."""
RATIO = 1.2
"""How much more than a whole backward is worth a warning."""
SECONDS = 0.002
"""Shorter backwards are not compared: they are as long as what the runtime does beside them."""


class Repeated:
    """The times of whole and of split backwards of the stages of a rank."""

    def __init__(self, cells: Sequence[Cell], device: torch.device) -> None:
        first: dict[tuple[StageKey, str], int] = {}
        for cell in cells:
            if cell.phase in "BIW":
                first.setdefault(((cell.path, cell.stage), cell.phase), cell.microbatch)
        self._whole = {
            key: number
            for (key, phase), number in first.items()
            if phase == "I" and first.get((key, "W")) == number
        }
        """The microbatch that runs as a whole, by stage."""
        self._is_cuda = device.type == "cuda"
        self._times: dict[tuple[StageKey, int, str], list[Callable[[], float]]] = {}
        self._step = -1

    def begin(self, step: int, is_recorded: bool) -> None:
        """Begins a training step; the times of one that is recorded are not touched."""
        if step == STEPS.stop and self._times:
            self._report()
        self._step = -1 if is_recorded else step

    @property
    def is_on(self) -> bool:
        """Whether this step measures."""
        return self._step in STEPS

    def is_whole(self, cell: Cell) -> bool:
        """Whether an I runs as a whole backward here."""
        return self.is_on and self._whole.get((cell.path, cell.stage)) == cell.microbatch

    def measured(self, cell: Cell, kind: str) -> AbstractContextManager[None]:
        """Takes the time of a block."""
        if not self.is_on or (cell.path, cell.stage) not in self._whole:
            return NOTHING
        return self._measured(cell, kind)

    @contextmanager
    def _measured(self, cell: Cell, kind: str) -> Iterator[None]:
        times = self._times.setdefault(((cell.path, cell.stage), cell.microbatch, kind), [])
        if self._is_cuda:
            make: Any = torch.cuda.Event
            begin, end = (make(enable_timing=True) for _ in range(2))
            begin.record()
            yield
            end.record()
            times.append(lambda: _seconds(begin, end))
            return
        # Not the clock: on a loaded machine, the thread may wait for a core meanwhile.
        start = time.thread_time()
        yield
        seconds = time.thread_time() - start
        times.append(lambda: seconds)

    def _report(self) -> None:
        fastest = {place: min(each() for each in times) for place, times in self._times.items()}
        self._times = {}
        for key, number in self._whole.items():
            whole = fastest.get((key, number, "B"))
            pairs = [
                seconds + fastest[key, other, "W"]
                for (place, other, kind), seconds in fastest.items()
                if place == key and kind == "I" and (key, other, "W") in fastest
            ]
            if whole is None or not pairs or min(pairs) < SECONDS:
                continue
            ratio = min(pairs) / whole
            if ratio > RATIO:
                warnings.warn(
                    f"{named(key)}: I and W take {ratio:.2f} times as long as a whole backward "
                    f"({1e3 * min(pairs):.1f} ms against {1e3 * whole:.1f} ms), since parts of it "
                    "run in both; recompute with R in place of checkpoints inside of the stage, "
                    "compile smaller parts, or take a schedule that does not split backwards",
                    PipeSchedWarning,
                    stacklevel=2,
                )


def _seconds(begin: Any, end: Any) -> float:
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
