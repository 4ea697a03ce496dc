"""The times of instructions and messages of a rank, and the recordings of all ranks on one clock.

Rank 0 sends a message to each other rank, which returns the time of its clock. If both
directions took equally long, the answer is the time at the middle of the round trip:

    rank 0   t0 ------.            .------> t3        offset = t1 - (t0 + t3) / 2
    rank r             `--> t1 ---'                   wrong by at most (t3 - t0) / 2

The shortest of several round trips counts. Clocks are compared when a runtime is made and again
when a recording is gathered; between these two their offset is taken to grow evenly.
"""

from __future__ import annotations

import base64
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from pipesched import Cell, Instruction, Measurement, Schedule
from pipesched.results.measurement import NEVER, Clock, Stamps
from pipesched.schedule.program import trace_name
from pipesched.support.options import ReceivePlacement

from ..comm.messages import Link
from ..core.watch import Watch

JOIN_SECONDS = 1.0


class Event(NamedTuple):
    """An instruction of a step, in `time.perf_counter_ns`; on an accelerator by its events."""

    step: int
    """Counts the steps of the runtime, from 0."""
    instruction: Instruction
    ready_ns: int
    """When the process, or the stream of the device, came to it."""
    start_ns: int
    """When its waits were done; a compute waits for its messages."""
    end_ns: int
    """When the process continued. A compute that needs a message waits, not its receive."""


class _Observed:
    """A receive on its way; one of the observer and the rank waits for it in PyTorch."""

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
    """The events of this rank in order. A thread per peer notes the arrival of messages."""

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
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        self._queues, self._threads = {}, []


class HostTimes:
    """Takes the times of a process that computes itself, in ns of `time.perf_counter_ns`."""

    def begin(self) -> None:
        pass

    def now(self) -> int:
        return time.perf_counter_ns()

    def ns(self, moment: int) -> int:
        """Returns the time of a moment, once it may be read."""
        return moment

    def when_known(self, call: Callable[[], Any]) -> None:
        """Runs a call as soon as the times of moments before it may be read."""
        call()

    def end(self) -> None:
        pass


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
    """Names cells in a trace of PyTorch's profiler, as `F 2 mb 3` or `send F 2 mb 3`."""
    if not torch.autograd.profiler._is_profiler_enabled:
        return NOT_NAMED
    return torch.profiler.record_function(trace_name(cells, kind))


def times_of(device: torch.device) -> HostTimes | DeviceTimes:
    return DeviceTimes(device) if device.type == "cuda" else HostTimes()


TAG = 3
"""Tags of messages between stages never have this remainder modulo 4."""
ROUNDS = 24


class Offset(NamedTuple):
    """The clock of a rank relative to rank 0's, in ns."""

    at: int
    """The time of the rank's clock when the two clocks were compared."""
    ahead: int
    error: int
    """The largest possible error of `ahead`."""


def _exchange(link: Link, buffer: Tensor, peer: int, is_send: bool) -> None:
    if link.host is not None:
        work = (link.host.send if is_send else link.host.recv)([buffer], peer, TAG)
    else:
        call = dist.isend if is_send else dist.irecv
        rank = dist.get_global_rank(link.group, peer)
        work = call(buffer, rank, group=link.group, tag=TAG)
    work.wait()


