"""Values between stages: tensors, tuples, lists and dicts of them, packed into one buffer of bytes.

    | tensor 0 | padding | tensor 1 | ... | 64 bytes: trailer         each at a multiple of 64 bytes

A header (`Spec`) describes the tensors in the bytes; it is sent only when it is new. The trailer
identifies the message, and comes last, so that its arrival shows that all has arrived.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .errors import PipelineError

ALIGNMENT = 64
"""Bytes; no dtype is larger, so every tensor can be a view of the buffer."""
TRAILER = 64
HOST = torch.device("cpu")
Node = tuple[Any, ...]
"""A structure: TENSOR, ("value", its type, its text), ("tuple", nodes), ("list", nodes),
("dict" or "ordered", pairs of key and node), ("class", a class, pairs of field and node).
Structures are equal if values and their types are."""
TENSOR: Node = ("tensor",)
_NONE: Node = ("value", "NoneType", "")
_SCALARS = (bool, int, float, str)


class Arguments:
    """Arguments of a stage by position and by name: `Arguments(x, mask=mask)` as a batch, or as the
    result of a stage, makes the stage that gets it run as `stage(x, mask=mask)`.
    """

    __slots__ = ("args", "kwargs")

    def __init__(self, /, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


def _fields(value: Any) -> list[tuple[str, Any]] | None:
    """Returns the fields of a dataclass, a ModelOutput, a named tuple or arguments, else None."""
    kind = type(value)
    if kind is Arguments:
        return [("args", value.args), ("kwargs", value.kwargs)]
    if isinstance(value, tuple) and hasattr(kind, "_fields"):
        return [(name, getattr(value, name)) for name in kind._fields]
    if not dataclasses.is_dataclass(kind):
        return None
    names = [field.name for field in dataclasses.fields(kind)]
    extra = [*getattr(value, "__dict__", ()), *(value if isinstance(value, dict) else ())]
    lost = [name for name in extra if name not in names]
    if lost:
        raise PipelineError(
            f"found a {kind.__qualname__} between stages with {lost[0]!r}, which is not one of its "
            f"fields ({', '.join(names)}), so that it would be lost"
        )
    return [(name, getattr(value, name)) for name in names]


def _make(kind: Any, values: dict[str, Any]) -> Any:
    if kind is Arguments:
        return Arguments(*values["args"], **values["kwargs"])
    if not dataclasses.is_dataclass(kind):
        return kind(**values)
    maker: Any = kind
    given = {f.name: values[f.name] for f in dataclasses.fields(kind) if f.init}
    made = maker(**given)
    for name in values.keys() - given.keys():
        object.__setattr__(made, name, values[name])
    return made


def _name_of_class(kind: type) -> dict[str, str]:
    if "<locals>" in kind.__qualname__:
        raise PipelineError(
            f"found a {kind.__qualname__} between stages of two ranks; define its class in a "
            "module, so that the other rank finds it"
        )
    return {"class": f"{kind.__module__}:{kind.__qualname__}"}


def _class_of(name: str) -> type:
    """Returns the class with a name from another rank. It must be imported here and hold values."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    is_tuple = isinstance(found, type) and issubclass(found, tuple) and hasattr(found, "_fields")
    is_class = isinstance(found, type) and dataclasses.is_dataclass(found)
    if found is Arguments or is_tuple or is_class:
        kind: type = found
        return kind
    raise PipelineError(
        f"a message holds a {path}, which is no dataclass or named tuple in the module {module} of "
        "this rank"
    )


def is_plain(tensor: Tensor) -> bool:
    """Returns whether a tensor is PyTorch's own dense one, with no state besides memory."""
    kind = type(tensor)
    is_own = kind is Tensor or kind is torch.nn.Parameter
    return is_own and tensor.layout is torch.strided and not tensor.is_nested


