"""The keys and values of the earlier slices of a microbatch, and their gradients.

For each call of `with_earlier` in the forward of a stage, and each microbatch, a `_Store` has one
tensor to which every slice adds its part. Forwards get the first parts of it without a copy. Later
the store has another tensor, with the gradients that later slices have sent to parts of earlier
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pipesched import Cell

from ..core.batch import TOKENS, has_tokens
from ..core.errors import PipelineError
from ..core.values import flatten, places_of


class _Store:
    """The contents of one tensor of one call in the slices of one microbatch so far."""

    def __init__(self, own: Tensor, dim: int, count: int) -> None:
        self._dim, self._count = dim, count
        shape = list(own.shape)
        shape[dim] *= count
        self.kept = torch.empty(shape, dtype=own.dtype, device=own.device)
        self.sent: Tensor | None = None
        """The gradients of the parts of earlier slices, from later slices."""
        self._ends: dict[int, int] = {}
        self._waiting: set[int] = set()
        """The slices whose forwards have a graph, and whose backwards have not been here."""

    def put(self, own: Tensor, number: int, place: str) -> Tensor:
        """Adds the part of a slice; returns all parts up to it."""
        begin = self._begin(number, place)
        end = begin + own.shape[self._dim]
        wanted = [*self.kept.shape[: self._dim], *self.kept.shape[self._dim + 1 :]]
        found = [*own.shape[: self._dim], *own.shape[self._dim + 1 :]]
        if wanted != found or own.dtype != self.kept.dtype:
            raise PipelineError(
                f"{place}: `with_earlier` got {list(own.shape)} of {own.dtype}, and in slice 0 "
                f"{list(self.kept.shape)} of {self.kept.dtype} for all slices; they may differ in "
                f"dimension {self._dim} alone"
            )
        if end > self.kept.shape[self._dim]:
            self._grow(end)
        # `data` has a separate count of changes: a graph that keeps earlier parts does not take the
        # copy for a change of them.
        self.kept.data.narrow(self._dim, begin, end - begin).copy_(own.detach())
        self._ends[number] = end
        return self.kept.data.narrow(self._dim, 0, end)

    def _begin(self, number: int, place: str) -> int:
        if number == 0:
            return 0
        if number - 1 not in self._ends:
            raise PipelineError(
                f"{place} calls `with_earlier` more often than slice {number - 1} did; stages call "
                "it equally often for each slice, in the same order"
            )
        return self._ends[number - 1]

    def _grow(self, length: int) -> None:
        shape = list(self.kept.shape)
        filled = shape[self._dim]
        shape[self._dim] = max(length, 2 * filled)
        larger = self.kept.new_empty(shape)
        larger.narrow(self._dim, 0, filled).copy_(self.kept)
        self.kept = larger

    def note_graph(self, number: int) -> None:
        self._waiting.add(number)

    def end(self, number: int) -> None:
        self._waiting.discard(number)

    def take(self, gradient: Tensor, number: int) -> Tensor:
        """Keeps the gradients of earlier parts; returns the gradient of the slice."""
        later = [other for other in self._waiting if other > number]
        if later:
            raise PipelineError(
                f"the backward of slice {number} runs before that of slice {max(later)} of the "
                "same microbatch has sent the gradients of its keys and values"
            )
        end = self._ends[number]
        begin = self._ends[number - 1] if number else 0
        if number in self._waiting:
            self._waiting.remove(number)
            self._send(gradient.narrow(self._dim, 0, begin))
        own = gradient.narrow(self._dim, begin, end - begin)
        if self.sent is None or self.sent.shape[self._dim] < end:
            return own
        return own + self.sent.narrow(self._dim, begin, end - begin)

    def _send(self, gradient: Tensor) -> None:
        length = gradient.shape[self._dim]
        if length == 0:
            return
        if self.sent is None:
            self.sent = gradient.clone()
        else:
            self.sent.narrow(self._dim, 0, length).add_(gradient)


class _WithEarlier(torch.autograd.Function):
    """From the part of a slice to all parts up to it."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, store: _Store, number: int, place: str) -> Tensor:
        ctx.store, ctx.number = store, number
        return store.put(own, number, place)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.store.take(gradients[0], ctx.number), None, None, None


@dataclass
class _Kept:
    """State of a microbatch that a stage keeps beyond its slices."""

    stores: dict[tuple[int, int], _Store] = field(default_factory=dict)
    """By number of the call, and of the tensor in it."""
    tokens: dict[int, int] = field(default_factory=dict)
    ended: int = 0


