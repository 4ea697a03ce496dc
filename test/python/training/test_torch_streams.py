"""The order of copies, messages and computes on an accelerator, by streams with vector clocks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pipesched
import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
import torch.distributed as dist
from pipesched.torch import PipelineError
from pipesched.torch.autograd.activation import Saved
from pipesched.torch.comm.messages import Link, OrderedMessages, batches_of, device_of, prepare
from pipesched.torch.core.values import TENSOR, Packet
from pipesched.torch.core.watch import Watch
from pipesched.torch.grad_sync.data_parallel import Unit
from pipesched.torch.grad_sync.reduce import Shared
from pipesched.torch.partition.placement import Placement
from pipesched.torch.profiling.record import times_of
from torch import Tensor, nn

Clock = dict[str, int]
"""For each stream, the number of its earlier operations."""


class Stream:
    def __init__(self, name: str, lost: tuple[str, str] | None = None) -> None:
        self.name = name
        self.clock: Clock = {}
        self._lost = lost

    def run(self) -> Clock:
        """An operation; returns all operations up to it."""
        self.clock[self.name] = self.clock.get(self.name, 0) + 1
        return dict(self.clock)

    def record_event(self) -> Event:
        return Event(self.name, dict(self.clock))

    def wait_event(self, event: Event) -> None:
        if (self.name, event.name) != self._lost:
            for name, count in event.clock.items():
                self.clock[name] = max(self.clock.get(name, 0), count)

    def wait_stream(self, other: Stream) -> None:
        self.wait_event(other.record_event())


class Event:
    def __init__(self, name: str, clock: Clock) -> None:
        self.name, self.clock = name, clock

    def query(self) -> bool:
        return False


def is_before(one: Clock, two: Clock) -> bool:
    """Whether an operation ends before another starts, on any machine."""
    return all(count <= two.get(name, 0) for name, count in one.items())


class Device:
    def __init__(self, patch: pytest.MonkeyPatch, lost: tuple[str, str] | None = None) -> None:
        self.streams = {name: Stream(name, lost) for name in ("compute", "D", "U")}
        self.current = self.streams["compute"]
        self.copies: list[Clock] = []
        self.used: list[tuple[int, str]] = []
        """The size of a storage that another stream uses, and the stream."""
        self.allocated: list[tuple[str, int]] = []
        """The streams that asked for memory, and the bytes."""
        empty, copy = torch.empty, Tensor.copy_

        def emptied(*arguments: Any, pin_memory: bool = False, **options: Any) -> Tensor:
            found = empty(*arguments, **options)
            self.allocated.append((self.current.name, found.nbytes))
            return found

        def copied(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
            if to.is_meta:  # a tensor is copied into its message
                self.current.run()
                return copy(to, source)
            assert non_blocking and self.current.name in "DU"
            self.copies.append(self.current.run())
            return copy(to, source)

        def use(tensor: Tensor, stream: Stream) -> None:
            self.used.append((tensor.nbytes, stream.name))

        patch.setattr(torch, "empty", emptied)
        patch.setattr(Tensor, "copy_", copied)
        patch.setattr(Tensor, "record_stream", use)
        patch.setattr(torch.cuda, "current_stream", lambda _: self.current)
        patch.setattr(torch.cuda, "stream", self.on)

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before


def moved(device: Device) -> tuple[list[tuple[Clock, Clock]], Tensor]:
    """The required order of events when an activation leaves and comes back, and for a gradient."""
    streams = device.streams
    weight = torch.full((7,), 2.0, requires_grad=True)
    saved = Saved({weight.untyped_storage()._cdata}, torch.device("cpu"))
    with saved.collecting():
        output = (weight * 3).square().sum()
    forward = streams["compute"].run()
    saved.offload(streams["D"])
    beside = streams["compute"].run()
    saved.reload(streams["U"])
    later = streams["compute"].run()
    saved.await_on_device()
    backward = streams["compute"].run()
    away, back = device.copies
    assert not is_before(away, beside) and not is_before(beside, away)  # One alongside the other.
    assert not is_before(back, later) and not is_before(later, back)
    torch.autograd.backward(output)
    assert weight.grad is not None
    return [(forward, away), (away, back), (back, backward), (beside, back)], weight.grad


def test_copies_wait_for_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    pairs, gradient = moved(device)
    assert all(is_before(one, two) for one, two in pairs)
    assert not any(is_before(two, one) for one, two in pairs)
    assert gradient.tolist() == 7 * [36.0]
    # The allocator must not give memory away that another stream still reads or writes.
    assert device.used == [(28, "D"), (28, "U")]


def test_reloads_use_the_memory_of_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the stream that computes gets memory again that an offload has freed."""
    device = Device(monkeypatch)
    moved(device)
    sizes = [(stream, nbytes) for stream, nbytes in device.allocated if nbytes == 28]
    assert sizes == [("D", 28), ("compute", 28)]  # In host memory, and on the device again.


