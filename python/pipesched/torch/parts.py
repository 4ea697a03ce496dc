"""Layers whose exchanges of experts of one microbatch run alongside compute of another.

A layer with experts has four parts: attention, dispatch, mlp and combine. For an overlapped pair
(`combined-1f1b`, DualPipe), the runtime issues the parts of the forward and of the backward in
turn: while rows of one are on their way to experts, the other computes.

A layer defines its parts by five methods (`LayerInParts`). Each gets the result of the one before
it: a value, or the entries of a tuple. An entry may be an `Exchange`, such as `AllToAll`: it is
started when the part has run, and the runtime waits for it where the next part reads it. That part
gets the rows that have arrived in place of the entry. The gradients of these rows are sent the same
way back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from .core.errors import PipelineError

__all__ = ["AllToAll", "Arriving", "Exchange", "LayerInParts", "Noted", "noted"]

PARTS = ("attention", "dispatch", "mlp", "combine")
"""The parts of a layer, in the order of its forward."""

METHODS = (*PARTS, "output")
"""The methods of a layer that says its parts."""


@dataclass
class Arriving:
    """Rows that are on their way: `rows` is complete when `work` has been waited for. `kept` must
    stay alive until then.
    """

    rows: Tensor
    work: Any
    kept: Any = None


class Exchange:
    """Rows of this rank for other ranks. `rows` has the graph that made them."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def start(self, rows: Tensor) -> Arriving:
        """Sends rows, and returns the arriving ones."""
        raise NotImplementedError

    def start_back(self, gradients: Tensor) -> Arriving:
        """Sends the gradients of received rows, and returns the gradients of the sent rows."""
        raise NotImplementedError


class AllToAll(Exchange):
    """`torch.distributed.all_to_all_single` of rows along dimension 0.

    sends, receives: the number of rows to, and from, each rank of the group.
    """

    def __init__(
        self,
        rows: Tensor,
        sends: Sequence[int],
        receives: Sequence[int],
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__(rows)
        ranks = dist.get_world_size(group)
        for name, counts in (("sends", sends), ("receives", receives)):
            if len(counts) != ranks:
                raise PipelineError(
                    f"{name} of an all-to-all has {len(counts)} numbers; wanted one for each of the"
                    f" {ranks} ranks of its group"
                )
        if sum(sends) != rows.shape[0]:
            raise PipelineError(
                f"an all-to-all sends {sum(sends)} rows, and has {rows.shape[0]}; wanted the same"
            )
        self._sends, self._receives, self._group = list(sends), list(receives), group

    def start(self, rows: Tensor) -> Arriving:
        return self._start(rows, self._sends, self._receives)

    def start_back(self, gradients: Tensor) -> Arriving:
        return self._start(gradients, self._receives, self._sends)

    def _start(self, rows: Tensor, sends: list[int], receives: list[int]) -> Arriving:
        given = rows.contiguous()
        found = given.new_empty((sum(receives), *given.shape[1:]))
        work = dist.all_to_all_single(
            found, given, receives, sends, group=self._group, async_op=True
        )
        return Arriving(found, work, given)


class _Through(torch.autograd.Function):
    """An exchange that is waited for at once, in both directions."""

    @staticmethod
    def forward(ctx: Any, exchange: Exchange, rows: Tensor) -> Tensor:
        ctx.exchange = exchange
        return _waited(exchange.start(rows.detach()))

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, _waited(ctx.exchange.start_back(gradients[0]))


def _waited(arriving: Arriving) -> Tensor:
    arriving.work.wait()
    return arriving.rows


def through(exchange: Exchange) -> Tensor:
    """Returns the rows that come, by plain autograd."""
    rows, exchange.rows = exchange.rows, exchange.rows.detach()
    apply: Any = _Through.apply
    found: Tensor = apply(exchange, rows)
    return found


class LayerInParts(nn.Module):
    """A layer that defines its parts. As a module it runs them one after the other.

    A part must not change its input in place, and passes on everything that later parts need, such
    as the residual: a value that it keeps in the layer would belong to another microbatch.
    """

    def attention(self, value: Any) -> Any:
        """Returns everything up to the rows for experts: attention, norms, the router."""
        raise self._missing("attention")

    def dispatch(self, *values: Any) -> Any:
        """Returns the rows as an `Exchange`, and further values for later parts."""
        raise self._missing("dispatch")

    def mlp(self, *values: Any) -> Any:
        """Returns the experts of this rank, with the rows that have arrived."""
        raise self._missing("mlp")

    def combine(self, *values: Any) -> Any:
        """Returns the results as an `Exchange`, and further values."""
        raise self._missing("combine")

    def output(self, *values: Any) -> Any:
        """Returns the output of the layer, with the results that have come back."""
        raise self._missing("output")

    def _missing(self, part: str) -> PipelineError:
        return PipelineError(
            f"{type(self).__qualname__} has no part {part!r}; a layer in parts has"
            f" {', '.join(METHODS)}"
        )

    def check(self) -> None:
        for part in METHODS:
            if getattr(type(self), part) is getattr(LayerInParts, part):
                raise self._missing(part)

    def forward(self, value: Any) -> Any:
        for name in METHODS:
            entries = entries_of(value, is_part=name != "attention")
            value = getattr(self, name)(*entries)
            if type(value) is tuple:
                value = tuple(through(e) if isinstance(e, Exchange) else e for e in value)
            elif isinstance(value, Exchange):
                value = through(value)
        return value


def entries_of(value: Any, is_part: bool) -> tuple[Any, ...]:
    return value if is_part and type(value) is tuple else (value,)


# Record of parts that ran


@dataclass(frozen=True)
class Noted:
    """The action of the runtime on a part: "runs" it, "starts" or "waits" for its exchange. `layer`
    counts within the stage.
    """

    does: str
    part: str
    phase: str
    stage: int
    microbatch: int
    layer: int

    @property
    def name(self) -> str:
        """`mlp.I`."""
        return f"{self.part}.{self.phase}"


_NOTES: list[list[Noted]] = []


@contextmanager
def noted() -> Iterator[list[Noted]]:
    """Lists the actions of the runtimes of this process on parts of layers inside of the block."""
    notes: list[Noted] = []
    _NOTES.append(notes)
    try:
        yield notes
    finally:
        _NOTES.remove(notes)


def note(*what: Any) -> None:
    for notes in _NOTES:
        notes.append(Noted(*what))