@contextmanager
def in_mode(modules: Iterable[Any], is_training: bool) -> Iterator[None]:
    """Runs a block with modules in training or in evaluation mode, each by itself."""
    modes = [(module, module.training) for module in modules]
    try:
        for module, _ in modes:
            module.training = is_training
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def map_tensors(value: Any, function: Callable[[Tensor], Any]) -> Any:
    """Returns a value with each tensor in its containers replaced by the function."""
    if isinstance(value, Tensor):
        return function(value)
    kind = type(value)
    if kind in (tuple, list):
        return kind([map_tensors(each, function) for each in value])
    if kind in (dict, OrderedDict):
        return kind([(key, map_tensors(each, function)) for key, each in value.items()])
    fields = _fields(value)
    if fields is None:
        return value
    return _make(kind, {name: map_tensors(each, function) for name, each in fields})


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yields the tensors in a value, among any other contents."""
    if isinstance(value, Tensor):
        yield value
        return
    parts: Any = ()
    if isinstance(value, (tuple, list)):
        parts = value
    elif isinstance(value, dict):
        parts = value.values()
    elif (fields := _fields(value)) is not None:
        parts = [each for _, each in fields]
    for part in parts:
        yield from tensors_in(part)


# These functions are not nested in their callers: a nested function that calls itself is part of a
# cycle of references, which would keep tensors and their graphs until the garbage collector runs.
def _take_apart(part: Any, tensors: list[Tensor]) -> Node:
    """Returns the structure of a value, whose tensors it appends."""
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
    if kind in (dict, OrderedDict) and all(type(key) in (str, int) for key in part):
        name = "dict" if kind is dict else "ordered"
        return (name, tuple([(key, _take_apart(each, tensors)) for key, each in part.items()]))
    fields = _fields(part)
    if fields is not None:
        return ("class", kind, tuple([(key, _take_apart(each, tensors)) for key, each in fields]))
    raise PipelineError(
        f"found {kind.__name__} between stages; tensors, None, numbers, strings, and tuples, "
        "lists, dicts (keys: strings or integers), dataclasses and Arguments of them can be sent"
    )


def _put_together(node: Node, following: Iterator[Tensor]) -> Any:
    kind = node[0]
    if kind == "tensor":
        return next(following)
    if kind == "value":
        return _scalar(node[1], node[2])
    if kind in ("dict", "ordered"):
        pairs = [(key, _put_together(each, following)) for key, each in node[1]]
        return dict(pairs) if kind == "dict" else OrderedDict(pairs)
    if kind == "class":
        return _make(node[1], {key: _put_together(each, following) for key, each in node[2]})
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
    """Returns the tensors of a value in order, and its structure without them."""
    if isinstance(value, Tensor):
        return [value], TENSOR
    tensors: list[Tensor] = []
    return tensors, _take_apart(value, tensors)


def unflatten(tensors: Sequence[Tensor], structure: Node) -> Any:
    """Returns the value of that structure with these tensors."""
    return tensors[0] if structure is TENSOR else _put_together(structure, iter(tensors))


def _node_of(read: Any) -> Any:
    """Returns a structure from its JSON, in which tuples are lists and classes have names."""
    if isinstance(read, dict):
        return _class_of(read["class"])
    if not isinstance(read, list):
        return read
    return TENSOR if read == ["tensor"] else tuple([_node_of(each) for each in read])


def _order(tensor: Tensor) -> tuple[int, ...] | None:
    """Returns the strides of a dense tensor such as channels last; None: contiguous."""
    if tensor.is_contiguous():
        return None
    expected = 1
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    for stride, length in sorted(pair for pair in pairs if pair[1] != 1):
        if stride != expected:
            return None
        expected *= length
    return tensor.stride()


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


class TensorSpec(NamedTuple):
    """The shape and type of a tensor, and whether its gradient is wanted."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool
    strides: tuple[int, ...] | None = None
    """None if it is contiguous."""

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    def __str__(self) -> str:
        return f"{self.name}{list(self.shape)}"


@dataclass
class Spec:
    """How a value is made of bytes."""

    structure: Node
    tensors: tuple[TensorSpec, ...]
    overlaps: tuple[int, ...] = ()

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Returns where each tensor starts and ends, in bytes."""
        places = []
        begin = 0
        for tensor in self.tensors:
            end = begin + tensor.nbytes
            places.append((begin, end))
            begin = -(-end // ALIGNMENT) * ALIGNMENT
        return tuple(places)

    @cached_property
    def nbytes(self) -> int:
        end = self.places[-1][1] if self.places else 0
        return -(-end // ALIGNMENT) * ALIGNMENT + TRAILER

    @cached_property
    def layouts(self) -> tuple[tuple[torch.dtype, tuple[int, ...], tuple[int, ...], int], ...]:
        """For each tensor: type, shape, strides, and its first element in the buffer."""
        return tuple(
            (t.dtype, t.shape, t.strides or _contiguous(t.shape), begin // t.dtype.itemsize)
            for (begin, _), t in zip(self.places, self.tensors, strict=True)
        )

    @cached_property
    def wants(self) -> list[bool]:
        return [tensor.requires_grad for tensor in self.tensors]

    def to_bytes(self) -> bytes:
        rows = [[list(t.shape), t.name, t.requires_grad, t.strides] for t in self.tensors]
        parts = [self.structure, rows, self.overlaps]
        return json.dumps(parts, default=_name_of_class).encode()

    @staticmethod
    def from_bytes(header: bytes) -> Spec:
        structure, rows, overlaps = json.loads(header)
        tensors = [
            TensorSpec(tuple(shape), getattr(torch, dtype), wanted, strides and tuple(strides))
            for shape, dtype, wanted, strides in rows
        ]
        return Spec(_node_of(structure), tuple(tensors), tuple(overlaps))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.tensors))})"


NOTHING = Spec(("nothing",), ())
"""The header of a message that was not seen yet: only the trailer is sent."""


@dataclass(slots=True, eq=False)
class Packet:
    """A value on its way between stages: tensors without graph, and which gradients are wanted."""

    tensors: list[Tensor]
    wants: list[bool]
    structure: Node
    overlaps: tuple[int, ...] = ()
    """The numbers of tensors that shared memory in the stage that made them."""

    def spec(self) -> Spec:
        specs = []
        for tensor, wanted in zip(self.tensors, self.wants, strict=True):
            kind = type(tensor)
            if kind not in (Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
                raise PipelineError(
                    f"found a {kind.__name__} of layout {tensor.layout} between stages; plain "
                    "dense tensors can be sent"
                )
            specs.append(TensorSpec(tensor.shape, tensor.dtype, wanted, _order(tensor)))
        return Spec(self.structure, tuple(specs), self.overlaps)

    def fits(self, known: Spec) -> bool:
        """Returns whether this is its header; may be False for tensors that are not contiguous."""
        if len(self.tensors) != len(known.tensors):
            return False
        for tensor, wanted, old in zip(self.tensors, self.wants, known.tensors, strict=True):
            is_same = tensor.shape == old.shape and tensor.dtype is old.dtype
            if not is_same or wanted is not old.requires_grad or old.strides is not None:
                return False
            if not (is_plain(tensor) and tensor.is_contiguous()):
                return False
        return self.structure == known.structure and self.overlaps == known.overlaps

    def pack(self, spec: Spec, device: torch.device) -> Tensor:
        """Returns the bytes, with a trailer that is still empty."""
        buffer = torch.empty(spec.nbytes, dtype=torch.uint8, device=device)
        with torch.no_grad():
            for place, tensor in zip(views(buffer, spec), self.tensors, strict=True):
                place.copy_(tensor)
        return buffer


def views(buffer: Tensor, spec: Spec) -> list[Tensor]:
    """Returns the tensors in a buffer, which are not views: views have one version together."""
    return [
        buffer.view(dtype).as_strided(shape, strides, place).data
        for dtype, shape, strides, place in spec.layouts
    ]


def read(buffer: Tensor, spec: Spec) -> Packet:
    return Packet(views(buffer, spec), spec.wants, spec.structure, spec.overlaps)


def words_of(buffer: Tensor) -> memoryview:
    """Returns the trailer: a flag, the number of the message from 1, the header's size."""
    array: Any = buffer.numpy()
    return memoryview(array)[-TRAILER:].cast("q")