@pytest.mark.parametrize(
    ("lost", "broken"),
    [(("D", "compute"), 0), (("U", "D"), 1), (("compute", "U"), 2), (("U", "compute"), 3)],
)
def test_each_wait_is_needed(
    monkeypatch: pytest.MonkeyPatch, lost: tuple[str, str], broken: int
) -> None:
    """Without this, streams that never wait for each other could pass."""
    pairs, _ = moved(Device(monkeypatch, lost))
    assert not is_before(*pairs[broken])


def test_memory_is_free_when_the_copy_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    saved = Saved(set(), torch.device("cpu"))
    with saved.collecting():
        (torch.ones(3, requires_grad=True) * 2).square().sum()
    saved.offload(device.streams["D"])
    assert not saved.is_away
    monkeypatch.setattr(Event, "query", lambda _: True)
    assert saved.is_away


# Sums


def test_streams_wait_for_sums_and_the_host_does_not() -> None:
    class Work:
        def wait(self) -> None:
            waiting.append(threading.get_ident())

    watch = Watch(cast(Any, dist).HashStore(), 0, 1, 10.0)
    waiting: list[int] = []
    watch.wait_for(torch.empty(1, device="meta"), Work(), str)
    watch.wait_for(torch.empty(1), Work(), str)
    watch.close()
    # A stream belongs to a thread, so the thread that computes waits for an accelerator; on a host
    # another thread does, since nothing could interrupt this one.
    assert waiting[0] == threading.get_ident() != waiting[1]


# Messages without tags


class Batch:
    """The work of a batch of messages, which run on a separate stream."""

    def __init__(self, device: Device, messages: Stream) -> None:
        self._device = device
        messages.wait_stream(device.current)
        self.clock = messages.run()
        self._end = messages.record_event()
        self.is_over = False

    def wait(self) -> None:
        self._device.current.wait_event(self._end)

    def is_completed(self) -> bool:
        return self.is_over


class Bystander:
    """A watch whose host must not wait."""

    def start_call(self, call: Callable[[], Any], what: Any) -> Any:
        return call()


class Rank:
    """A rank that runs a program and sends over a group that takes tensors of the device."""

    def __init__(
        self, patch: pytest.MonkeyPatch, lost: tuple[str, str] | None = None, family: str = "1f1b"
    ) -> None:
        meta, watch = torch.device("meta"), cast(Any, Bystander())
        self.device = Device(patch, lost)
        self.stream = Stream("messages")
        self.batches: list[Batch] = []
        self.computes: dict[int, Clock] = {}
        self.batch_of: dict[int, Batch] = {}
        self.program = pipesched.generate(family, workers=3, microbatches=5).program(1)
        self.packet = Packet([torch.empty(5, device=meta)], [False], TENSOR)
        self.link = Link(cast(Any, None), watch, meta, meta)
        self.messages = OrderedMessages(self.link, list(self.program), is_static=True)
        specs = {each.message: self.packet.spec() for each in self.program}
        patch.setattr(self.messages, "_seen", {("train", (0,)): specs})
        patch.setattr(self.messages, "_tell_shapes", lambda _: lambda: (0,))
        patch.setattr(self.link, "rank_of", lambda instruction: instruction.peer)
        patch.setattr(dist, "P2POp", lambda call, buffer, peer, group: buffer)
        patch.setattr(dist, "batch_isend_irecv", self._issue)

    def _issue(self, buffers: list[Tensor]) -> list[Batch]:
        self.batches.append(Batch(self.device, self.stream))
        return self.batches[-1:]  # one work for all of a batch, as NCCL gives

    def run(self) -> None:
        self.messages.begin("train", list(self.program), None)
        taken: set[int] = set()
        for each in self.program:
            count = len(self.batches)
            if each.kind == "compute":
                for index in each.waits:
                    if self.program[index].kind == "recv" and index not in taken:
                        self.messages.take(index)
                        taken.add(index)
                self.computes[each.index] = self.device.current.run()
            elif each.kind == "send":
                self.messages.send(each, self.packet)
            else:
                self.messages.receive(each)
            for batch in self.batches[count:]:
                self.batch_of[each.index] = batch

    def issued(self) -> dict[int, Batch]:
        found: dict[int, Batch] = {}
        for run in batches_of(list(self.program)):
            batch = self.batch_of[run[-1].index]
            found.update((each.index, batch) for each in run)
        return found