class _Unit:
    """The slice of a microbatch that a stage runs."""

    def __init__(self, kept: _Kept, spared: set[int], at: tuple[int, int], place: str) -> None:
        self.kept, self.place = kept, place
        self._spared = spared
        self.number, self._count = at
        self.calls = 0

    def extend(self, tensors: tuple[Tensor, ...], dim: int) -> list[Tensor]:
        call, self.calls = self.calls, self.calls + 1
        found = []
        for i, own in enumerate(tensors):
            if (call, i) not in self.kept.stores:
                if self.number > 0:
                    raise PipelineError(
                        f"{self.place} calls `with_earlier` more often than slice 0 did; stages "
                        "call it equally often for each slice, in the same order"
                    )
                self.kept.stores[call, i] = _Store(own, dim % own.dim(), self._count)
            store = self.kept.stores[call, i]
            extend: Any = _WithEarlier.apply
            found.append(extend(own, store, self.number, self.place))
            self._spared.update(places_of([store.kept], ()))
            if found[-1].requires_grad:
                store.note_graph(self.number)
        return found


_unit: _Unit | str | None = None
"""The slice that runs here, or why there is none. Autograd calls from its own threads."""


def with_earlier(*tensors: Tensor, dim: int = -2) -> tuple[Tensor, ...]:
    """Keys and values, or other values that a slice needs of all tokens before it: for each tensor
    one with the parts of the earlier slices of the microbatch before it along `dim`.

    A stage calls it equally often for each slice of a microbatch, in the same order; the parts may
    differ in their lengths along `dim`.
    """
    if isinstance(_unit, str):
        raise PipelineError(_unit)
    return tensors if _unit is None else tuple(_unit.extend(tensors, dim))


def first_token() -> int:
    """Returns the number of tokens of the microbatch before the slice that runs."""
    if isinstance(_unit, str):
        raise PipelineError(_unit)
    if _unit is None:
        return 0
    return sum(_unit.kept.tokens[i] for i in range(_unit.number))


@contextmanager
def _running(unit: _Unit | str | None) -> Iterator[None]:
    global _unit
    before, _unit = _unit, unit
    try:
        yield
    finally:
        _unit = before


class Earlier:
    """State of microbatches that the stages of a rank keep beyond their slices."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._kept: dict[tuple[int, int], _Kept] = {}
        self.spared: set[int] = set()
        """Its memory, for code that counts or moves tensors that autograd keeps."""

    def clear(self, spared: set[int]) -> None:
        """Starts a pass, and adds the storages of the earlier slices to its spared ones."""
        self._kept, self.spared = {}, spared

    def tensors(self) -> list[Tensor]:
        stores = [store for kept in self._kept.values() for store in kept.stores.values()]
        sent = [store.sent for store in stores if store.sent is not None]
        return [*(store.kept for store in stores), *sent]

    @contextmanager
    def forward(self, cell: Cell, value: Any) -> Iterator[None]:
        kept = self._kept.setdefault(self._key(cell), _Kept())
        number = cell.microbatch % self.count
        tokens = [t.shape[TOKENS] for t in flatten(value)[0] if has_tokens(t)]
        kept.tokens[number] = tokens[0] if tokens else 0
        unit = _Unit(kept, self.spared, (number, self.count), self.place(cell))
        with _running(unit):
            yield
        made = {call for call, _ in kept.stores}
        if unit.calls < len(made):
            raise PipelineError(
                f"{unit.place} calls `with_earlier` {unit.calls} times, and slice 0 {len(made)} "
                "times; stages call it equally often for each slice, in the same order"
            )

    def backward(self, cell: Cell) -> AbstractContextManager[None]:
        """Runs a backward, in which no forward may run again by itself."""
        return _running(
            f"{self.place(cell)} asks for earlier tokens in its backward, as under "
            "torch.utils.checkpoint; recompute by the R cells of a schedule instead"
        )

    @contextmanager
    def whole(self) -> Iterator[None]:
        with _running(None):
            yield

    def end(self, cell: Cell) -> None:
        """Ends the last use of a slice."""
        key = self._key(cell)
        kept = self._kept[key]
        for store in kept.stores.values():
            store.end(cell.microbatch % self.count)
        kept.ended += 1
        if kept.ended == self.count:
            self.spared -= places_of([store.kept for store in kept.stores.values()], ()).keys()
            del self._kept[key]

    def place(self, cell: Cell) -> str:
        microbatch, number = divmod(cell.microbatch, self.count)
        return f"path {cell.path}, stage {cell.stage}, slice {number} of microbatch {microbatch}"

    def _key(self, cell: Cell) -> tuple[int, int]:
        return cell.stage, cell.microbatch // self.count
