"""Reads traces of whole steps: of PyTorch's profiler, whose ranks run PyTorch's own pipeline
runtime or ours, and of Chakra.

With PyTorch's profiler each rank exports one trace in the Chrome format (`torch.profiler.profile`,
`export_chrome_trace`). PyTorch's runtime puts every action into a range, and gloo every message
(PyTorch 2.13):

    PP:1RECV_F0   [--]
    gloo:recv       [------------------]          from the call until the rank has waited for it
    PP:1F0             [--- waits -----|--- computes ---]
    PP:1SEND_F0                                          [--]

So a compute starts when the receives that it needs have ended. The ranges of other backends end
with the call; they need no subtraction. If a trace has ranges of a GPU, these are the times of
computes, without the waits of the process.

Our runtime has ranges such as `F 2 mb 3` and `send F 2 mb 3` (`trace_name`), and waits between
them. A file of Chakra has nodes with either kind of names. Nodes of messages, copies and
collectives do not hold their worker, which continues at once.
"""

from __future__ import annotations

import gzip
import io
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import PipeSchedError
from ..schedule.program import Instruction, WorkerProgram, trace_name
from ..schedule.schedule import Schedule
from ..support.files import most_unpacked, read_json
from .chakra import ENDING, read_chakra
from .measurement import NEVER, Clock, Measurement, Stamps

WAITED_NS = 100_000
"""After a wait longer than this the message arrived at its end; otherwise it may have long before.
"""
_ACTION = re.compile(r"(\d+)([A-Z]|SEND_F|RECV_F|SEND_B|RECV_B)(\d+)")
_OWN = re.compile(r"(?:([a-z_]+) )?([A-Z]) (\d+) mb (\d+)")
_RECEIVE = re.compile(r"\w+:recv\b.*")


class Range(NamedTuple):
    """A span of a trace, in ns."""

    begin: int
    end: int


@dataclass
class Trace:
    """The ranges of one rank."""

    name: str
    host: str
    actions: dict[str, list[Range]] = field(default_factory=lambda: defaultdict(list))
    """By action, such as `1F0` or `1F0+2B1`, in order of time."""
    on_device: dict[str, list[Range]] = field(default_factory=lambda: defaultdict(list))
    """The ranges of a GPU."""
    receives: list[Range] = field(default_factory=list)
    """The ranges of messages, sorted by their start."""
    has_waits: bool = True
    """Whether ranges of computes include their waits, as in traces of PyTorch's runtime."""
    detached: set[str] = field(default_factory=set)
    """The actions that do not hold their worker."""

    def stages(self) -> set[int]:
        found = set()
        for action in self.actions:
            for part in action.split("+"):
                if (match := _ACTION.fullmatch(part)) and match[2] in "FBIWR":
                    found.add(int(match[1]))
        return found


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """Reads a trace of PyTorch's profiler, also if it is compressed, or of Chakra (`.et`)."""
    name = os.fspath(path)
    events: Iterable[Any]
    if name.endswith(ENDING):
        host, nodes = read_chakra(path)
        trace, base, events, place = Trace(name, host), 0, nodes, "node"
    else:
        trace, base, events = _open_chrome_trace(path, name)
        place = "traceEvents"
    for number, event in enumerate(events):
        if isinstance(event, Mapping) and event.get("ph") == "X":
            _add(trace, event, base, f"{name}: {place}[{number}]")
    if not trace.actions:
        raise PipeSchedError(
            f"{name}: has no range 'PP:<action>' or 'F <stage> mb <microbatch>' of a pipeline "
            "action; record a step of PyTorch's pipeline runtime or of pipesched.torch with "
            "torch.profiler.profile and export_chrome_trace"
        )
    for ranges in (*trace.actions.values(), *trace.on_device.values(), trace.receives):
        ranges.sort()
    return trace


