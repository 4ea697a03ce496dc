"""The activation of one stage and microbatch: its input, the tensors that a worker keeps of its
forward, their place, and the amount that a memory budget allows. Hooks of autograd see every tensor
that a forward keeps. An activation that is offloaded keeps their storages here, each once, so that
D and U can move them, but not parameters, buffers and tensors that the caller of `step` holds.

An input enters the graph of its stage as the output of a node that does nothing, so that the graph
does not hold it: it is free when the backward no longer needs it, D can move it, and the stage may
change it in place. The tensor of a stage before on this rank is then marked as changed,
so that autograd notices if that stage has kept it.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.distributed.tensor import DTensor

from pipesched import Cell

from ..core.errors import MemoryBudgetError, PipelineError
from ..core.random import RandomState
from ..core.values import Packet, is_plain, local, tensors_in
from .backward import WeightBackward


def _on(stream: Any) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)


class _Entry:
    """One storage, on the device or on the host."""

    def __init__(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        self.nbytes = storage.nbytes()
        self.device = tensor.device
        flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        self.bytes: Tensor | None = flat.set_(storage)
        self.host: Tensor | None = None
        # The references are weak, since a handle refers to its entry: a cycle would keep the bytes
        # after the backward.
        self._handles: list[weakref.ref[_Handle]] = []

    def add(self, handle: _Handle) -> None:
        self._handles.append(weakref.ref(handle))

    @property
    def handles(self) -> list[_Handle]:
        return [handle for each in self._handles if (handle := each()) is not None]


class _Handle:
    """A tensor that autograd keeps."""

    def __init__(self, tensor: Tensor, entry: _Entry | None) -> None:
        self.entry = entry
        self.alias: Tensor | None = tensor.detach()
        self.version = tensor._version
        self.dtype = tensor.dtype
        self.layout = (tensor.storage_offset(), tensor.shape, tensor.stride())

    def check(self) -> None:
        """Raises if the tensor was changed in place, as autograd does without hooks."""
        if self.alias is not None and self.alias._version != self.version:
            raise PipelineError(
                f"a tensor of shape {list(self.alias.shape)} that is needed for the backward was "
                f"changed in place: version {self.alias._version}, wanted {self.version}"
            )

    def read(self) -> Tensor:
        self.check()
        if self.alias is not None:
            return self.alias
        if self.entry is None or self.entry.bytes is None:
            raise PipelineError("an activation is in host memory at its backward: no U before it")
        view = torch.empty(0, dtype=self.dtype, device=self.entry.device)
        return view.set_(self.entry.bytes.untyped_storage(), *self.layout)


class _Cut:
    """A DTensor that autograd keeps, whose local part moves."""

    def __init__(self, handle: _Handle, whole: DTensor) -> None:
        self._handle = handle
        self._mesh, self._placements = whole.device_mesh, whole.placements
        self._shape, self._stride = whole.shape, whole.stride()

    def read(self) -> Tensor:
        return DTensor.from_local(
            self._handle.read(),
            self._mesh,
            self._placements,
            run_check=False,
            shape=self._shape,
            stride=self._stride,
        )


class Saved:
    """The storages that the forward of an activation keeps, except `spared`."""

    def __init__(self, spared: set[int], device: torch.device) -> None:
        self._spared = spared
        self._device = device
        self._known: dict[int, _Entry] = {}
        # Weak, since autograd frees tensors that it does not need any more, for example after I.
        self._all: list[weakref.ref[_Entry]] = []
        self._event: Any = None
        self.is_leaving = False
        """Whether a D has started and no U after it."""
        self.on_growth: Callable[[int, int], None] = lambda place, nbytes: None
        """Called with the place and the bytes of each storage that is added."""

    @property
    def _entries(self) -> list[_Entry]:
        return [entry for each in self._all if (entry := each()) is not None]

    @property
    def nbytes(self) -> int:
        """The bytes that are on the device, or on the way to it or from it."""
        return sum(entry.nbytes for entry in self._entries)

    @property
    def storages(self) -> list[Tensor]:
        return [entry.bytes for entry in self._entries if entry.bytes is not None]

    @contextmanager
    def collecting(self) -> Iterator[None]:
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.read()):
            yield
        self._known = {}  # A storage that is gone may leave its address to another one.

    def _pack(self, tensor: Tensor) -> _Handle | _Cut:
        if isinstance(tensor, DTensor):
            return _Cut(self._pack_plain(local(tensor.detach())), tensor)
        return self._pack_plain(tensor)

    def _pack_plain(self, tensor: Tensor) -> _Handle:
        is_plain = tensor.layout == torch.strided and not tensor.is_conj() and not tensor.is_neg()
        if not is_plain or tensor.device != self._device:
            return _Handle(tensor, None)
        key = tensor.untyped_storage()._cdata
        if key in self._spared:
            return _Handle(tensor, None)
        entry = self._known.get(key)
        if entry is None:
            entry = self._known[key] = _Entry(tensor)
            self._all.append(weakref.ref(entry))
            self.on_growth(key, entry.nbytes)
        handle = _Handle(tensor, entry)
        entry.add(handle)
        return handle

    def offload(self, stream: Any) -> None:
        """Starts to copy everything to the host, and releases it on the device."""
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(self._device))
        for entry in self._entries:
            for handle in entry.handles:
                handle.check()
            assert entry.bytes is not None
            with _on(stream):
                entry.host = torch.empty(
                    entry.nbytes, dtype=torch.uint8, pin_memory=stream is not None
                )
                entry.host.copy_(entry.bytes, non_blocking=stream is not None)
            if stream is not None:
                entry.bytes.record_stream(stream)
            entry.bytes = None
            for handle in entry.handles:
                handle.alias = None
        self._event = stream.record_event() if stream is not None else None
        self.is_leaving = True

    def reload(self, stream: Any) -> None:
        """Starts to copy everything back, after the program's earlier computes."""
        entries = self._entries
        for entry in entries:
            entry.bytes = torch.empty(entry.nbytes, dtype=torch.uint8, device=entry.device)
        if stream is not None:
            stream.wait_stream(torch.cuda.current_stream(self._device))
            if self._event is not None:
                stream.wait_event(self._event)
        for entry in entries:
            assert entry.host is not None and entry.bytes is not None
            with _on(stream):
                entry.bytes.copy_(entry.host, non_blocking=stream is not None)
            if stream is not None:
                entry.bytes.record_stream(stream)
            entry.host = None
        self._event = stream.record_event() if stream is not None else None
        self.is_leaving = False

    @property
    def is_away(self) -> bool:
        return self.is_leaving and (self._event is None or self._event.query())

    def join(self) -> None:
        """Blocks this process until the copy that was started last has ended."""
        if self._event is not None:
            self._event.synchronize()

    def await_on_device(self) -> None:
        """Makes later work on the device wait for the copy that was started last."""
        if self._event is not None:
            torch.cuda.current_stream(self._device).wait_event(self._event)


