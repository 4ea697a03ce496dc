"""The parts of a runtime that its executor needs, and the batch of one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from pipesched import Instruction

from ._budget import Budget
from ._messages import Link, Messages, Mode
from ._parallel import Around
from ._placement import Placement
from ._record import Event
from ._shards import Shards
from ._sums import Sums
from ._tokens import Tokens


@dataclass
class Parts:
    """The parts of a runtime that its executor needs."""

    placement: Placement
    program: Sequence[Instruction]
    link: Link
    messages: Messages
    loss: Callable[[Any, Any], Tensor] | None
    sums: Sums
    around: Around
    """The hooks that other pipelines beside this one need."""
    steppers: dict[tuple[int, int], Callable[[], Any]]
    """The functions that O calls, by path and stage."""
    budget: Budget
    stored: Sequence[Tensor]
    """The storages of parameters and buffers, which no offload moves."""
    streams: tuple[Any, Any]
    """The streams of D and U; None without an accelerator."""
    slices: int
    """Into how many slices microbatches are cut. Cells have the slices as microbatches."""
    checks_slices: bool
    """Whether slices are compared with whole microbatches."""
    shards: Shards | None
    """The shard of the head, if the ranks divide it."""
    order: str
    """In which order pairs issue the parts of layers."""


@dataclass
class Batch:
    """The inputs and results of one pass."""

    mode: Mode
    inputs: list[Any] | None
    targets: list[Any] | None
    scaler: Any
    """A GradScaler, or None."""
    number: int
    count: int
    """How many microbatches there are."""
    record: Callable[[Event], Any] | None = None
    note_done: Callable[[int, int], Any] | None = None
    """Called with the index of an instruction that is done, and when in ns."""
    weights: Sequence[float] | None = None
    """The weights of the losses of microbatches; None if they weigh alike."""
    tokens: Tokens | None = None
    """What looks whether they should not."""
    losses: dict[int, Tensor] = field(default_factory=dict)
    outputs: dict[int, Any] = field(default_factory=dict)

    def scaled(self, loss: Tensor, number: int) -> Tensor:
        """The value that is differentiated for the loss of a microbatch."""
        scaled: Tensor = loss if self.scaler is None else self.scaler.scale(loss)
        return scaled / self.count if self.weights is None else scaled * self.weights[number]

    def mean(self) -> Tensor | None:
        """The mean of the losses that this rank has computed."""
        numbers = sorted(self.losses)
        if self.weights is not None:
            numbers = [number for number in numbers if self.weights[number]] or numbers
        if not numbers:
            return None
        losses = torch.stack([self.losses[number].reshape(()) for number in numbers])
        if self.weights is None:
            return losses.mean()
        weights = losses.new_tensor([self.weights[number] for number in numbers])
        return (losses * weights).sum() / weights.sum()
