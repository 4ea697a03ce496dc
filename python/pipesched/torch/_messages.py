"""Messages between stages, over process groups with tags and without.

With tags (gloo, MPI) every message is sent when its row reaches it, and nothing waits but what
needs it. It begins with a prefix, whose flag says whether the receiver knows how it is made:

    tag + 0    [0 | message | 0]            tensors                        as the last time
    tag + 0    [1 | message | header size]  as many bytes as the last time, meaningless
    tag + 1    header
    tag + 2    prefix and tensors

So a receiver can post its buffer before it knows whether shapes have changed. Without tags (NCCL)
messages find each other by their order. Runs of messages are then issued as one batch each, as the
proofs `batched` and `fifo` of `Schedule.verify` assume. A receiver must know sizes before its batch
begins, and must not wait for them there, since the batch may be what the sender waits for: so the
first pass goes over a process group of gloo, with tags, and all others rely on what it has shown.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from pipesched import Instruction

from ._errors import PipelineError
from ._values import NOTHING, Packet, Spec, read
from ._watch import Watch

TAGS = 32_768
"""As many as MPI promises."""
Mode = Literal["train", "evaluate"]
HOST = torch.device("cpu")


def named(instruction: Instruction) -> str:
    """A message in words."""
    return f"message {instruction.message} ({instruction})"


@dataclass
class Link:
    """The process group of a pipeline, and how this rank waits in it."""

    group: dist.ProcessGroup
    watch: Watch
    device: torch.device
    """Where received tensors are wanted."""
    buffers: torch.device
    """Where the process group takes them."""
    host: Any = None
    """A ProcessGroupGloo of the same ranks, where the group itself has no tags."""
    observe: Callable[[Instruction, Any], Any] | None = None
    """Wraps what is to be waited for in a receive into host memory."""

    def send(self, buffer: Tensor, instruction: Instruction, tag: int) -> None:
        """Sends without waiting; the buffer is kept until it is sent."""

        def start() -> Any:
            if self.host is not None:
                return self.host.send([buffer], instruction.peer, tag)
            return dist.isend(buffer, self.rank_of(instruction), group=self.group, tag=tag)

        work = self.watch.start_call(start, lambda: named(instruction))
        self.watch.wait_behind(work.wait, buffer, f"the end of {named(instruction)}")

    def receive(self, buffer: Tensor, instruction: Instruction, tag: int) -> Any:
        """Begins to receive; returns what to wait for."""

        def start() -> Any:
            if self.host is not None:
                return self.host.recv([buffer], instruction.peer, tag)
            return dist.irecv(buffer, self.rank_of(instruction), group=self.group, tag=tag)

        work = self.watch.start_call(start, lambda: named(instruction))
        return work if self.observe is None else self.observe(instruction, work)

    def rank_of(self, instruction: Instruction) -> int:
        """The global rank of the peer."""
        assert instruction.peer is not None
        return dist.get_global_rank(self.group, instruction.peer)


class Messages(Protocol):
    """The messages of one rank."""

    def begin(self, mode: Mode, program: Sequence[Instruction]) -> None:
        """Begins a pass over a program."""

    def send(self, instruction: Instruction, packet: Packet) -> None:
        """Sends a value, now or with the batch of its message."""

    def receive(self, instruction: Instruction) -> None:
        """Begins to receive, now or with the batch."""

    def take(self, index: int) -> Packet:
        """What the receive of that index has received, once; waits for it."""


def _prefix(buffer: Tensor, flag: int, instruction: Instruction, size: int) -> None:
    values = struct.pack("<qqq", flag, instruction.message, size)
    begin = torch.frombuffer(bytearray(values), dtype=torch.uint8)
    buffer[: len(values)].copy_(begin)


def _read_prefix(buffer: Tensor, instruction: Instruction) -> tuple[int, int]:
    """The flag and the size of the header."""
    flag, message, size = struct.unpack("<qqq", bytes(buffer[:24].tolist()))
    if message != instruction.message:
        raise PipelineError(f"received message {message} in the place of {named(instruction)}")
    return flag, size


class TaggedMessages:
    """Over a process group with tags."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.specs: dict[tuple[Mode, int | None], Spec] = {}
        """How each message was made the last time, by mode and number."""
        self._mode: Mode = "train"
        self._coming: dict[int, tuple[Instruction, Tensor, Any]] = {}

    def begin(self, mode: Mode, program: Sequence[Instruction]) -> None:
        self._mode = mode
        self._coming = {}

    def _tag(self, instruction: Instruction) -> int:
        assert instruction.sequence is not None
        return 4 * instruction.sequence % TAGS

    def _known(self, instruction: Instruction) -> Spec:
        return self.specs.get((self._mode, instruction.message), NOTHING)

    def send(self, instruction: Instruction, packet: Packet) -> None:
        known, tag = self._known(instruction), self._tag(instruction)
        buffer = packet.pack(HOST)
        if packet.spec == known:
            _prefix(buffer, 0, instruction, 0)
            self._link.send(buffer, instruction, tag)
            return
        header = torch.frombuffer(bytearray(packet.spec.to_bytes()), dtype=torch.uint8)
        notice = torch.zeros(known.offsets[-1], dtype=torch.uint8, device=HOST)
        _prefix(notice, 1, instruction, header.numel())
        _prefix(buffer, 0, instruction, 0)
        for number, part in enumerate((notice, header, buffer)):
            self._link.send(part, instruction, tag + number)
        self.specs[self._mode, instruction.message] = packet.spec

    def receive(self, instruction: Instruction) -> None:
        size = self._known(instruction).offsets[-1]
        buffer = torch.empty(size, dtype=torch.uint8, device=HOST)
        work = self._link.receive(buffer, instruction, self._tag(instruction))
        self._coming[instruction.index] = instruction, buffer, work

    def take(self, index: int) -> Packet:
        instruction, buffer, work = self._coming.pop(index)
        self._wait(work, buffer, instruction)
        flag, size = _read_prefix(buffer, instruction)
        if flag:
            header = self._receive_part(instruction, 1, size)
            spec = Spec.from_bytes(bytes(header.tolist()))
            buffer = self._receive_part(instruction, 2, spec.offsets[-1])
            _read_prefix(buffer, instruction)
            self.specs[self._mode, instruction.message] = spec
        return read(buffer.to(self._link.device), self._known(instruction))

    def _receive_part(self, instruction: Instruction, part: int, size: int) -> Tensor:
        buffer = torch.empty(size, dtype=torch.uint8, device=HOST)
        work = self._link.receive(buffer, instruction, self._tag(instruction) + part)
        self._wait(work, buffer, instruction)
        return buffer

    def _wait(self, work: Any, buffer: Tensor, instruction: Instruction) -> None:
        self._link.watch.wait(work.wait, lambda: named(instruction), buffer)