def test_only_what_uses_a_message_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(monkeypatch)
    rank.run()
    of_message = rank.issued()
    assert len(rank.batches) > 5
    for index, clock in rank.computes.items():
        needed = [of_message[i] for i in rank.program[index].waits if i in of_message]
        assert all(is_before(batch.clock, clock) for batch in needed)
    later = [
        (batch, clock)
        for run in batches_of(list(rank.program))
        for batch in [rank.batch_of[run[-1].index]]
        for index, clock in rank.computes.items()
        if index > run[-1].index and not is_before(batch.clock, clock)
    ]
    assert later  # Some computes run alongside the batch that was issued before them.
    for each in rank.program:  # A batch sends tensors computed before it.
        if each.kind == "send":
            (made,) = (rank.computes[i] for i in each.waits if i in rank.computes)
            assert is_before(made, of_message[each.index].clock)


def test_messages_need_their_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(monkeypatch, lost=("compute", "messages"))
    rank.run()
    assert not any(
        is_before(batch.clock, clock) for batch in rank.batches for clock in rank.computes.values()
    )


def test_sent_buffers_live_until_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = Rank(monkeypatch)
    rank.run()
    sends = sum(each.kind == "send" for each in rank.program)
    assert len(rank.link.sending) == sends  # No send is known to have ended.
    assert len(rank.messages.coming()) == sends
    for batch in rank.batches[:-1]:
        batch.is_over = True
    rank.link.keep(rank.batches[-1:], rank.messages.coming()[0], str)
    assert 0 < len(rank.link.sending) < sends
    rank.messages.finish()
    assert rank.link.sending == []
    last = rank.device.current.run()
    assert all(is_before(batch.clock, last) for batch in rank.batches if not batch.is_over)


# Times and devices


class Timed:
    clock_ms = 0.0

    def __init__(self, enable_timing: bool = False) -> None:
        assert enable_timing
        self.at_ms: float | None = None

    def record(self, stream: Any) -> None:
        self.at_ms = Timed.clock_ms

    def elapsed_time(self, other: Timed) -> float:
        assert self.at_ms is not None and other.at_ms is not None
        return other.at_ms - self.at_ms


def test_recorded_times_are_those_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[str] = []
    monkeypatch.setattr(torch.cuda, "Event", Timed)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: waits.append("begin"))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)
    times = times_of(torch.device("cuda", 0))
    times.begin()
    base, found = time.perf_counter_ns(), []
    for milliseconds in (0.0, 2.0, 5.0):
        Timed.clock_ms = milliseconds
        moment = times.now()
        times.when_known(lambda moment=moment: found.append(times.ns(moment)))  # type: ignore[misc]
        assert found == []  # The host does not wait for the device in a step.
    times.end()
    assert [each - found[0] for each in found] == [0, 2_000_000, 5_000_000]
    assert abs(found[0] - base) < 50_000_000 and waits == ["begin"]
    assert times_of(torch.device("cpu")).ns(7) == 7


class Group:
    """The devices of two ranks, and the calls of a rank before its first message."""

    def __init__(self, patch: pytest.MonkeyPatch, devices: list[str]) -> None:
        self.calls: list[Any] = []
        note, zeros = self.calls.append, torch.zeros

        class Work:
            def wait(self) -> None:
                note("connected")

        class Properties:
            uuid = devices[0]

        def all_reduce(tensor: Tensor, **options: Any) -> Work:
            note("sum")
            return Work()

        patch.setattr(torch.cuda, "set_device", lambda device: note(str(device)))
        patch.setattr(torch.cuda, "synchronize", lambda _: note("synchronized"))
        patch.setattr(torch.cuda, "get_device_properties", lambda _: Properties)
        patch.setattr(torch, "zeros", lambda *sizes, device: zeros(*sizes, device="meta"))
        patch.setattr(dist, "all_reduce", all_reduce)

        class Meeting(Bystander):
            rank = 0

            def meet(self, name: str, saying: Any) -> list[Any]:
                assert saying == devices[0]
                return devices

            def wait_for(self, tensor: Tensor, work: Any, what: Any) -> None:
                work.wait()

            def wait(self, call: Callable[[], Any], what: Any) -> None:
                call()

        self.watch = cast(Any, Meeting())


