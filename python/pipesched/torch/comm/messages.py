"""Messages between stages, over process groups with tags and without.

With tags (gloo, MPI) every message is sent when its row reaches it, and only its users wait. A
trailer says whether the receiver has the header, so that it can post its buffer before it knows
whether shapes have changed:

    tag + 0   tensors [0 | message | 0]              as the last time
    tag + 0   [1 | message | header size]            as many bytes as the last time, meaningless
    tag + 1   header
    tag + 2   tensors and trailer

Without tags (NCCL) messages find each other by their order. Runs of messages are issued as one
batch each, in the order of the proofs `batched` and `fifo` of `Schedule.verify`, and the runtime
waits for sends at the end of the step. Over gloo each message is issued by itself, and receives
start early. Since a receiver must know sizes before its batch, the first pass of each kind of batch
goes over a group of gloo with tags; at the start of a pass all ranks exchange the shapes of their
inputs, and wait for them before their first message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from pipesched import Cell, Instruction
from pipesched.schedule.program import Passed

from ..core.batch import Mode
from ..core.errors import PipelineError
from ..core.program import early_receives
from ..core.values import HOST, NOTHING, Packet, Spec, read, stamp, tensors_in, words_of
from ..core.watch import Watch
from ..partition.placement import Placement
from ..partition.placement import show as show_stage

# Devices


def device_of(
    placement: Placement, given: torch.device | str | None, is_ordered: bool
) -> torch.device:
    """Returns the device: given, or of the first parameter, or with NCCL the current one."""
    first = next((p.device for m in placement.roots() for p in m.parameters()), None)
    found = torch.device(given) if given is not None else first
    if found is None:
        found = torch.device("cuda" if is_ordered and torch.cuda.is_available() else "cpu")
    if found.type == "cuda" and found.index is None:
        found = torch.device("cuda", torch.cuda.current_device())
    _check_parameters(placement, found)
    return found


def _check_parameters(placement: Placement, device: torch.device) -> None:
    for key, module in placement.modules.items():
        for name, parameter in module.named_parameters():
            if parameter.device != device and not isinstance(parameter, DTensor):
                raise PipelineError(
                    f"{show_stage(key)} has parameter {name!r} on {parameter.device}, and this "
                    f"rank computes on {device}; move its stages to one device before"
                )


def prepare(group: dist.ProcessGroup, device: torch.device, watch: Watch, is_ordered: bool) -> None:
    """Connects the ranks; groups such as NCCL's connect at their first call, of all ranks."""
    if device.type != "cuda":
        return
    torch.cuda.set_device(device)
    if not is_ordered:
        return
    mine = str(torch.cuda.get_device_properties(device).uuid)
    everyone = watch.meet("devices", mine)
    twice = [rank for rank, other in enumerate(everyone) if other == mine]
    if len(twice) > 1:
        raise PipelineError(
            f"ranks {twice} compute on one device ({device} of rank {watch.rank}), which the "
            "backend of the group does not allow; give each its own, by `device` or "
            "torch.cuda.set_device"
        )
    number = torch.zeros(1, device=device)
    what = lambda: "all ranks to connect"
    work: Any = watch.start_call(lambda: dist.all_reduce(number, group=group, async_op=True), what)
    watch.wait_for(number, work, what)
    watch.wait(lambda: torch.cuda.synchronize(device), what)


def await_device(device: torch.device, watch: Watch) -> None:
    """Waits until the device has done all issued work; the host sleeps meanwhile."""
    event = cast(Any, torch.cuda.Event)(blocking=True)
    torch.cuda.current_stream(device).record_event(event)
    watch.wait(event.synchronize, lambda: "the device to finish the step")


TAGS = 32_768
"""The number of tags that MPI guarantees."""
KINDS = 64
"""The number of kinds of batches that messages without tags know."""
Kind = tuple[Mode, tuple[int, ...]]
"""The mode of a pass, and numbers for the shapes of the batches of all ranks."""