def _open_chrome_trace(path: str | os.PathLike[str], name: str) -> tuple[Trace, int, Iterable[Any]]:
    """Returns an empty trace, the time from which events count, and the events."""
    content = Path(path).read_bytes()
    try:
        if content[:2] == b"\x1f\x8b":
            most = most_unpacked(len(content))
            with gzip.open(io.BytesIO(content)) as file:
                content = file.read(most + 1)
            if len(content) > most:
                raise ValueError(f"it unpacks to more than {most} bytes")
        raw = read_json(content, bounded=False)
    except (OSError, EOFError, ValueError) as error:
        raise PipeSchedError(f"{name}: not JSON, plain or compressed by gzip: {error}") from error
    events = raw.get("traceEvents") if isinstance(raw, Mapping) else raw
    if not isinstance(events, list):
        hint = ""
        if isinstance(raw, Mapping) and str(raw.get("format", "")).startswith("pipesched"):
            hint = "; Measurement.from_file reads measurements"
        raise PipeSchedError(f"{name}: has no list 'traceEvents', as a Chrome trace has{hint}")
    is_object = isinstance(raw, Mapping)
    host = str(raw.get("host_name", "")) if is_object else ""
    base = raw.get("baseTimeNanoseconds", 0) if is_object else 0
    if not isinstance(base, int):
        raise PipeSchedError(f"{name}: baseTimeNanoseconds: expected an integer, found {base!r}")
    return Trace(name, host), base, events


def _action(kind: str, phase: str, stage: int, microbatch: str | int) -> str:
    """The name that PyTorch has, or would have, for a cell, or for sending its result."""
    if kind not in ("send", "recv"):
        return f"{stage}{phase}{microbatch}"
    if kind == "recv":
        stage += 1 if phase == "F" else -1
    return f"{stage}{kind.upper()}_{'F' if phase == 'F' else 'B'}{microbatch}"


def _read_name(name: str) -> tuple[str, bool] | None:
    """The action of a range, and whether its name is one of ours; None for other ranges, such as
    UNSHARD, which have no instruction in a schedule.
    """
    if name.startswith("PP:"):
        action = name.removeprefix("PP:")
        if action.startswith("("):  # (1F0;2B1)OVERLAP_F_B
            action = "+".join(action[1 : action.index(")")].split(";"))
        return (action, False) if all(map(_ACTION.fullmatch, action.split("+"))) else None
    parts = [_OWN.fullmatch(part) for part in name.split(" + ")]
    if not all(parts):
        return None
    return "+".join(_action(m[1] or "", m[2], int(m[3]), m[4]) for m in parts if m), True


def _add(trace: Trace, event: Mapping[str, Any], base: int, place: str) -> None:
    name = str(event.get("name", ""))
    read, is_receive = _read_name(name), _RECEIVE.fullmatch(name) is not None
    if read is None and not is_receive:
        return
    try:
        begin = base + round(1000 * float(event["ts"]))
        span = Range(begin, begin + round(1000 * float(event["dur"])))
    except (KeyError, TypeError, ValueError) as error:
        raise PipeSchedError(f"{place}: {name} has no numbers 'ts' and 'dur'") from error
    if read is None:
        trace.receives.append(span)
        return
    action, is_own = read
    if is_own:
        trace.has_waits = False
    if event.get("is_detached"):
        trace.detached.add(action)
    kind = trace.on_device if event.get("cat") == "gpu_user_annotation" else trace.actions
    kind[action].append(span)


def _action_of(instruction: Instruction) -> str:
    if instruction.kind == "compute":
        return "+".join(map(str, instruction.cells))
    cell = instruction.cell
    return _action(instruction.kind, cell.phase, cell.stage, cell.microbatch)