def test_ranks_connect_before_the_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cuda", 3)
    group = Group(monkeypatch, ["a", "b"])
    prepare(cast(Any, None), device, group.watch, is_ordered=True)
    assert group.calls == ["cuda:3", "sum", "connected", "synchronized"]
    group.calls.clear()
    prepare(cast(Any, None), device, group.watch, is_ordered=False)
    assert group.calls == ["cuda:3"]


def test_two_ranks_on_one_device_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group(monkeypatch, ["a", "a"])
    with pytest.raises(PipelineError, match=r"ranks \[0, 1\] compute on one device"):
        prepare(cast(Any, None), torch.device("cuda", 0), group.watch, is_ordered=True)
    assert "sum" not in group.calls


def test_the_device_of_a_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    schedule = pipesched.generate("1f1b", workers=2, microbatches=2)
    empty = Placement(schedule, 0, {(0, 0): nn.Identity()})
    assert str(device_of(empty, None, is_ordered=True)) == "cuda:2"
    assert str(device_of(empty, None, is_ordered=False)) == "cpu"
    assert str(device_of(empty, "cuda", is_ordered=False)) == "cuda:2"
    held = Placement(schedule, 0, {(0, 0): nn.Linear(2, 2)})
    assert str(device_of(held, None, is_ordered=True)) == "cpu"
    with pytest.raises(PipelineError, match=r"'weight' on cpu, and this rank computes on cuda:2"):
        device_of(held, "cuda", is_ordered=True)


# Gradients


def test_the_host_reads_no_gradient_of_a_device() -> None:
    """Tensors on the device `meta` have no values: an operation that reads one raises."""

    class Work:
        def wait(self) -> None:
            pass

    sums: list[Tensor] = []

    def begin(tensor: Tensor) -> Work:
        sums.append(tensor)
        if tensor.device.type == "cpu":
            tensor.mul_(2)  # The other rank has the same gradients.
        return Work()

    watch = Watch(cast(Any, dist).HashStore(), 0, 1, 10.0)
    small = nn.Parameter(torch.empty(3, device="meta"))
    large = nn.Parameter(torch.empty(1 << 17, device="meta"))
    none = nn.Parameter(torch.empty(5, device="meta"))
    shared = Shared("s", lambda: [small, large, none], begin, (0, 1), lambda _: None)
    shared.begin()
    small.grad, large.grad = torch.empty_like(small), torch.empty_like(large)
    shared.start(watch)
    assert [tensor.device.type for tensor in sums] == ["meta", "cpu"]
    shared.finish(watch, str)
    watch.close()
    assert small.grad is not None and large.grad is not None and none.grad is None


# Shards


class Sharded:
    """A module under `fully_shard` that notes its calls."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **options: None  # the settings for backwards

    def parameters(self) -> list[Tensor]:
        return []

    def unshard(self, async_op: bool = False) -> Sharded:
        assert async_op
        self.notes.append("begin")
        return self

    def wait(self) -> None:
        self.notes.append("wait")

    def reshard(self) -> None:
        self.notes.append("let go")


def test_shards_are_gathered_beside_the_cell_before() -> None:
    notes: list[str] = []
    unit = Unit(cast(Any, Bystander()), torch.device("cuda", 0))
    unit.modules = cast(Any, [Sharded(notes), Sharded(notes)])
    unit.gather_ahead()
    assert notes == ["begin", "begin"]
    unit.gather_ahead()
    unit.gather()
    unit.gather()
    assert notes == ["begin", "begin", "wait", "wait"]
    unit.release()
    assert notes[4:] == ["let go", "let go"]
    unit.gather()
    assert notes[6:] == ["begin", "begin", "wait", "wait"]
    unit.release()
    unit.gather_ahead()  # of a pass that ends before it needs them
    unit.release()
    assert notes[12:] == ["begin", "begin", "wait", "wait", "let go", "let go"]