def batches_of(program: Sequence[Instruction]) -> list[list[Instruction]]:
    """The runs of messages that are issued together: between computes and all-reduces, and none of
    them needed by a copy or message behind it in the run.
    """
    batches: list[list[Instruction]] = []
    run: list[Instruction] = []
    for instruction in program:
        is_message = instruction.message is not None
        indices = {other.index for other in run}
        breaks = instruction.kind in ("compute", "all_reduce") or (
            instruction.kind != "wait" and indices.intersection(instruction.waits)
        )
        if run and breaks:
            batches.append(run)
            run = []
        if is_message:
            run.append(instruction)
    return [*batches, run] if run else batches


class OrderedMessages:
    """Over a process group without tags."""

    def __init__(self, link: Link, is_static: bool) -> None:
        self._link = link
        self._tagged = TaggedMessages(link)
        self._is_static = is_static
        self._seen: set[Mode] = set()
        self._mode: Mode = "train"
        self._is_tagged = True
        self._size_of: dict[int, int] = {}
        self._run: list[tuple[Instruction, Packet | None]] = []
        self._ready: dict[int, Packet] = {}

    def begin(self, mode: Mode, program: Sequence[Instruction]) -> None:
        self._mode = mode
        self._is_tagged = mode not in self._seen or not self._is_static
        self._seen.add(mode)
        if self._is_tagged:
            self._tagged.begin(mode, program)
            return
        self._run, self._ready = [], {}
        phases = "F" if mode == "evaluate" else "FBIW"
        self._size_of = {}
        # A pass without backwards has the same batches: their messages of forwards.
        for batch in batches_of(program):
            chosen = [i for i in batch if i.cell.phase in phases]
            self._size_of.update((i.index, len(chosen)) for i in chosen)

    def send(self, instruction: Instruction, packet: Packet) -> None:
        if self._is_tagged:
            self._tagged.send(instruction, packet)
            return
        known = self._known(instruction)
        if known != packet.spec:
            raise PipelineError(
                f"{named(instruction)} holds {packet.spec}, but held {known} before; pass "
                "static_shapes=False if shapes, types or structures change between steps"
            )
        self._add(instruction, packet)

    def receive(self, instruction: Instruction) -> None:
        if self._is_tagged:
            self._tagged.receive(instruction)
        else:
            self._add(instruction, None)

    def take(self, index: int) -> Packet:
        return self._tagged.take(index) if self._is_tagged else self._ready.pop(index)

    def _known(self, instruction: Instruction) -> Spec:
        return self._tagged.specs[self._mode, instruction.message]

    def _add(self, instruction: Instruction, packet: Packet | None) -> None:
        self._run.append((instruction, packet))
        if len(self._run) == self._size_of[instruction.index]:
            self._issue()

    def _issue(self) -> None:
        run, self._run = self._run, []
        calls, buffers = [], []
        for instruction, packet in run:
            if packet is not None:
                buffer = packet.pack(self._link.buffers)
                _prefix(buffer, 0, instruction, 0)
            else:
                size = self._known(instruction).offsets[-1]
                buffer = torch.empty(size, dtype=torch.uint8, device=self._link.buffers)
            buffers.append(buffer)
            call = dist.isend if packet is not None else dist.irecv
            peer = self._link.rank_of(instruction)
            calls.append(dist.P2POp(call, buffer, peer, group=self._link.group))
        what = f"the batch of {', '.join(named(instruction) for instruction, _ in run)}"
        works = self._link.watch.start_call(lambda: dist.batch_isend_irecv(calls), lambda: what)
        observe = self._link.observe
        if observe is not None and self._link.buffers == HOST and len(works) == len(run):
            works = [
                work if packet is not None else observe(instruction, work)
                for work, (instruction, packet) in zip(works, run, strict=True)
            ]
        for work in works:
            self._link.watch.wait(work.wait, lambda: what, buffers)
        for (instruction, packet), buffer in zip(run, buffers, strict=True):
            if packet is None:
                if buffer.device == HOST:  # Elsewhere a look at it would wait for the device.
                    _read_prefix(buffer, instruction)
                given = buffer.to(self._link.device)
                self._ready[instruction.index] = read(given, self._known(instruction))


def messages_over(link: Link, has_tags: bool, is_static: bool) -> Messages:
    """The messages of a process group with tags or without."""
    return TaggedMessages(link) if has_tags else OrderedMessages(link, is_static)