def _place(
    schedule: Schedule, programs: Sequence[WorkerProgram], traces: Sequence[Trace]
) -> list[Trace]:
    """The traces by worker: each has its own stages."""
    placed: dict[int, Trace] = {}
    firsts = [
        next(_action_of(each) for each in program if each.kind == "compute") for program in programs
    ]
    for trace in traces:
        stages = trace.stages()
        holders = [
            worker
            for worker in range(schedule.workers)
            if stages and stages <= {each.stage for each in schedule.stages(worker)}
        ]
        # Stages of several paths have the same numbers, but not the same microbatches.
        workers = [worker for worker in holders if firsts[worker] in trace.actions] or holders
        if not workers:
            raise PipeSchedError(
                f"{trace.name}: computes stages {sorted(stages)}, which no worker of "
                f"{schedule.name!r} holds together"
            )
        if workers[0] in placed:
            raise PipeSchedError(
                f"{trace.name}: is of worker {workers[0]}, as {placed[workers[0]].name} is; give "
                "one trace for each rank"
            )
        placed[workers[0]] = trace
    missing = [worker for worker in range(schedule.workers) if worker not in placed]
    if missing:
        raise PipeSchedError(
            f"no trace is of worker {missing[0]}, which computes stages "
            f"{sorted(each.stage for each in schedule.stages(missing[0]))}; "
            f"{len(traces)} traces are given for {schedule.workers} workers"
        )
    return [placed[worker] for worker in range(schedule.workers)]


