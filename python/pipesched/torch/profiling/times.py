"""The times of instructions, and how much work I and W repeat against a whole backward.

A process that issues work to an accelerator runs ahead of it. So its times are those of events,
which the device meets between the kernels of an instruction and of the next one. They are read when
the step has ended, beside an event at a time that the process knows.

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

from ..partition.placement import StageKey, show


class HostTimes:
    """Takes the times of a process that computes itself, in ns of `time.perf_counter_ns`."""

    def begin(self) -> None:
        """Begins a step."""

    def now(self) -> int:
        """Returns this moment."""
        return time.perf_counter_ns()

    def ns(self, moment: int) -> int:
        """Returns the time of a moment, once it may be read."""
        return moment

    def when_known(self, call: Callable[[], Any]) -> None:
        """Calls something as soon as the times of moments before it may be read."""
        call()

    def end(self) -> None:
        """Ends a step, which the device has finished."""


class DeviceTimes:
    """Takes the times of an accelerator, by events on its stream."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._base: Any = None
        self._base_ns = 0
        self._calls: list[Callable[[], Any]] = []

    def begin(self) -> None:
        torch.cuda.synchronize(self._device)  # so that it meets the event at once
        self._base, self._base_ns, self._calls = self.now(), time.perf_counter_ns(), []

    def now(self) -> Any:
        make: Any = torch.cuda.Event
        event = make(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def ns(self, moment: Any) -> int:
        milliseconds: float = self._base.elapsed_time(moment)
        return self._base_ns + round(1e6 * milliseconds)

    def when_known(self, call: Callable[[], Any]) -> None:
        self._calls.append(call)

    def end(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            call()


def times_of(device: torch.device) -> HostTimes | DeviceTimes:
    """Returns how the times on a device are taken."""
    return DeviceTimes(device) if device.type == "cuda" else HostTimes()


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
        """Returns whether an I runs as a whole backward here."""
        return self.is_on and self._whole.get((cell.path, cell.stage)) == cell.microbatch

    def measure(self, cell: Cell, kind: str) -> AbstractContextManager[None]:
        """Takes the time of a block."""
        if not self.is_on or (cell.path, cell.stage) not in self._whole:
            return NOTHING
        return self._measure(cell, kind)

    @contextmanager
    def _measure(self, cell: Cell, kind: str) -> Iterator[None]:
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
                    f"{show(key)}: I and W take {ratio:.2f} times as long as a whole backward "
                    f"({1e3 * min(pairs):.1f} ms against {1e3 * whole:.1f} ms), since parts of it "
                    "run in both; recompute with R in place of checkpoints inside of the stage, "
                    "compile smaller parts, or take a schedule that does not split backwards",
                    PipeSchedWarning,
                    stacklevel=2,
                )


def _seconds(begin: Any, end: Any) -> float:
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1e3
