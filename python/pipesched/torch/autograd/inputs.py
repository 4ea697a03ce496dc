"""The inputs of a stage, at which its backward ends.

A tensor enters the graph of its stage as the output of a node that does nothing, so that the graph
does not hold it: it is free when the backward no longer needs it, D can move it, and the stage may
change it in place. A stage of this rank that made the tensor is told of the change, so that
autograd notices if that stage has kept it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge

from ..core.errors import PipelineError
from ..core.values import Packet, is_plain, tensors_in

ROOT = torch.empty(0, requires_grad=True)
"""A leaf that makes autograd keep the node; it never gets a gradient."""


def refuse_graphs(batch: Any, what: str) -> None:
    """Refuses a batch that requires a gradient: a pipeline computes none."""
    if any(tensor.requires_grad for tensor in tensors_in(batch)):
        raise PipelineError(
            f"a tensor of {what} requires a gradient, which a pipeline does not compute, so that "
            "what made it would not be trained: let a stage make it, or detach it"
        )


class _Entrance(torch.autograd.Function):
    """Tensors unchanged. Keeps the gradients that arrive."""

    @staticmethod
    def forward(ctx: Any, arrived: list[Any], root: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.arrived = arrived
        ctx.set_materialize_grads(False)
        return tuple([_alias(tensor) for tensor in tensors])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.arrived[:] = gradients
        return (None,) * (2 + len(gradients))


def _alias(tensor: Tensor) -> Tensor:
    """Returns the same memory in a tensor that is not a view and may be changed in place."""
    if is_plain(tensor) and not (tensor.is_conj() or tensor.is_neg() or tensor.is_inference()):
        return tensor.data  # which has a separate count of changes
    tensor = tensor.resolve_conj().resolve_neg()
    empty = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    place = tensor.storage_offset(), tensor.shape, tensor.stride()
    return empty.set_(tensor.untyped_storage(), *place)


class Inputs:
    """The tensors of an input, and the way of gradients to them."""

    __slots__ = ("_arrived", "_overlaps", "_sources", "count", "edges", "tensors", "wanted")

    def __init__(self, tensors: list[Tensor]) -> None:
        self.tensors = tensors
        """Empty once the forward that needs them has run."""
        self.count = len(tensors)
        self.wanted: list[int] = []
        """The numbers of the tensors that need a gradient."""
        self.edges: list[GradientEdge] = []
        """The place where their gradients arrive, unless only whole backwards need it."""
        self._overlaps: dict[int, int] = {}
        """The versions of the tensors that shared memory in the stage that made them."""
        self._arrived: list[Tensor | None] = []
        self._sources: list[tuple[Tensor, Tensor, int]] = []
        """Tensors of the stage before, and the tensors here with their versions."""

    @staticmethod
    def of(packet: Packet, is_training: bool, has_edges: bool) -> Inputs:
        """Returns the input that a stage gets from the one before; `has_edges`: whether edges are
        needed.
        """
        made = Inputs(list(packet.tensors))
        if is_training:
            made.wanted = [number for number, wanted in enumerate(packet.wants) if wanted]
            if made.wanted:
                made._enter(has_edges)
        if packet.overlaps:
            made._overlaps = {number: made.tensors[number]._version for number in packet.overlaps}
        return made

    def _enter(self, has_edges: bool) -> None:
        chosen = [self.tensors[number] for number in self.wanted]
        apply: Any = _Entrance.apply
        entered: Sequence[Tensor] = apply(self._arrived, ROOT, *chosen)
        for number, old, new in zip(self.wanted, chosen, entered, strict=True):
            self.tensors[number] = new
            if has_edges:
                self.edges.append(get_gradient_edge(new))
            self._sources.append((old, new, new._version))

    def gradients(self) -> list[Tensor | None]:
        """Returns the gradients of the wanted tensors after a whole backward."""
        return self._arrived or [None] * len(self.wanted)

    def tell(self) -> None:
        """Tells the tensors of the stage before of changes in place."""
        if self._overlaps:
            now = self._overlaps.items()
            self.check_apart([i for i, version in now if self.tensors[i]._version != version])
        for old, new, version in self._sources:
            if new._version != version:
                with torch.no_grad():
                    old.narrow(0, 0, 0).zero_() if old.dim() else old.mul_(1)
        self._sources = []

    def check_apart(self, changed: Sequence[int]) -> None:
        """Refuses changes in place of tensors that shared memory in the stage that made them."""
        for number in changed:
            if number in self._overlaps:
                others = [other for other in self._overlaps if other != number]
                raise PipelineError(
                    f"a stage changes tensor {number} of its input in place, which has memory in "
                    f"common with tensor {', '.join(map(str, others))} of it, as tensors that are "
                    "one or views of one: they are several here; clone it before"
                )

    def drop(self) -> None:
        self.tensors = []


def listing(found: list[Tensor], device: torch.device) -> Callable[[Tensor], Tensor]:
    """Returns a function that places a tensor of the batch on a device, and lists it."""

    def place(tensor: Tensor) -> Tensor:
        found.append(tensor.detach().to(device))
        return found[-1]

    return place