def show(instruction: Instruction) -> str:
    return f"message {instruction.message} ({instruction})"


@dataclass
class Link:
    """The process group of a pipeline, and the waits of this rank in it."""

    group: dist.ProcessGroup
    watch: Watch
    device: torch.device
    buffers: torch.device
    """The device on which the process group takes tensors."""
    host: Any = None
    """A ProcessGroupGloo of the same ranks, if the group itself has no tags."""
    observe: Callable[[Instruction, Any], Any] | None = None
    """Wraps the work of a receive into host memory."""
    sending: list[tuple[Sequence[Any], Tensor, Callable[[], str]]] = field(default_factory=list)
    """The sends of a process group without tags from a device, and the sign of their end."""

    def send(self, buffer: Tensor, instruction: Instruction, tag: int) -> None:
        """Sends without waiting; the buffer is kept until it is sent."""
        carrier, peer = self.host or self.group, instruction.peer
        assert peer is not None
        work = self.watch.start_call(
            lambda: carrier.send([buffer], peer, tag), lambda: show(instruction)
        )
        what = lambda: f"the end of {show(instruction)}"
        self.watch.keep(work.wait, buffer, what)

    def move_to_device(self, buffer: Tensor) -> Tensor:
        return buffer if buffer.device.type == self.device.type else buffer.to(self.device)

    def receive(self, buffer: Tensor, instruction: Instruction, tag: int) -> Any:
        """Starts to receive; returns a handle to wait for."""
        carrier, peer = self.host or self.group, instruction.peer
        assert peer is not None
        work = self.watch.start_call(
            lambda: carrier.recv([buffer], peer, tag), lambda: show(instruction)
        )
        return work if self.observe is None else self.observe(instruction, work)

    def wait(
        self,
        works: Sequence[Any],
        buffer: Tensor,
        what: Callable[[], str],
        words: memoryview | None = None,
    ) -> None:
        """Waits for works on a buffer of a group without tags; words: its trailer on the host."""
        if self.buffers != HOST:
            for work in works:  # only the stream of this thread waits
                self.watch.start_call(work.wait, what)
            return

        def wait() -> None:
            for work in works:
                work.wait()

        self.watch.wait(wait, what, buffer, words)

    def keep(self, works: Sequence[Any], buffer: Tensor, what: Callable[[], str]) -> None:
        """Keeps a buffer that a process group without tags sends, until it is sent."""
        if self.buffers == HOST:
            for work in works:
                self.watch.keep(work.wait, buffer, what)
            return
        # Asking a work does not wait for the device.
        self.sending = [s for s in self.sending if not all(w.is_completed() for w in s[0])]
        self.sending.append((works, buffer, what))

    def flush(self) -> None:
        """Lets the device finish its sends before its next work."""
        sending, self.sending = self.sending, []
        for works, buffer, what in sending:
            self.wait(works, buffer, what)

    def rank_of(self, instruction: Instruction) -> int:
        assert instruction.peer is not None
        return dist.get_global_rank(self.group, instruction.peer)


def _check_number(number: int, instruction: Instruction) -> None:
    if number != instruction.message:
        raise PipelineError(f"received message {number} in the place of {show(instruction)}")


