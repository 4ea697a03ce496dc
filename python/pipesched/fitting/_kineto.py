"""Samples from traces of PyTorch's profiler: kernels of operations, copies, collectives."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import _collectives
from ._operations import work_of
from ._samples import Found, Sample
from ._trace import Event, Trace

_TRANSFER = re.compile(r"(?:memcpy\s*)?\b(HtoD|DtoH|DtoD|PtoP)\b(.*)", re.IGNORECASE)
MICRO = 1e-6


def samples_of(traces: Sequence[Trace]) -> Found:
    """The contents of the traces of one or several ranks of a job."""
    found = Found()
    for trace in traces:
        found.notes += trace.notes
        has_kernels = bool(trace.of("kernel"))
        operations = _on_device(trace, found) if has_kernels else _on_host(trace, found)
        _work(trace, operations, found)
        _copies(trace, found)
        if not has_kernels and trace.of("operation"):
            _note(
                found,
                "traces without kernels of a GPU: operations are timed on the CPU, without those "
                "that they call",
            )
    found.add(_collectives.samples_of(traces))
    return found


def _note(found: Found, text: str) -> None:
    if text not in found.notes:
        found.notes.append(text)


@dataclass
class _Timed:
    """An operation and the time that is its own."""

    event: Event
    seconds: float


# Whose kernel it is


class _Nesting:
    """The operations of a trace, and which of them encloses a moment."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._threads: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            self._threads.setdefault(event.thread, []).append(event)
        self._parents: dict[int, Event | None] = {}
        self._starts: dict[tuple[str, str], list[float]] = {}
        for thread, spans in self._threads.items():
            spans.sort(key=lambda event: (event.start, -event.duration))
            self._starts[thread] = [span.start for span in spans]
            stack: list[Event] = []
            for span in spans:
                while stack and stack[-1].end <= span.start:
                    stack.pop()
                self._parents[id(span)] = stack[-1] if stack else None
                stack.append(span)

    def parent(self, event: Event) -> Event | None:
        """What called it."""
        return self._parents.get(id(event))

    def innermost(self, thread: tuple[str, str], moment: float) -> Event | None:
        """The operation that runs then."""
        at = bisect_right(self._starts.get(thread, []), moment) - 1
        span = self._threads[thread][at] if at >= 0 else None
        while span is not None and span.end < moment:
            span = self.parent(span)
        return span


class _Owners:
    """Which operation launched a kernel: by its external id, its launch, or what encloses the
    launch.
    """

    def __init__(self, trace: Trace) -> None:
        self._nesting = _Nesting(trace.of("operation"))
        self._operations: dict[int, Event] = {}
        for event in trace.of("operation"):
            number = event.integer("External id", "External Id")
            if number:
                self._operations[number] = event
        self._launches: dict[int, Event] = {}
        for launch in trace.of("launch"):
            number = launch.integer("correlation")
            if number:
                self._launches[number] = launch

    def of(self, kernel: Event) -> Event | None:
        """The innermost operation."""
        launch = self._launches.get(kernel.integer("correlation") or 0)
        for event in (kernel, launch):
            number = event.integer("External id", "External Id") if event else None
            if number and number in self._operations:
                return self._operations[number]
        return self._nesting.innermost(launch.thread, launch.start) if launch else None

    def with_work(self, operation: Event | None) -> Event | None:
        """The operation or the closest of its callers whose work is known."""
        while operation is not None and work_of(operation.name, operation.args) is None:
            operation = self._nesting.parent(operation)
        return operation


def _on_device(trace: Trace, found: Found) -> list[_Timed]:
    """Operations with the time of all their kernels. Kernels without an operation are left out by
    name.
    """
    owners = _Owners(trace)
    times: dict[int, _Timed] = {}
    lost = 0
    for kernel in trace.of("kernel"):
        seconds = kernel.duration * MICRO
        found.seconds += seconds
        if _collectives.is_communication(kernel.name):
            continue
        operation = owners.of(kernel)
        if operation is None:
            lost += 1
            found.leave_out(_short(kernel.name), seconds)
            continue
        # A kernel of an operation inside another one, such as a copy in a linear layer, counts for
        # the inner one.
        timed = times.setdefault(id(operation), _Timed(operation, 0.0))
        timed.seconds += seconds
    if lost:
        _note(found, f"{trace.path}: {lost} kernels belong to no operation and are left out")
    return _give_to_callers(times, owners)


