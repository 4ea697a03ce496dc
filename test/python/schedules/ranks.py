"""Real processes that run programs message by message, over gloo of torch.distributed.

One process per worker walks `schedule.program(worker)` from front to back, as the proofs of
`verify(messages=...)` assume (docs/Dialects/RationalePipe.md, "Message semantics"):

    layer        a send                        a receive      messages find each other by
    unbounded    returns at once               is waited for  tag
    fifo         returns at once               is waited for  order, without tags
    rendezvous   returns when it is received   is waited for  tag
    batched      neighbours are issued by one batch_isend_irecv, which is waited for

Each message carries its number, so that a receiver sees whether it got another one.

Before a process issues or waits for an instruction it reports it to the parent. The parent calls
the processes stuck when each that has not finished waits for a message or an all-reduce that
another has not reached. That is certain on any machine, however slow: the first process to continue
would need another one to reach something before it. Stuck processes are then drained: all
instructions that were not reached are issued, so that every wait returns and the same processes can
run the next program.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Literal

from pipesched import Instruction, Schedule, WorkerProgram

if TYPE_CHECKING:
    import torch.distributed as dist
    from torch import Tensor

Layer = Literal["unbounded", "fifo", "rendezvous", "batched"]
Receives = Literal["arrival", "consumer"]

End = tuple[str, int]
"""One end of a message, ("send", message) or ("recv", message), or ("all_reduce", group)."""

STILL_SECONDS = 0.1
"""The time that stuck processes must stay so: gloo has it to prove the parent wrong."""
LONGEST_SECONDS = 120.0
"""A program that is neither finished nor stuck by then is an error of this test."""


def end_of(instruction: Instruction) -> End | None:
    """The workers with which an instruction meets."""
    if instruction.message is not None:
        return instruction.kind, instruction.message
    if instruction.group is not None:
        return instruction.kind, instruction.group
    return None


def steps_of(program: WorkerProgram, layer: Layer) -> Iterator[list[Instruction]]:
    """The instructions that a process issues together and then waits for.

    A run of all-reduces of one cell is one step. In batches, so is a run of messages; copies and
    joins do not end it, unless a copy or a message waits for a message of the run.
    """
    step: list[Instruction] = []

    def joins(instruction: Instruction) -> bool:
        if not step:
            return False
        if instruction.kind == "wait":
            return True
        if instruction.kind == "all_reduce":
            return step[-1].kind == "all_reduce" and step[-1].cell == instruction.cell
        if layer != "batched" or instruction.kind == "compute":
            return False
        messages = {other.index for other in step if other.message is not None}
        return step[0].message is not None and not messages.intersection(instruction.waits)

    for instruction in program:
        if step and not joins(instruction):
            yield step
            step = []
        step.append(instruction)
    if step:
        yield step


# One process


class Drained(Exception):
    """The parent has called the processes stuck."""


class Walker:
    """Runs the program of one worker."""

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        receives: Receives | None,
        layer: Layer,
        parent: Connection,
    ) -> None:
        self.program = schedule.program(rank, receives=receives)
        self.groups = schedule.groups
        self.communicators: dict[int, dist.ProcessGroup] = {}
        self.layer = layer
        self.rank = rank
        self.parent = parent
        self.lock = Lock()
        self.issued: set[End] = set()
        self.is_drained = False
        self.unwaited: list[tuple[dist.Work, Tensor]] = []
        self.done = [False] * len(self.program)
        self.wrong: list[str] = []

    def connect(self) -> None:
        """Creates the communicators, which all workers do in the same order."""
        import torch.distributed as dist

        for number, group in enumerate(self.groups):
            self.communicators[number] = dist.new_group(list(group.workers))

    def run(self) -> None:
        try:
            for step in steps_of(self.program, self.layer):
                self.take(step)
        except Drained:
            pass
        except Exception as error:
            self.wrong.append(f"rank {self.rank}: {error!r}")
        for work, _ in self.unwaited:
            work.wait()
        self.parent.send(("done", self.wrong))

    def take(self, step: list[Instruction]) -> None:
        """Issues the instructions of a step, and waits for the ones that hold the process."""
        for instruction in step:
            assert all(i < instruction.index for i in instruction.waits), instruction
            if self.layer != "batched":
                assert all(self.done[i] for i in instruction.waits), instruction
        ends = [(i, end) for i in step if (end := end_of(i))]
        never_waits = self.layer in ("unbounded", "fifo")
        held = [end for i, end in ends if not (i.kind == "send" and never_waits)]
        self.parent.send(("step", [end for _, end in ends], held))
        with self.lock:
            if self.is_drained:
                raise Drained
            self.issued.update(end for _, end in ends)
            works = self.issue([i for i, _ in ends])
        for (instruction, end), (work, data) in zip(ends, works, strict=True):
            if end not in held:
                self.unwaited.append((work, data))
                continue
            work.wait()
            if not self.is_drained:
                self.check(instruction, int(data.item()))
        for instruction in step:
            self.done[instruction.index] = True

    def issue(self, ends: list[Instruction]) -> list[tuple[dist.Work, Tensor]]:
        """Starts sends, receives and all-reduces."""
        import torch
        import torch.distributed as dist

        if ends and ends[0].group is not None:
            works = []
            for instruction in ends:
                assert instruction.group is not None
                data = torch.tensor([1 << self.rank])
                communicator = self.communicators[instruction.group]
                works.append((dist.all_reduce(data, group=communicator, async_op=True), data))
            return works
        calls, tensors = [], []
        for instruction in ends:
            assert instruction.message is not None and instruction.peer is not None
            tag = 0 if self.layer == "fifo" else instruction.message
            is_send = instruction.kind == "send"
            tensors.append(torch.tensor([instruction.message if is_send else -1]))
            call = dist.isend if is_send else dist.irecv
            calls.append(dist.P2POp(call, tensors[-1], instruction.peer, tag=tag))
        if self.layer == "batched" and calls:
            return list(zip(dist.batch_isend_irecv(calls), tensors, strict=True))
        started = [call.op(call.tensor, call.peer, tag=call.tag) for call in calls]
        return list(zip(started, tensors, strict=True))

    def check(self, instruction: Instruction, found: int) -> None:
        """Compares the result of a receive or an all-reduce with the expected one."""
        wanted = instruction.message
        if instruction.group is not None:
            wanted = sum(1 << worker for worker in self.groups[instruction.group].workers)
        if found != wanted:
            self.wrong.append(f"rank {self.rank}: {instruction} got {found}, wanted {wanted}")

    def drain(self) -> None:
        """Issues all that was not reached, so that no process waits for this one."""
        with self.lock:
            self.is_drained = True
            missing = [i for i in self.program if (end := end_of(i)) and end not in self.issued]
            works = [work for i in missing for work in self.issue([i])]
        for work, _ in works:
            work.wait()


def serve(rank: int, count: int, store: str, parent: Connection) -> None:
    """Runs one program after the other, until there is none."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=count)
    parent.send(("ready", None))
    while (command := parent.recv()) is not None:
        walker = Walker(command[0], rank, command[1], command[2], parent)
        walker.connect()
        thread = Thread(target=walker.run)
        thread.start()
        while parent.recv() == "drain":
            walker.drain()
        thread.join()
        parent.send(("ready", None))
    dist.destroy_process_group()