def _ask(link: Link, peer: int) -> Offset:
    """On rank 0: compares its clock with a peer's."""
    question, answer = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    best = Offset(0, 0, 2**62)
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        _exchange(link, question, peer, is_send=True)
        _exchange(link, answer, peer, is_send=False)
        end = time.perf_counter_ns()
        at = int(answer.item())
        error = (end - begin + 1) // 2
        if error < best.error:
            best = Offset(at, at - (begin + end) // 2, error)
    return best


def _answer(link: Link) -> None:
    question, answer = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    for _ in range(ROUNDS):
        _exchange(link, question, 0, is_send=False)
        answer[0] = time.perf_counter_ns()
        _exchange(link, answer, 0, is_send=True)


class Clocks:
    """The clocks of all ranks, compared some times by all of them together."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.offsets: list[list[Offset]] = []
        """On rank 0: the clocks of each comparison, by rank. Empty on other ranks."""
        self.comparisons = 0

    def compare(self) -> None:
        watch = self._link.watch

        def ask() -> None:
            now = Offset(time.perf_counter_ns(), 0, 0)
            self.offsets.append([now, *(_ask(self._link, peer) for peer in range(1, watch.size))])

        call = ask if watch.rank == 0 else lambda: _answer(self._link)
        watch.wait(call, lambda: "the comparison of clocks")
        self.comparisons += 1


Table = npt.NDArray[np.int64]
"""The stamps of one step: the 5 rows of `Stamps` by instructions."""


def _encode(table: Table) -> str:
    return base64.b64encode(zlib.compress(table.tobytes(), 1)).decode()


def _decode(text: str) -> Table:
    flat = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.int64)
    return flat.reshape(5, -1)


def _steps(recording: Recording, program: Sequence[Instruction]) -> dict[int, Table]:
    events: dict[int, dict[int, Event]] = {}
    for event in recording:
        events.setdefault(event.step, {})[event.instruction.index] = event
    tables = {}
    for step, found in events.items():
        if len(found) != len(program):
            continue
        table = np.full((5, len(program)), NEVER, dtype=np.int64)
        for index, event in found.items():
            done = recording.done.get((step, index), NEVER)
            arrived = recording.arrived.get((step, index), NEVER)
            table[:, index] = event.ready_ns, event.start_ns, event.end_ns, done, arrived
        tables[step] = table
    return tables


def _rate(first: Offset, last: Offset) -> float:
    return (last.ahead - first.ahead) / max(last.at - first.at, 1)


def _on_one_clock(table: Table, offsets: Sequence[Offset]) -> Table:
    """Converts times of the clock of a rank to rank 0's, by its first and last comparison."""
    first, rate = offsets[0], _rate(offsets[0], offsets[-1])
    ahead = first.ahead + np.rint((table - first.at) * rate).astype(np.int64)
    return np.where(table == NEVER, NEVER, table - ahead)


def _clock(offsets: Sequence[Sequence[Offset]]) -> Clock:
    first, last = offsets[0], offsets[-1]
    errors = [max(a.error, b.error) for a, b in zip(first, last, strict=True)]
    return Clock(
        error_s=max(errors) / 1e9,
        offsets_s=tuple(each.ahead / 1e9 for each in last),
        drifts_ppm=tuple(1e6 * _rate(a, b) for a, b in zip(first, last, strict=True)),
    )


def gather(
    recording: Recording,
    schedule: Schedule,
    receives: ReceivePlacement | None,
    program: Sequence[Instruction],
    watch: Watch,
    clocks: Clocks,
) -> Measurement | None:
    """Exchanges the recordings of all ranks. None if they have no complete step in common."""
    clocks.compare()
    mine = {step: _encode(table) for step, table in _steps(recording, program).items()}
    said: list[Any] = watch.meet(f"recording {clocks.comparisons}", [mine, clocks.offsets])
    steps = set.intersection(*(set(tables) for tables, _ in said))
    if not steps:
        return None
    numbers = sorted(steps, key=int)
    offsets = [[Offset(*each) for each in comparison] for comparison in said[0][1]]
    workers = []
    for rank, (tables, _) in enumerate(said):
        own = [comparison[rank] for comparison in offsets]
        parts = [_on_one_clock(_decode(tables[number]), own) for number in numbers]
        workers.append(Stamps(*np.stack(parts, axis=1)))
    return Measurement(
        schedule=schedule,
        receives=receives,
        numbers=tuple(map(int, numbers)),
        stamps=tuple(workers),
        clock=_clock(offsets),
        source="pipesched.torch",
    )