class _Worker:
    """The stamps of one worker."""

    def __init__(self, program: WorkerProgram, trace: Trace, steps: int) -> None:
        self._program, self._trace, self._steps = program, trace, steps
        shape = steps, len(program)
        self.columns = {
            name: np.full(shape, NEVER, dtype=np.int64)
            for name in ("ready", "start", "end", "done", "arrived")
        }
        self._actions = [_action_of(instruction) for instruction in program]
        self._counts = Counter(self._actions)
        for step in range(steps):
            seen: Counter[str] = Counter()
            ends: int | None = None
            for instruction in program:
                action = self._actions[instruction.index]
                ends = self._read(instruction, step, seen[action], ends)
                seen[action] += 1
        for instruction in program:
            if instruction.kind == "compute":
                for step in range(steps):
                    self._subtract_waits(instruction, step)

    def _range(self, index: int, step: int, before: int) -> Range:
        """Returns the range of an instruction in a step; `before` ranges of the same action precede
        it there.
        """
        action = self._actions[index]
        found = self._trace.actions.get(action, [])
        if not found and "+" in action:  # a pair whose cells run in turn
            both = (self._trace.actions.get(each, []) for each in action.split("+"))
            found = [Range(a.begin, b.end) for a, b in zip(*both, strict=False)]
        wanted = self._steps * self._counts[action]
        if len(found) != wanted:
            own = trace_name(self._program[index].cells, self._program[index].kind)
            raise PipeSchedError(
                f"{self._trace.name}: has {len(found)} ranges 'PP:{action}' or {own!r}, wanted "
                f"{wanted}, one per step; record whole steps, of this schedule"
            )
        return found[step * (wanted // self._steps) + before]

    def _read(
        self, instruction: Instruction, step: int, before: int, ends: int | None
    ) -> int | None:
        """Reads one instruction; the one before it ended at `ends`. Returns when the worker
        continued.
        """
        at, action = (step, instruction.index), self._actions[instruction.index]
        if instruction.kind == "wait" and ends is not None:
            begin = end = ends
        else:
            begin, end = self._range(instruction.index, step, before)
        ready = begin
        if action in self._trace.detached:
            if instruction.kind != "send":
                self.columns["done"][at] = self.columns["arrived"][at] = end
            end = begin
        else:
            if ends is not None and not self._trace.has_waits:
                ready = min(ends, begin)
            ends = end
        self.columns["ready"][at] = ready
        self.columns["start"][at], self.columns["end"][at] = begin, end
        if instruction.kind == "recv":
            inside = [each.end for each in self._trace.receives if begin <= each.begin <= end]
            if inside:
                self.columns["done"][at] = max(inside)
        return ends

    def _subtract_waits(self, instruction: Instruction, step: int) -> None:
        at = step, instruction.index
        ready, start, end = (int(self.columns[name][at]) for name in ("ready", "start", "end"))
        for index in instruction.waits:
            done = int(self.columns["done"][step, index])
            if done != NEVER and done - ready > WAITED_NS:
                self.columns["arrived"][step, index] = done
            start = max(start, min(done, end))
        on_device = self._trace.on_device.get(self._actions[instruction.index], [])
        if len(on_device) == self._steps:
            start, end = on_device[step]
        self.columns["ready"][at] = min(ready, start)
        self.columns["start"][at], self.columns["end"][at] = start, end


def _flights(programs: Sequence[WorkerProgram], stamps: Sequence[Stamps]) -> dict[Any, int]:
    """Returns the shortest time in ns from a send to the end of its receive, by (sender, receiver).
    It bounds how far the receiver's clock is ahead.
    """
    sent = {}
    for program, stamp in zip(programs, stamps, strict=True):
        for instruction in program:
            if instruction.kind == "send":
                sent[instruction.message] = stamp.start[:, instruction.index]
    shortest: dict[Any, int] = {}
    for program, stamp in zip(programs, stamps, strict=True):
        for instruction in program:
            if instruction.kind == "recv":
                done = stamp.done[:, instruction.index]
                flights = (done - sent[instruction.message])[done != NEVER]
                key = instruction.peer, program.worker
                for flight in flights.tolist():
                    shortest[key] = min(flight, shortest.get(key, flight))
    return shortest


def _align(
    traces: Sequence[Trace], programs: Sequence[WorkerProgram], stamps: Sequence[Stamps]
) -> Clock:
    """Compares clocks by messages in both directions. Clocks of one host are one; others are taken
    to be in the middle of the range that messages allow, from worker to worker, starting with 0.
    """
    flights = _flights(programs, stamps)
    offsets, errors = {0: 0}, {0: 0}
    waiting = [0]
    while waiting:
        known = waiting.pop(0)
        for other in range(len(programs)):
            there, back = flights.get((known, other)), flights.get((other, known))
            if other in offsets or there is None or back is None:
                continue
            is_one_host = traces[known].host == traces[other].host != ""
            ahead = 0 if is_one_host and there >= 0 and back >= 0 else (there - back) // 2
            offsets[other] = offsets[known] + ahead
            errors[other] = errors[known] + max(there - ahead, back + ahead, 0)
            waiting.append(other)
    count = len(programs)
    is_complete = len(offsets) == count
    return Clock(
        max(errors.values()) / 1e9 if is_complete else float("nan"),
        tuple(offsets.get(worker, 0) / 1e9 for worker in range(count)),
        (0.0,) * count,
    )


def _shift(stamps: Stamps, offset_s: float) -> Stamps:
    ahead = round(1e9 * offset_s)
    columns = (stamps.ready, stamps.start, stamps.end, stamps.done, stamps.arrived)
    return Stamps(*(np.where(each == NEVER, NEVER, each - ahead) for each in columns))


def from_torch_traces(schedule: Schedule, files: Iterable[str | os.PathLike[str]]) -> Measurement:
    """See `Measurement.from_torch_traces`."""
    programs = [schedule.program(worker) for worker in range(schedule.workers)]
    traces = _place(schedule, programs, [read_trace(file) for file in files])
    first = next(instruction for instruction in programs[0] if instruction.kind == "compute")
    steps = len(traces[0].actions.get(_action_of(first), []))
    if not steps:
        raise PipeSchedError(f"{traces[0].name}: has no range 'PP:{_action_of(first)}'")
    pairs = zip(programs, traces, strict=True)
    stamps = [Stamps(**_Worker(program, trace, steps).columns) for program, trace in pairs]
    clock = _align(traces, programs, stamps)
    aligned = map(_shift, stamps, clock.offsets_s)
    return Measurement(
        schedule,
        "arrival" if schedule.kind == "schedule" else None,
        tuple(range(steps)),
        tuple(aligned),
        clock,
        "chakra" if all(trace.name.endswith(ENDING) for trace in traces) else "torch.profiler",
    )