# The parent


@dataclass
class Progress:
    """The parent's knowledge of one process."""

    issued: set[End] = field(default_factory=set)
    held: list[End] = field(default_factory=list)
    """The instruction it waits for."""
    has_finished: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a program ended: `finished`, with `wrong` data, or `stuck`; with the evidence."""

    ending: Literal["finished", "wrong", "stuck"]
    reasons: tuple[str, ...] = ()


class Ranks:
    """One process per worker, for any number of programs."""

    def __init__(self, count: int, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.parents, self.processes = [], []
        for rank in range(count):
            parent, child = context.Pipe()
            arguments = (rank, count, str(folder / "store"), child)
            process = context.Process(target=serve, args=arguments, daemon=True)
            process.start()
            child.close()
            self.parents.append(parent)
            self.processes.append(process)
        self._await_ready()

    def close(self) -> None:
        """Ends the processes."""
        for parent in self.parents:
            parent.send(None)
        for process in self.processes:
            process.join(10)
            process.kill()

    def run(self, schedule: Schedule, receives: Receives | None, layer: Layer) -> Outcome:
        """Runs a schedule with as many workers as there are processes."""
        self.schedule = schedule
        self.partners = self._partners(schedule, receives)
        self.progress = [Progress() for _ in self.parents]
        self.wrong: list[str] = []
        self._send((schedule, receives, layer))
        stuck = self._watch()
        if stuck:
            self._send("drain")
            while not all(p.has_finished for p in self.progress):
                self._read(LONGEST_SECONDS)
        self._send("end")
        self._await_ready()
        if stuck:
            return Outcome("stuck", tuple(stuck))
        return Outcome("wrong" if self.wrong else "finished", tuple(self.wrong))

    @staticmethod
    def _partners(
        schedule: Schedule, receives: Receives | None
    ) -> dict[End, list[tuple[int, End, str]]]:
        """The needs of each end: the ends of other workers, with their names."""
        ends = [
            (worker, end, instruction)
            for worker in range(schedule.workers)
            for instruction in schedule.program(worker, receives=receives)
            if (end := end_of(instruction))
        ]
        meetings: dict[tuple[bool, int], list[tuple[int, End, str]]] = {}
        for worker, end, instruction in ends:
            name = f"{instruction} of rank {worker}"
            meetings.setdefault((end[0] == "all_reduce", end[1]), []).append((worker, end, name))
        return {end: meetings[end[0] == "all_reduce", end[1]] for _, end, _ in ends}

    def _send(self, command: Any) -> None:
        for parent in self.parents:
            parent.send(command)

    def _await_ready(self) -> None:
        for rank, parent in enumerate(self.parents):
            assert parent.poll(LONGEST_SECONDS), f"rank {rank} does not answer"
            assert parent.recv() == ("ready", None)

    def _read(self, seconds: float) -> bool:
        """Takes the reports of processes so far; returns whether there was any."""
        ready = [p for p in wait(self.parents, seconds) if isinstance(p, Connection)]
        for parent in ready:
            progress = self.progress[self.parents.index(parent)]
            kind, *rest = parent.recv()
            if kind == "done":
                progress.has_finished = True
                self.wrong += rest[0]
            else:
                progress.issued.update(rest[0])
                progress.held = rest[1]
        return bool(ready)

    def _watch(self) -> list[str]:
        """Waits until all processes have finished, or are stuck and stay so; says where."""
        deadline = time.monotonic() + LONGEST_SECONDS
        while not all(progress.has_finished for progress in self.progress):
            stuck = self._describe_stuck()
            if not self._read(STILL_SECONDS if stuck else 1.0) and stuck:
                return stuck
            assert time.monotonic() < deadline, f"neither finished nor stuck: {self.progress}"
        return []

    def _describe_stuck(self) -> list[str]:
        """For each process the awaited instruction that another has not reached; else nothing."""
        reasons = []
        for progress in self.progress:
            if progress.has_finished:
                continue
            missing = self._find_missing(progress.held)
            if missing is None:
                return []
            reasons.append(missing)
        return reasons

    def _find_missing(self, held: list[End]) -> str | None:
        for end in held:
            own = [name for rank, other, name in self.partners[end] if other == end]
            for rank, other, name in self.partners[end]:
                if other not in self.progress[rank].issued:
                    return f"{own[0]} waits for {name}"
        return None