class TaggedMessages:
    """The messages of one rank over a process group with tags."""

    has_tags = begins_early = True

    def __init__(self, link: Link, program: Sequence[Instruction]) -> None:
        self._link = link
        self.early = early_receives(program)
        """By index of an instruction: the receives that then start before it."""
        self.known: dict[int | None, Spec] = {}
        """The header of the last message, by its number."""
        self._of_mode: dict[Mode, dict[int | None, Spec]] = {"train": {}, "evaluate": {}}
        self._coming: dict[int, tuple[Instruction, Tensor, memoryview, Any]] = {}

    def begin(self, mode: Mode, program: Sequence[Instruction], batch: Any) -> None:
        self.begin_with(self._of_mode[mode])

    def begin_with(self, known: dict[int | None, Spec]) -> None:
        """Starts a pass whose receivers know these headers."""
        self.known, self._coming = known, {}

    def send(self, instruction: Instruction, packet: Packet) -> None:
        """Sends a value, now or with the batch of its message."""
        message, tag = instruction.message, _tag(instruction)
        assert message is not None
        known = self.known.get(message, NOTHING)
        spec = known if packet.fits(known) else packet.spec()
        buffer = packet.pack(spec, HOST)
        stamp(buffer, 0, message)
        if spec is known or spec == known:
            self._link.send(buffer, instruction, tag)
            return
        header = torch.frombuffer(bytearray(spec.to_bytes()), dtype=torch.uint8)
        notice = torch.zeros(known.nbytes, dtype=torch.uint8)
        stamp(notice, 1, message, header.numel())
        for number, part in enumerate((notice, header, buffer)):
            self._link.send(part, instruction, tag + number)
        self.known[message] = spec

    def receive(self, instruction: Instruction) -> None:
        spec = self.known.get(instruction.message, NOTHING)
        self._coming[instruction.index] = instruction, *self._begin(instruction, 0, spec)

    def coming(self) -> list[Tensor]:
        return [buffer for _, buffer, _, _ in self._coming.values()]

    def take(self, index: int) -> Packet:
        """Waits for the receive with this index, and returns its value once."""
        instruction, buffer, words, work = self._coming.pop(index)
        flag, size = self._finish(instruction, buffer, words, work)
        spec = self.known.get(instruction.message, NOTHING)
        if flag:
            spec = Spec.from_bytes(self._receive_header(instruction, size))
            buffer, words, work = self._begin(instruction, 2, spec)
            self._finish(instruction, buffer, words, work)
            self.known[instruction.message] = spec
        return read(self._link.move_to_device(buffer), spec)

    def finish(self) -> None:
        pass

    def _begin(
        self, instruction: Instruction, part: int, spec: Spec
    ) -> tuple[Tensor, memoryview, Any]:
        """Starts to receive a buffer of a message; returns it with the words of its trailer."""
        buffer = torch.empty(spec.nbytes, dtype=torch.uint8)
        words = words_of(buffer)
        words[1] = 0
        return buffer, words, self._link.receive(buffer, instruction, _tag(instruction) + part)

    def _finish(
        self, instruction: Instruction, buffer: Tensor, words: memoryview, work: Any
    ) -> tuple[int, int]:
        """Waits for a buffer; returns its flag and the size of a header."""
        self._link.watch.wait(work.wait, lambda: show(instruction), buffer, words)
        _check_number(words[1] - 1, instruction)
        return words[0], words[2]

    def _receive_header(self, instruction: Instruction, size: int) -> bytes:
        buffer = torch.empty(size, dtype=torch.uint8)
        work = self._link.receive(buffer, instruction, _tag(instruction) + 1)
        self._link.watch.wait(work.wait, lambda: show(instruction), buffer)
        return buffer.numpy().tobytes()


def _tag(instruction: Instruction) -> int:
    assert instruction.sequence is not None
    return 4 * instruction.sequence % TAGS


def batches_of(program: Sequence[Instruction]) -> list[list[Instruction]]:
    """Returns the runs of messages that are issued together and do not need each other."""
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


def _batch_sizes(program: Sequence[Instruction], mode: Mode) -> dict[int, int]:
    """Returns the number of messages issued together with each, in a pass of this mode."""
    phases = "F" if mode == "evaluate" else "FBIW"
    chosen = [[i for i in batch if i.cell.phase in phases] for batch in batches_of(program)]
    return {i.index: len(batch) for batch in chosen for i in batch}