def stamp(buffer: Tensor, flag: int, message: int, size: int = 0) -> None:
    words = words_of(buffer)
    words[0], words[1], words[2] = flag, message + 1, size


def local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def places_of(tensors: Sequence[Tensor], spared: Collection[int]) -> dict[int, int]:
    """Returns the storages of tensors with their bytes, except `spared`."""
    found: dict[int, int] = {}
    for tensor in tensors:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            if storage._cdata not in spared:
                found[storage._cdata] = storage.nbytes()
    return found


class _Extent:
    """The memory of a tensor, for NumPy, which looks only at the addresses."""

    def __init__(self, tensor: Tensor) -> None:
        width = tensor.element_size()
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(tensor.shape),
            "strides": tuple(width * stride for stride in tensor.stride()),
            "typestr": f"|V{width}",
            "data": (tensor.data_ptr(), True),
        }


def overlapping(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """Returns the numbers of the tensors that have elements in common with another one."""
    if len(tensors) < 2:
        return ()
    groups: dict[int, list[int]] = {}
    for number, tensor in enumerate(tensors):
        if tensor.layout == torch.strided and tensor.numel() and not tensor.is_meta:
            groups.setdefault(tensor.untyped_storage()._cdata, []).append(number)
    found: set[int] = set()
    for group in groups.values():
        extents = {i: np.asarray(_Extent(tensors[i])) for i in group} if len(group) > 1 else {}
        for one, other in itertools.combinations(extents, 2):
            if _have_common(extents[one], extents[other]):
                found |= {one, other}
    return tuple(sorted(found))


def have_common(one: Tensor, other: Tensor) -> bool:
    """Returns whether two tensors of one device have elements in common."""
    return _have_common(np.asarray(_Extent(one)), np.asarray(_Extent(other)))


def _have_common(one: Any, other: Any) -> bool:
    most: Any = 10_000  # a limit of the search, after which the tensors count as one
    try:
        return bool(np.shares_memory(one, other, max_work=most))
    except np.exceptions.TooHardError:
        return True


def storages_of(values: Any) -> set[int]:
    found = [tensor for tensor in tensors_in(values) if tensor.layout == torch.strided]
    return {tensor.untyped_storage()._cdata for tensor in found}


def as_sent(output: Tensor, buffered: Collection[int]) -> Tensor:
    """Returns an output without its graph. A buffer is copied: another forward may change it."""
    found = output.detach()
    if not buffered or found.layout != torch.strided:
        return found
    return found.clone() if found.untyped_storage()._cdata in buffered else found


def arguments_of(module: nn.Module, value: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a stage for a value; an nn.Sequential takes a tuple unchanged."""
    if isinstance(value, Arguments):
        return tuple(value.args), dict(value.kwargs)
    is_named = hasattr(type(value), "_fields")
    if isinstance(value, tuple) and not (is_named or isinstance(module, nn.Sequential)):
        return tuple(value), {}
    return (value,), {}


def call(module: nn.Module, value: Any) -> Any:
    if isinstance(value, Tensor):
        return module(value)
    args, kwargs = arguments_of(module, value)
    return module(*args, **kwargs)
