"""The times of instructions.

A process that issues work to an accelerator runs ahead of it. So its times are those of events,
which the device meets between the kernels of an instruction and of the next one. They are read when
the step has ended, beside an event at a time that the process knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch


class HostTimes:
    """Takes the times of a process that computes itself, in ns of `time.perf_counter_ns`."""

    def begin(self) -> None:
        """Begins a step."""

    def now(self) -> int:
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