class OrderedMessages:
    """The same over a process group without tags."""

    has_tags = False

    def __init__(
        self, link: Link, program: Sequence[Instruction], is_static: bool, by_one: bool = False
    ) -> None:
        self._link = link
        self._tagged = TaggedMessages(link, program)
        self._is_static = is_static
        self._by_one = self.begins_early = by_one
        self.early = early_receives(program, in_order=True) if by_one else {}
        self._seen: dict[Kind, dict[int | None, Spec]] = {}
        """The headers that passes of a kind have shown, the latest last, the same on all ranks."""
        self._is_tagged = True
        self._asked: Callable[[], Kind] | None = None
        """Waits for the kind of this pass, until it is known."""
        self._size_of: dict[int, int] = {}
        self._sizes: dict[Mode, dict[int, int]] = {}
        """The sizes of batches in passes of each mode."""
        self._run: list[tuple[Instruction, Packet | None]] = []
        self._coming: dict[int, tuple[Instruction, Tensor, Sequence[Any], Callable[[], str]]] = {}
        """Receives that have started, by index."""

    def begin(self, mode: Mode, program: Sequence[Instruction], batch: Any) -> None:
        if not self._is_static:
            self._is_tagged = True
            self._tagged.begin(mode, program, batch)
            return
        self._run, self._coming = [], {}
        if mode not in self._sizes:
            self._sizes[mode] = _batch_sizes(program, mode)
        self._size_of = self._sizes[mode]
        await_shapes = self._tell_shapes(batch)
        self._asked = lambda: (mode, await_shapes())

    def _decide(self) -> None:
        """Finds out the batches of the messages of this pass, before the first of them."""
        asked, self._asked = self._asked, None
        if asked is None:
            return
        kind = asked()
        self._is_tagged = kind not in self._seen
        self._seen[kind] = known = self._seen.pop(kind, {})
        while len(self._seen) > KINDS:
            del self._seen[next(iter(self._seen))]
        self._tagged.begin_with(known)

    def _tell_shapes(self, batch: Any) -> Callable[[], tuple[int, ...]]:
        """Exchanges numbers that differ if the batch of any rank has other shapes or types."""
        found = [[list(tensor.shape), str(tensor.dtype)] for tensor in tensors_in(batch)]
        digest = hashlib.sha256(json.dumps(found).encode()).digest()
        number = int.from_bytes(digest[:8], "big", signed=True)
        if self._link.watch.size == 1:
            return lambda: (number,)
        mine = torch.tensor([number])
        everyone = [torch.empty_like(mine) for _ in range(self._link.watch.size)]
        what = lambda: "the shapes of the batches of other ranks"
        begin = lambda: self._link.host.allgather([everyone], [mine])
        work = self._link.watch.start_call(begin, what)

        def wait() -> tuple[int, ...]:
            kept = mine, everyone
            self._link.watch.wait(work.wait, what, kept, has_come=work.is_completed)
            return tuple(int(each) for each in everyone)

        return wait

    def send(self, instruction: Instruction, packet: Packet) -> None:
        self._decide()
        if self._is_tagged:
            self._tagged.send(instruction, packet)
            return
        known = self._find_spec(instruction)
        if not packet.fits(known) and known != (spec := packet.spec()):
            raise PipelineError(
                f"{show(instruction)} holds {spec}, but held {known} before with batches of the "
                "same shapes; pass static_shapes=False if they do not say what messages hold"
            )
        self._add(instruction, packet)

    def receive(self, instruction: Instruction) -> None:
        self._decide()
        if self._is_tagged:
            self._tagged.receive(instruction)
        else:
            self._add(instruction, None)

    def coming(self) -> list[Tensor]:
        sending = [buffer for _, buffer, _ in self._link.sending]
        own = [buffer for _, buffer, _, _ in self._coming.values()]
        return [*self._tagged.coming(), *own, *sending]

    def take(self, index: int) -> Packet:
        if self._is_tagged:
            return self._tagged.take(index)
        instruction, buffer, works, what = self._coming.pop(index)
        # Reading a buffer elsewhere would wait for the device.
        words = words_of(buffer) if buffer.device == HOST else None
        self._link.wait(works, buffer, what, words)
        if words is not None:
            _check_number(words[1] - 1, instruction)
        return read(self._link.move_to_device(buffer), self._find_spec(instruction))

    def finish(self) -> None:
        self._decide()
        self._link.flush()

    def _find_spec(self, instruction: Instruction) -> Spec:
        return self._tagged.known[instruction.message]

    def _add(self, instruction: Instruction, packet: Packet | None) -> None:
        self._run.append((instruction, packet))
        if self._by_one or len(self._run) == self._size_of[instruction.index]:
            self._issue()

    def _call(self, instruction: Instruction, is_sent: bool, buffer: Tensor) -> Any:
        """Returns a call that sends or receives, or an entry of a batch."""
        group, peer = self._link.group, instruction.peer
        if not self._by_one:
            call = dist.isend if is_sent else dist.irecv
            return dist.P2POp(call, buffer, self._link.rank_of(instruction), group=group)
        assert peer is not None
        return partial(group.send if is_sent else group.recv, [buffer], peer, 0)

    def _issue(self) -> None:
        run, self._run = self._run, []
        calls: list[Any] = []
        buffers = []
        for instruction, packet in run:
            spec = self._find_spec(instruction)
            assert instruction.message is not None
            if packet is not None:
                buffer = packet.pack(spec, self._link.buffers)
                if buffer.device == HOST:  # the trailer is not read elsewhere
                    stamp(buffer, 0, instruction.message)
            else:
                buffer = torch.empty(spec.nbytes, dtype=torch.uint8, device=self._link.buffers)
                if buffer.device == HOST:
                    words_of(buffer)[1] = 0  # until all is there
            buffers.append(buffer)
            calls.append(self._call(instruction, packet is not None, buffer))
        observe = self._link.observe
        what = lambda: f"the batch of {', '.join(show(each) for each, _ in run)}"
        if self._by_one:
            works = [self._link.watch.start_call(call, what) for call in calls]
        else:
            works = self._link.watch.start_call(lambda: dist.batch_isend_irecv(calls), what)
        # A batch has a work for each message, or one for all of them.
        waits = [[work] for work in works] if len(works) == len(run) else [works] * len(run)
        for (instruction, packet), buffer, own in zip(run, buffers, waits, strict=True):
            if packet is not None:
                self._link.keep(own, buffer, what)
                continue
            if observe is not None and self._link.buffers == HOST and len(own) == 1:
                own = [observe(instruction, own[0])]
            self._coming[instruction.index] = instruction, buffer, own, what