def _give_to_callers(times: dict[int, _Timed], owners: _Owners) -> list[_Timed]:
    """Gives the time of operations of unknown work to a caller that is attention."""
    result: dict[int, _Timed] = {}
    for timed in times.values():
        caller = owners.with_work(timed.event)
        is_attention = caller is not None and "attention" in caller.name
        owner = caller if caller is not None and is_attention else timed.event
        result.setdefault(id(owner), _Timed(owner, 0.0)).seconds += timed.seconds
    return list(result.values())


def _short(name: str) -> str:
    """The name of a kernel without its template arguments."""
    return re.sub(r"<.*", "<>", name.removeprefix("void "))[:60]


def _on_host(trace: Trace, found: Found) -> list[_Timed]:
    """Operations with the time that they spend themselves."""
    operations = trace.of("operation")
    nesting = _Nesting(operations)
    own = {id(event): event.duration for event in operations}
    for event in operations:
        parent = nesting.parent(event)
        if parent is not None:
            own[id(parent)] -= event.duration
    callers = _callers_of_products(operations, nesting)
    timed = []
    for event in operations:
        seconds = max(own[id(event)], 0.0) * MICRO
        found.seconds += seconds
        if id(event) in callers:
            found.leave_out(event.name, seconds)
        elif seconds > 0 and not event.name.startswith(("c10d::", "record_param_comms")):
            timed.append(_Timed(event, seconds))
    return timed


def _callers_of_products(operations: Sequence[Event], nesting: _Nesting) -> set[int]:
    """Operations such as aten::linear that leave their work to one that they call."""
    callers: set[int] = set()
    for event in operations:
        work = work_of(event.name, event.args)
        caller = nesting.parent(event) if work and work.part == "matrix" else None
        while caller is not None and id(caller) not in callers:
            callers.add(id(caller))
            caller = nesting.parent(caller)
    return callers


# What it did


def _work(trace: Trace, operations: Sequence[_Timed], found: Found) -> None:
    """Adds a sample for each operation whose work is known."""
    shaped = 0
    for timed in operations:
        event = timed.event
        shaped += "Input Dims" in event.args
        work = work_of(event.name, event.args) if timed.seconds > 0 else None
        if work is None:
            found.leave_out(event.name, timed.seconds)
            continue
        if work.kind == "attention":
            _note(
                found,
                "attention: FLOPs are those of all scores, also under a causal mask, as in the "
                "cost model",
            )
        found.samples.append(
            Sample(
                work.part,
                work.kind,
                timed.seconds,
                work.flops,
                work.bytes,
                dtype=work.dtype,
                name=event.name,
                place=trace.place(event),
            )
        )
    if operations and not shaped:
        _note(
            found,
            f"{trace.path}: no operation has Input Dims; record the trace with record_shapes=True",
        )


def _copies(trace: Trace, found: Found) -> None:
    """Copies: to and from pinned memory of the host, and within the device."""
    left: Counter[str] = Counter()
    for event in trace.of("copy"):
        seconds, size = event.duration * MICRO, event.integer("bytes", "Bytes")
        found.seconds += seconds
        match = _TRANSFER.search(event.name)
        if not match or not size or size < 0 or seconds <= 0:
            found.leave_out(event.name, seconds)
            continue
        way, memory = match[1].lower(), match[2].lower()
        if way in ("htod", "dtoh") and "pageable" in memory:
            left[event.name] += 1
            found.leave_out(event.name, seconds)
            continue
        part = {"dtod": "memory", "ptop": "link"}.get(way, "host")
        kind = {"memory": "kernel", "link": "message"}.get(part, "copy")
        moved = 2 * size if part == "memory" else size
        found.samples.append(
            Sample(part, kind, seconds, 0, moved, name=event.name, place=trace.place(event))
        )
    for name, number in left.items():
        _note(
            found, f"{name}: {number} copies are left out; those of schedules go to pinned memory"
        )