class Buffers:
    """The buffers of a stage before an F that R repeats: no microbatch counts twice."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._old = self._read()

    def _read(self) -> dict[str, Tensor]:
        named = self._module.named_buffers()
        return {name: buffer.detach().clone() for name, buffer in named}

    @contextmanager
    def replay(self) -> Iterator[None]:
        """Runs a block with the old buffers, and then restores the current ones."""
        now = self._read() if self._old else {}
        self._write(self._old)
        try:
            yield
        finally:
            self._write(now)

    def restore(self) -> None:
        self._write(self._old)

    def _write(self, values: dict[str, Tensor]) -> None:
        for name, buffer in self._module.named_buffers():
            if name in values:
                # Use .data, so that a graph that keeps the buffer sees it as unchanged, which it is
                # at the end.
                buffer.data.copy_(values[name])


@dataclass
class Recomputation:
    """The state that R needs besides the inputs."""

    random: RandomState
    buffers: Buffers
    versions: list[int]
    numbers: list[Tensor] | None = None
    """Reference for R's output, in the first step."""


@dataclass(slots=True)
class Activation:
    """The state that a worker holds of one stage and microbatch."""

    value: Any
    """The input of the stage, until the last forward that needs it."""
    inputs: Inputs
    target: Any = None
    roots: list[GradientEdge | None] = field(default_factory=list)
    """Where the gradients of the outputs, or of the loss, start; empty before R and after I."""
    is_loss: bool = False
    saved: Saved | None = None
    again: Recomputation | None = None
    weights: WeightBackward | None = None
    parts: Any = None
    """The `Forward` of overlap/chain.py, if the stage ran part by part."""

    is_held: bool = False
    """Whether everything that a backward needs exists; false before R."""

    def hold(self, outputs: list[Tensor], is_loss: bool) -> None:
        """Keeps the graph of F or R; autograd keeps the tensors that it needs."""
        self.roots = [get_gradient_edge(t) if t.requires_grad else None for t in outputs]
        self.is_loss = is_loss
        self.is_held, self.value, self.target = True, None, None
        self.inputs.drop()

    @property
    def ends(self) -> list[GradientEdge]:
        """The end of the gradients of the graph of its output."""
        if self.parts is None:
            return self.inputs.edges
        return [edge for edge in self.parts.ends if edge is not None]

    def tensors(self) -> list[Tensor]:
        """Returns its tensors on the device, without tensors that autograd keeps elsewhere."""
        weights = self.weights.tensors() if self.weights is not None else []
        saved = self.saved.storages if self.saved is not None else []
        return [*self.inputs.tensors, *saved, *weights]

    @property
    def counts(self) -> bool:
        """Whether it counts as an activation: it is not waiting for R, and not on the host."""
        return self.is_held and not (self.saved is not None and self.saved.is_away)


UNITS = {
    "B": 1,
    **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
}


class Budget:
    """A limit on the number of activations, or on their bytes."""

    def __init__(self, given: int | str | None) -> None:
        self.counts_bytes = isinstance(given, str)
        self._given = given
        self._limit: int | None = None
        if isinstance(given, str):
            found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\w+)", given)
            if found is None or found[2] not in UNITS:
                raise PipelineError(
                    f"memory_budget is {given!r}; wanted a number of activations, or bytes with a "
                    f"unit ({', '.join(UNITS)})"
                )
            self._limit = int(float(found[1]) * UNITS[found[2]])
        elif given is not None:
            self._limit = int(given)

    def check(self, cell: Cell, held: Collection[Activation]) -> None:
        if self._limit is not None and not self.counts_bytes:
            self._check(cell, sum(activation.counts for activation in held), "activations")

    def check_bytes(self, cell: Cell, found: int) -> None:
        if self.counts_bytes:
            self._check(cell, found, "bytes of activations")

    def _check(self, cell: Cell, found: int, unit: str) -> None:
        if self._limit is not None and found > self._limit:
            raise MemoryBudgetError(
                f"{cell} makes this rank hold {found} {unit}; the budget is {self._given}"
            )

    def growing(self, cell: Cell, places: dict[int, int], kept: int) -> Callable[[int, int], None]:
        """Returns a function that checks the bytes when one more storage is kept."""
        total = sum(places.values()) + kept

        def grow(place: int, nbytes: int) -> None:
            nonlocal total
            total += 0 if place in places else nbytes
            self.check_bytes(cell, total)

        return grow


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
        """Returns the input from the stage before; has_edges: whether edges are needed."""
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