Messages = TaggedMessages | OrderedMessages


At = tuple[int, int]
"""(stage, microbatch)."""


class Boxes:
    """Keeps the values that cells pass to other stages until they are taken or sent."""

    __slots__ = ("_passed",)

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._passed: dict[Passed, Packet] = {}

    def give(self, cell: Cell, packet: Packet) -> None:
        """Stores the output or gradient of a cell, of this rank or received from another one."""
        self._passed[cell.gives] = packet

    def take(self, cell: Cell) -> Packet:
        """Takes out the input of a cell from another stage."""
        return self._pop(cell, cell.takes)

    def pop_sent(self, cell: Cell) -> Packet:
        return self._pop(cell, cell.gives)

    def _pop(self, cell: Cell, key: Passed) -> Packet:
        found = self._passed.pop(key, None)
        if found is None:
            raise PipelineError(f"the program of this rank runs {cell} before what it needs")
        return found

    def behind(self, cell: Cell) -> tuple[Packet | None, str]:
        """Returns the packet that a cell passed to the next one, and its kind in words."""
        if cell.phase in "FBI":
            return self._passed.get(cell.gives), "output" if cell.phase == "F" else "upward"
        return None, ""

    def tensors(self) -> list[Tensor]:
        return [tensor for packet in self._passed.values() for tensor in packet.tensors]
