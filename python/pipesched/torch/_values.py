"""What messages hold: tensors, tuples, lists and dicts of them, packed into one buffer of bytes.

    | tensor 0 | padding | tensor 1 | ... | 64 bytes: trailer        each at a multiple of 64 bytes

A header (`Spec`) says how the tensors are made of the bytes. It travels by itself, and only when it
is new. The trailer says which message it is. It comes last, so that its arrival shows that
everything has arrived.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._errors import PipelineError

ALIGNMENT = 64
"""Bytes; no dtype is larger, so every tensor can be a view of the buffer."""
TRAILER = 64
"""Bytes."""
HOST = torch.device("cpu")

Node = tuple[Any, ...]
"""A structure: TENSOR, ("value", its type, its text), ("tuple", nodes), ("list", nodes),
("dict", pairs of key and node). Structures are equal if values and their types are."""
TENSOR: Node = ("tensor",)
_NONE: Node = ("value", "NoneType", "")
_SCALARS = (bool, int, float, str)


# These functions are not nested in their callers: a nested function that calls itself is part of a
# cycle of references, which would keep tensors and their graphs until the garbage collector runs.


def _take_apart(part: Any, tensors: list[Tensor]) -> Node:
    """The structure of a value, whose tensors it appends."""
    if isinstance(part, Tensor):
        tensors.append(part)
        return TENSOR
    if part is None:
        return _NONE
    kind = type(part)
    if kind in _SCALARS:
        return ("value", kind.__name__, part.hex() if kind is float else str(part))
    if kind in (tuple, list):
        return (kind.__name__, tuple([_take_apart(each, tensors) for each in part]))
    if kind is dict and all(type(key) in (str, int) for key in part):
        return ("dict", tuple([(key, _take_apart(each, tensors)) for key, each in part.items()]))
    raise PipelineError(
        f"found {kind.__name__} between stages; tensors, None, numbers, strings, and tuples, "
        "lists and dicts (keys: strings or integers) of them can be sent"
    )


def _put_together(node: Node, following: Iterator[Tensor]) -> Any:
    kind = node[0]
    if kind == "tensor":
        return next(following)
    if kind == "value":
        return _scalar(node[1], node[2])
    if kind == "dict":
        return {key: _put_together(each, following) for key, each in node[1]}
    parts = [_put_together(each, following) for each in node[1]]
    return tuple(parts) if kind == "tuple" else parts


def _scalar(kind: str, text: str) -> Any:
    if kind == "NoneType":
        return None
    if kind == "bool":
        return text == "True"
    if kind == "float":
        return float.fromhex(text)
    return int(text) if kind == "int" else text


def flatten(value: Any) -> tuple[list[Tensor], Node]:
    """The tensors of a value in order, and its structure without them."""
    if isinstance(value, Tensor):
        return [value], TENSOR
    tensors: list[Tensor] = []
    return tensors, _take_apart(value, tensors)


def unflatten(tensors: Sequence[Tensor], structure: Node) -> Any:
    """The value of that structure with these tensors."""
    return tensors[0] if structure is TENSOR else _put_together(structure, iter(tensors))


def _node_of(read: Any) -> Any:
    """A structure from its JSON, in which tuples are lists."""
    if not isinstance(read, list):
        return read
    return TENSOR if read == ["tensor"] else tuple([_node_of(each) for each in read])


class TensorSpec(NamedTuple):
    """The shape and type of a tensor, and whether its gradient is wanted."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        size = self.dtype.itemsize
        for length in self.shape:
            size *= length
        return size

    @property
    def name(self) -> str:
        """The name of its type, as in `torch.<name>`."""
        return str(self.dtype).removeprefix("torch.")

    def __str__(self) -> str:
        return f"{self.name}{list(self.shape)}"


class Spec:
    """How a value is made of bytes."""

    def __init__(self, structure: Node, tensors: tuple[TensorSpec, ...]) -> None:
        self.structure = structure
        self.tensors = tensors

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self.tensors == other.tensors and self.structure == other.structure

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Where each tensor begins and ends, in bytes."""
        places = []
        begin = 0
        for tensor in self.tensors:
            end = begin + tensor.nbytes
            places.append((begin, end))
            begin = -(-end // ALIGNMENT) * ALIGNMENT
        return tuple(places)

    @cached_property
    def nbytes(self) -> int:
        """The size of the buffer."""
        end = self.places[-1][1] if self.places else 0
        return -(-end // ALIGNMENT) * ALIGNMENT + TRAILER

    @cached_property
    def wants(self) -> list[bool]:
        """For which tensors a gradient is wanted."""
        return [tensor.requires_grad for tensor in self.tensors]

    def to_bytes(self) -> bytes:
        """The header."""
        rows = [[list(t.shape), t.name, t.requires_grad] for t in self.tensors]
        return json.dumps([self.structure, rows]).encode()

    @staticmethod
    def from_bytes(header: bytes) -> Spec:
        """Reads a header."""
        structure, rows = json.loads(header)
        tensors = [TensorSpec(tuple(s), getattr(torch, d), g) for s, d, g in rows]
        return Spec(_node_of(structure), tuple(tensors))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.tensors))})"


NOTHING = Spec(("nothing",), ())
"""The header of a message that was not seen yet: only the trailer is sent."""


class Packet:
    """A value on its way between stages: tensors without graph, and which gradients are wanted."""

    __slots__ = ("structure", "tensors", "wants")

    def __init__(self, tensors: list[Tensor], wants: list[bool], structure: Node) -> None:
        self.tensors = tensors
        self.wants = wants
        self.structure = structure

    def spec(self) -> Spec:
        """Its header."""
        specs = []
        for tensor, wanted in zip(self.tensors, self.wants, strict=True):
            kind = type(tensor)
            if kind not in (Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
                raise PipelineError(
                    f"found a {kind.__name__} of layout {tensor.layout} between stages; plain "
                    "dense tensors can be sent"
                )
            specs.append(TensorSpec(tensor.shape, tensor.dtype, wanted))
        return Spec(self.structure, tuple(specs))

    def pack(self, spec: Spec, device: torch.device) -> Tensor:
        """The bytes, with a trailer that is still empty."""
        buffer = torch.empty(spec.nbytes, dtype=torch.uint8, device=device)
        with torch.no_grad():
            for place, tensor in zip(views(buffer, spec), self.tensors, strict=True):
                place.copy_(tensor)
        return buffer


def views(buffer: Tensor, spec: Spec) -> list[Tensor]:
    """The tensors that lie in a buffer."""
    return [
        buffer[begin:end].view(tensor.dtype).view(tensor.shape)
        for (begin, end), tensor in zip(spec.places, spec.tensors, strict=True)
    ]


def read(buffer: Tensor, spec: Spec) -> Packet:
    """What a buffer holds, without a copy."""
    return Packet(views(buffer, spec), spec.wants, spec.structure)


def words_of(buffer: Tensor) -> memoryview:
    """The numbers of the trailer of a buffer in host memory: a flag, the number of the message from
    1, and the size of a header.
    """
    array: Any = buffer.numpy()
    return memoryview(array)[-TRAILER:].cast("q")


def stamp(buffer: Tensor, flag: int, message: int, size: int = 0) -> None:
    """Writes the trailer."""
    if buffer.device == HOST:
        words = words_of(buffer)
        words[0], words[1], words[2] = flag, message + 1, size
        return
    values = torch.tensor([flag, message + 1, size], dtype=torch.int64).view(torch.uint8)
    buffer[-TRAILER : values.numel() - TRAILER].copy_(values)


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
