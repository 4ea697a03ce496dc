"""What messages hold: tensors, tuples, lists and dicts of them, packed into one buffer of bytes.

    | 64 bytes: prefix | tensor 0 | padding | tensor 1 | ...       each at a multiple of 64 bytes

A header (`Spec`) says how the tensors are made of the bytes. It travels by itself, and only when it
is new.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ._errors import PipelineError

ALIGNMENT = 64
"""Bytes; no dtype is larger, so every tensor can be a view of the buffer."""

Node = list[Any]
"""A structure: ["tensor"], ["value", v], ["tuple", nodes], ["list", nodes], ["dict", pairs]."""


# These functions are not nested in those that call them: a function that calls itself is in a cycle
# of references, and would keep tensors and their graphs until the garbage collector runs.


def _take_apart(part: Any, tensors: list[Tensor]) -> Node:
    """The structure of a value, whose tensors it appends."""
    if isinstance(part, Tensor):
        tensors.append(part)
        return ["tensor"]
    if part is None or type(part) in (bool, int, float, str):
        return ["value", part]
    if type(part) in (tuple, list):
        return [type(part).__name__, [_take_apart(each, tensors) for each in part]]
    if type(part) is dict and all(type(key) in (str, int) for key in part):
        return ["dict", [[key, _take_apart(each, tensors)] for key, each in part.items()]]
    raise PipelineError(
        f"found {type(part).__name__} between stages; tensors, None, numbers, strings, and tuples, "
        "lists and dicts (keys: strings or integers) of them can be sent"
    )


def _put_together(node: Node, following: Iterator[Tensor]) -> Any:
    kind = node[0]
    if kind == "tensor":
        return next(following)
    if kind == "value":
        return node[1]
    if kind == "dict":
        return {key: _put_together(each, following) for key, each in node[1]}
    parts = [_put_together(each, following) for each in node[1]]
    return tuple(parts) if kind == "tuple" else parts


def flatten(value: Any) -> tuple[list[Tensor], Node]:
    """The tensors of a value in order, and its structure without them."""
    tensors: list[Tensor] = []
    return tensors, _take_apart(value, tensors)


def unflatten(tensors: Sequence[Tensor], structure: Node) -> Any:
    """The value of that structure with these tensors."""
    return _put_together(structure, iter(tensors))


@dataclass(frozen=True)
class TensorSpec:
    """The shape and type of a tensor, and whether its gradient is wanted."""

    shape: tuple[int, ...]
    dtype: str
    """As in `torch.<dtype>`."""
    requires_grad: bool

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype itself."""
        dtype = getattr(torch, self.dtype)
        assert isinstance(dtype, torch.dtype)
        return dtype

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        count = 1
        for length in self.shape:
            count *= length
        return count * self.torch_dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class Spec:
    """How a value is made of bytes."""

    structure: str
    """The structure as JSON."""
    tensors: tuple[TensorSpec, ...]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the tensors begin, in bytes; the last entry is the size of the buffer."""
        offsets = [ALIGNMENT]
        for tensor in self.tensors:
            end = offsets[-1] + tensor.nbytes
            offsets.append(-(-end // ALIGNMENT) * ALIGNMENT)
        return tuple(offsets)

    def to_bytes(self) -> bytes:
        """The header."""
        rows = [[list(t.shape), t.dtype, t.requires_grad] for t in self.tensors]
        return json.dumps([self.structure, rows]).encode()

    @staticmethod
    def from_bytes(header: bytes) -> Spec:
        """Reads a header."""
        structure, rows = json.loads(header)
        return Spec(structure, tuple(TensorSpec(tuple(s), d, g) for s, d, g in rows))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.tensors))})"


NOTHING = Spec("", ())
"""The header of a message that was not seen yet: only the prefix is sent."""


@dataclass(frozen=True)
class Packet:
    """A value on its way between stages: tensors without graph, and which gradients are wanted."""

    tensors: list[Tensor]
    wants: list[bool]
    structure: Node

    @cached_property
    def spec(self) -> Spec:
        """Its header."""
        specs = []
        for tensor, wanted in zip(self.tensors, self.wants, strict=True):
            if tensor.layout != torch.strided or type(tensor) not in (
                Tensor,
                torch.nn.Parameter,
            ):
                kind = type(tensor).__name__
                raise PipelineError(
                    f"found a {kind} of layout {tensor.layout} between stages; plain dense "
                    "tensors can be sent"
                )
            name = str(tensor.dtype).removeprefix("torch.")
            specs.append(TensorSpec(tuple(tensor.shape), name, wanted))
        return Spec(json.dumps(self.structure), tuple(specs))

    def pack(self, device: torch.device) -> Tensor:
        """The bytes, with a prefix that is still empty."""
        spec = self.spec
        buffer = torch.empty(spec.offsets[-1], dtype=torch.uint8, device=device)
        for place, tensor in zip(views(buffer, spec), self.tensors, strict=True):
            place.copy_(tensor.detach())
        return buffer


def views(buffer: Tensor, spec: Spec) -> list[Tensor]:
    """The tensors that lie in a buffer."""
    return [
        buffer[begin : begin + tensor.nbytes].view(tensor.torch_dtype).view(tensor.shape)
        for begin, tensor in zip(spec.offsets[:-1], spec.tensors, strict=True)
    ]


def read(buffer: Tensor, spec: Spec) -> Packet:
    """What a buffer holds, without a copy."""
    wants = [tensor.requires_grad for tensor in spec.tensors]
    return Packet(views(buffer, spec), wants, json.loads(spec.structure))


def cut(value: Any, count: int, what: str) -> list[Any]:
    """The microbatches of a batch: a list as it is; tensors, and tuples and dicts of them, along
    dimension 0 into equal parts.
    """
    if isinstance(value, list):
        if len(value) != count:
            raise PipelineError(
                f"{what} has {len(value)} entries, wanted {count}, one per microbatch"
            )
        return value
    tensors, structure = flatten(value)
    if not tensors:
        raise PipelineError(f"{what} has no tensors; wanted tensors to cut, or a list of {count}")
    for tensor in tensors:
        if tensor.dim() == 0 or tensor.shape[0] % count or not tensor.shape[0]:
            raise PipelineError(
                f"{what} has a tensor of shape {list(tensor.shape)}, whose dimension 0 cannot be "
                f"cut into {count} equal microbatches; give a list of {count} for unequal ones"
            )
    parts = [tensor.chunk(count) for tensor in tensors]
    return [unflatten([part[i] for part in parts], structure) for i in range(count)]
