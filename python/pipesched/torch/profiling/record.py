"""When each instruction ran, and when messages arrived."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from pipesched import Cell, Instruction, Measurement
from pipesched.schedule.program import trace_name

JOIN_SECONDS = 1.0
"""The time to wait for a thread to end."""


class Event(NamedTuple):
    """One instruction of one step, in nanoseconds of `time.perf_counter_ns` of this process; on an
    accelerator times of the device, known when the step has ended.
    """

    step: int
    """Counts the steps of the runtime, from 0."""
    instruction: Instruction
    ready_ns: int
    """When the process, or the stream of the device, came to it."""
    start_ns: int
    """When everything that it waits for was done. For a compute these are the messages that it
    needs.
    """
    end_ns: int
    """When the process continued. A message that is only issued takes no time here; the compute
    that needs it waits from its `ready_ns` to its `start_ns`.
    """


class _Observed:
    """A receive on its way, for whose arrival only one of the observer and the rank can wait in
    PyTorch.
    """

    def __init__(self, work: Any, note: Callable[[], Any]) -> None:
        self._work = work
        self._note = note
        self._claim = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None

    def watch(self, *timeout: Any) -> bool:
        """Waits inside PyTorch, unless the other thread does so already. Says whether it did."""
        if not self._claim.acquire(blocking=False):
            return False
        try:
            self._work.wait(*timeout)
            self._note()
        except BaseException as error:
            self._error = error
        self._work = None  # with the buffer, which may be used again
        self._done.set()
        return True

    def wait(self, *timeout: Any) -> bool:
        """Returns the same as this method of a Work."""
        if not self.watch(*timeout):
            seconds = timeout[0].total_seconds() if timeout else None
            if not self._done.wait(seconds):
                raise RuntimeError(f"timed out after {seconds} s")
        if self._error is not None:
            raise self._error
        return True


def _serve(queue: SimpleQueue[_Observed | None]) -> None:
    while (observed := queue.get()) is not None:
        observed.watch()


class Recording(list[Event]):
    """The events of this rank, in order. A thread for each peer waits for messages, so that they
    are known to arrive even while the rank computes.
    """

    def __init__(self, gather: Callable[[Recording], Measurement]) -> None:
        super().__init__()
        self.step = 0
        """The step that runs."""
        self.done: dict[tuple[int, int], int] = {}
        """When this rank saw that a receive, a copy or an all-reduce was done, by step and index of
        the instruction, in ns."""
        self.arrived: dict[tuple[int, int], int] = {}
        """When a message arrived, by step and index of its receive."""
        self._gather = gather
        self._queues: dict[int | None, SimpleQueue[_Observed | None]] = {}
        self._threads: list[threading.Thread] = []

    def gather(self) -> Measurement:
        """Returns the `Measurement` of all steps that all ranks recorded whole, on one clock. All
        ranks call it, outside of the `with` block or at its end. Raises PipelineError if there is
        no such step.
        """
        return self._gather(self)

    def note_done(self, index: int, at_ns: int) -> None:
        """Records the end of an instruction for which another one waits."""
        self.done[self.step, index] = at_ns

    def observe(self, instruction: Instruction, work: Any) -> Any:
        """Observes a receive; returns a handle that the rank can wait for."""
        key = self.step, instruction.index

        def note() -> None:
            self.arrived[key] = time.perf_counter_ns()

        observed = _Observed(work, note)
        if instruction.peer not in self._queues:
            queue: SimpleQueue[_Observed | None] = SimpleQueue()
            thread = threading.Thread(target=_serve, args=(queue,), daemon=True)
            self._queues[instruction.peer] = queue
            thread.start()
            self._threads.append(thread)
        self._queues[instruction.peer].put(observed)
        return observed

    def close(self) -> None:
        """Ends the threads. After a failure they may wait for messages that never come."""
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        self._queues, self._threads = {}, []


class HostTimes:
    """Takes the times of a process that computes itself, in ns of `time.perf_counter_ns`."""

    def begin(self) -> None:
        """Starts a step."""

    def now(self) -> int:
        return time.perf_counter_ns()

    def ns(self, moment: int) -> int:
        """Returns the time of a moment, once it may be read."""
        return moment

    def when_known(self, call: Callable[[], Any]) -> None:
        """Runs a call as soon as the times of moments before it may be read."""
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
        torch.cuda.synchronize(self._device)  # so that it reaches the event at once
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


NOT_NAMED = nullcontext()


def named(*cells: Cell, kind: str = "compute") -> AbstractContextManager[Any]:
    """Names cells in a trace of PyTorch's profiler, `F 2 mb 3`, or moving their results,
    `send F 2 mb 3`. Does nothing without a profiler.
    """
    if not torch.autograd.profiler._is_profiler_enabled:
        return NOT_NAMED
    return torch.profiler.record_function(trace_name(cells, kind))


def times_of(device: torch.device) -> HostTimes | DeviceTimes:
    """Returns the clock for times on a device."""
    return DeviceTimes(device) if device.type == "cuda" else HostTimes()
