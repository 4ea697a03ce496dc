"""The order of copies and computes on an accelerator, without one: streams that only note what
each of their operations comes after (vector clocks) take the place of those of CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch  # noqa: E402
from pipesched.torch._activation import Saved  # noqa: E402
from torch import Tensor  # noqa: E402

Clock = dict[str, int]
"""For each stream, how many of its operations come before."""


class Stream:
    """A queue of operations."""

    def __init__(self, name: str, lost: tuple[str, str] | None = None) -> None:
        self.name = name
        self.clock: Clock = {}
        self._lost = lost

    def run(self) -> Clock:
        """An operation; returns what comes before it, itself included."""
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
    """A moment of a stream."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name, self.clock = name, clock

    def query(self) -> bool:
        return False


def is_before(one: Clock, two: Clock) -> bool:
    """Whether an operation ends before another begins, on any machine."""
    return all(count <= two.get(name, 0) for name, count in one.items())


class Device:
    """The streams of a device, and what was done on them."""

    def __init__(self, patch: pytest.MonkeyPatch, lost: tuple[str, str] | None = None) -> None:
        self.streams = {name: Stream(name, lost) for name in ("compute", "D", "U")}
        self.current = self.streams["compute"]
        self.copies: list[Clock] = []
        self.used: list[tuple[int, str]] = []
        """The size of a storage that another stream uses, and the stream."""
        empty, copy = torch.empty, Tensor.copy_

        def emptied(*arguments: Any, pin_memory: bool = False, **options: Any) -> Tensor:
            return empty(*arguments, **options)

        def copied(to: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
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
    """What has to be before what when an activation leaves and comes back, and a gradient."""
    streams = device.streams
    weight = torch.full((7,), 2.0, requires_grad=True)
    saved = Saved({weight.untyped_storage()._cdata}, torch.device("cpu"))
    with saved.collecting():
        output = (weight * 3).square().sum()
    forward = streams["compute"].run()
    saved.offload(streams["D"])
    beside = streams["compute"].run()
    saved.reload(streams["U"])
    assert not is_before(beside, device.copies[-1])  # Copies do not wait for other computes.
    saved.await_on_device()
    backward = streams["compute"].run()
    away, back = device.copies
    torch.autograd.backward(output)
    assert weight.grad is not None
    return [(forward, away), (away, back), (back, backward)], weight.grad


def test_copies_wait_for_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    device = Device(monkeypatch)
    pairs, gradient = moved(device)
    assert all(is_before(one, two) for one, two in pairs)
    assert not any(is_before(two, one) for one, two in pairs)
    assert gradient.tolist() == 7 * [36.0]
    # The allocator must not give memory away that another stream still reads or writes.
    assert device.used == [(28, "D"), (28, "compute")]


@pytest.mark.parametrize(
    ("lost", "broken"), [(("D", "compute"), 0), (("U", "D"), 1), (("compute", "U"), 2)]
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
