"""The activation of one stage and microbatch: the tensors that a worker keeps of its forward, their
place, and the amount that a memory budget allows. Hooks of autograd see every tensor that a forward
keeps. An activation that is offloaded keeps their storages here, each once, so that D and U can
move them, but not parameters, buffers and tensors that the caller of `step` holds.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Collection, Iterator
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
from ..core.values import local
from .backward import WeightBackward
from .inputs import Inputs


def _on(stream: Any) -> AbstractContextManager[Any]:
    return nullcontext() if stream is None else torch.cuda.stream(stream)


class _Entry:
    """A storage."""

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
        """Adds a tensor in the storage, so that it moves with the storage."""
        self._handles.append(weakref.ref(handle))

    @property
    def handles(self) -> list[_Handle]:
        """The tensors in the storage that are still kept."""
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
        """Tensors on the device, one per storage."""
        return [entry.bytes for entry in self._entries if entry.bytes is not None]

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects the tensors that the operations in a block keep."""
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
        """Starts to copy everything back. The copy starts after the program's earlier computes, as
        the table counts memory, and runs in parallel with later computes.
        """
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
        """Whether nothing of it is on the device."""
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
    """The buffers of a stage before a forward that R runs again, such as statistics of a batch
    normalization: they must not count a microbatch twice. Copies of earlier forwards (`known`) are
    used again if nothing has changed.
    """

    def __init__(self, module: nn.Module, known: dict[str, Tensor]) -> None:
        self._module = module
        self._old = self._read()
        for name, value in self._old.items():
            last = known.get(name)
            # On an accelerator the host would wait for the comparison.
            if value.device.type == "cpu" and last is not None and _is_same(last, value):
                self._old[name] = last
        known.update(self._old)

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


def _is_same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


@dataclass
class Recomputation:
    """The state that R needs besides the inputs."""

    random: RandomState
    buffers: Buffers
    versions: list[int]
    """The versions of the inputs."""
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
    """Whether the output is the loss."""
    saved: Saved | None = None
    again: Recomputation | None = None
    weights: WeightBackward | None = None
    """The work that I leaves for W."""
    parts: Any = None
    """The `Forward` of overlap/chain.py, if the stage ran part by part."""

    is_held: bool = False
    """Whether everything that a backward needs exists; false before R."""

    def hold(self, outputs: list[Tensor], is_loss: bool) -> None:
        """Keeps the tensors of F or R that the backward needs; input and outputs only if autograd
        has kept them.
        """
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
        """Raises if these activations exceed a budget of activations."""
        if self._limit is not None and not self.counts_bytes:
            self._check(cell, sum(activation.counts for activation in held), "activations")

    def check_bytes(self, cell: Cell, found: int) -> None:
        """Raises if this many bytes exceed a budget of bytes."""
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
