"""Samples from traces of PyTorch's profiler: kernels of operations, copies, collectives."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _collectives
from ._samples import ITEM_BYTES, Found, Sample, dtype_of
from ._trace import Event, Trace

# The work of operations, from the shapes that the profiler records, counted as in
# docs/CostModel.md: a multiplication and an addition are two FLOPs; a causal mask saves nothing;
# the backward of attention is five products for two. Bytes are read and written at least.


@dataclass(frozen=True)
class Tensor:
    """An argument of an operation."""

    dims: tuple[int, ...]
    dtype: str
    touched: int
    """The number of elements in memory. Dimensions that were expanded without a copy count once."""

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    @property
    def bytes(self) -> int:
        return self.touched * self.item


@dataclass(frozen=True)
class Work:
    part: str
    kind: str
    flops: float
    bytes: float
    dtype: str = ""


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Dimensions, which may be text in traces of old versions."""
    if not isinstance(value, list):
        return None
    if not all(isinstance(size, (int, float)) and not isinstance(size, bool) for size in value):
        return None
    if not all(math.isfinite(size) and 0 <= size < 2**53 for size in value):
        return None
    return tuple(int(size) for size in value)


def tensors(args: dict[str, Any]) -> list[Tensor | None]:
    """The arguments that are tensors; None for all others."""
    dims, kinds = args.get("Input Dims"), args.get("Input type", args.get("Input Types"))
    strides = args.get("Input Strides")
    if not isinstance(dims, list) or not isinstance(kinds, list):
        return []
    found: list[Tensor | None] = []
    for at, (value, kind) in enumerate(zip(dims, kinds, strict=False)):
        sizes, dtype = _sizes(value), dtype_of(kind)
        if sizes is None or not dtype:
            found.append(None)
            continue
        steps = strides[at] if isinstance(strides, list) and at < len(strides) else None
        if isinstance(steps, list) and len(steps) == len(sizes):
            there = (size for size, step in zip(sizes, steps, strict=True) if step != 0)
            found.append(Tensor(sizes, dtype, math.prod(there)))
        else:
            found.append(Tensor(sizes, dtype, math.prod(sizes)))
    return found


Tensors = Sequence[Tensor | None]


def _at(given: Tensors, *places: int, rank: int | None = None) -> list[Tensor] | None:
    """Returns the tensors at these places, if they exist and have this many dimensions."""
    chosen = [given[place] if place < len(given) else None for place in places]
    found = [t for t in chosen if t is not None and (rank is None or len(t.dims) == rank)]
    return found if len(found) == len(chosen) else None


# Matrix products


def _product(a: Tensor, b: Tensor, *, added: Tensor | None = None) -> Work | None:
    """[..., m, k] times [..., k, n]."""
    *batch, m, k = a.dims
    if b.dims[-2] != k or list(b.dims[:-2]) != batch:
        return None
    n, batches = b.dims[-1], math.prod(batch)
    out = batches * m * n * (2 if a.dtype == "float8" else a.item)
    moved = a.elements * a.item + b.elements * b.item + out + (added.bytes if added else 0)
    return Work("matrix", "gemm", 2.0 * batches * m * n * k, moved, a.dtype)


def _gemm(given: Tensors, first: int, rank: int) -> Work | None:
    pair = _at(given, first, first + 1, rank=rank)
    return _product(*pair) if pair else None


def _count_added(given: Tensors, rank: int) -> Work | None:
    pair = _at(given, 1, 2, rank=rank)
    return _product(*pair, added=given[0]) if pair else None


def _linear(given: Tensors) -> Work | None:
    pair = _at(given, 0, 1)
    if not pair or len(pair[1].dims) != 2 or not pair[0].dims:
        return None
    x, weight = pair
    if x.dims[-1] != weight.dims[1]:
        return None
    rows = Tensor((math.prod(x.dims[:-1]), x.dims[-1]), x.dtype, x.elements)
    turned = Tensor(weight.dims[::-1], weight.dtype, weight.elements)
    return _product(rows, turned)


def _matmul(given: Tensors) -> Work | None:
    pair = _at(given, 0, 1)
    if not pair or min(len(t.dims) for t in pair) < 2:
        return None
    a, b = pair
    if len(b.dims) == 2:
        rows = Tensor((math.prod(a.dims[:-1]), a.dims[-1]), a.dtype, a.elements)
        return _product(rows, b)
    return _product(a, b)


# Attention


def _attention(given: Tensors, first: int, heads_at: int, products: tuple[int, int]) -> Work | None:
    """The products over the widths of q and of v; heads are in dimension `heads_at`."""
    found = _at(given, first, first + 1, first + 2, rank=4)
    if not found:
        return None
    q, k, v = found
    rows_at = 3 - heads_at
    batch, heads = q.dims[0], q.dims[heads_at]
    scores = batch * heads * q.dims[rows_at] * k.dims[rows_at]
    flops = 2.0 * scores * (products[0] * q.dims[3] + products[1] * v.dims[3])
    out = batch * heads * q.dims[rows_at] * v.dims[3]
    moved = (q.elements + k.elements + v.elements + out) * q.item
    is_forward = products == _FORWARD
    statistics = 4.0 * batch * heads * q.dims[rows_at]
    bytes_ = moved + statistics if is_forward else 2 * moved + statistics
    return Work("matrix", "attention", flops, bytes_, q.dtype)


_FORWARD, _BACKWARD = (1, 1), (3, 2)

_ATTENTION = {
    "aten::_scaled_dot_product_flash_attention": (0, 1, _FORWARD),
    "aten::_scaled_dot_product_flash_attention_for_cpu": (0, 1, _FORWARD),
    "aten::_scaled_dot_product_efficient_attention": (0, 1, _FORWARD),
    "aten::_scaled_dot_product_cudnn_attention": (0, 1, _FORWARD),
    "aten::_cudnn_attention_forward": (0, 1, _FORWARD),
    "aten::_flash_attention_forward": (0, 2, _FORWARD),
    "aten::_efficient_attention_forward": (0, 2, _FORWARD),
    "flash_attn::_flash_attn_forward": (0, 2, _FORWARD),
    "aten::_scaled_dot_product_flash_attention_backward": (1, 1, _BACKWARD),
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": (1, 1, _BACKWARD),
    "aten::_scaled_dot_product_efficient_attention_backward": (1, 1, _BACKWARD),
    "aten::_scaled_dot_product_cudnn_attention_backward": (1, 1, _BACKWARD),
    "aten::_cudnn_attention_backward": (1, 1, _BACKWARD),
    "aten::_flash_attention_backward": (1, 2, _BACKWARD),
    "aten::_efficient_attention_backward": (1, 2, _BACKWARD),
    "flash_attn::_flash_attn_backward": (1, 2, _BACKWARD),
}


# Kernels that move bytes


_POINTWISE = frozenset(
    "add sub mul div neg abs exp log sqrt rsqrt reciprocal pow square sigmoid tanh relu gelu silu "
    "clamp clamp_min clamp_max addcmul addcdiv lerp gelu_backward silu_backward sigmoid_backward "
    "tanh_backward threshold_backward native_dropout_backward _softmax _log_softmax "
    "_softmax_backward_data _log_softmax_backward_data native_layer_norm sin cos erf".split()
)


def _count_written(given: Sequence[Tensor]) -> float:
    """Bytes of the result: all dimensions broadcast, the widest type."""
    rank = max(len(t.dims) for t in given)
    padded = [(1,) * (rank - len(t.dims)) + t.dims for t in given]
    shape = [max(sizes) for sizes in zip(*padded, strict=True)]
    return float(math.prod(shape) * max(t.item for t in given if t.dims or rank == 0))


def _count_moved(name: str, given: Tensors) -> float | None:
    """Bytes that an operation reads and writes; None if that is not known."""
    there = [tensor for tensor in given if tensor is not None]
    if not there or not any(t.elements for t in there):
        return None
    read = float(sum(t.bytes for t in there))
    bare = name.removesuffix("_")
    if bare in ("fill", "zero"):
        return float(there[0].bytes)
    if bare == "copy" and len(there) > 1:
        return read
    if bare == "native_dropout":
        return read + there[0].bytes + there[0].elements
    if bare == "native_layer_norm_backward" and len(there) > 1:
        return read + there[1].bytes
    if bare not in _POINTWISE:
        return None
    in_place = name.endswith("_") and not name.startswith("_")
    return read + (there[0].bytes if in_place else _count_written(there))


def work_of(name: str, args: dict[str, Any]) -> Work | None:
    """The work of an operation of this name with these arguments; None if it is not known."""
    given = tensors(args)
    if not any(given):
        return None
    if name in _ATTENTION:
        return _attention(given, *_ATTENTION[name])
    found = _known_product(name, given)
    if found is not None or name in _PRODUCTS:
        return found if found and found.flops > 0 else None
    namespace, _, bare = name.partition("::")
    moved = _count_moved(bare, given) if namespace == "aten" else None
    return Work("memory", "kernel", 0.0, moved) if moved else None


_PRODUCTS = {
    "aten::mm": lambda given: _gemm(given, 0, 2),
    "aten::_scaled_mm": lambda given: _gemm(given, 0, 2),
    "aten::bmm": lambda given: _gemm(given, 0, 3),
    "aten::addmm": lambda given: _count_added(given, 2),
    "aten::_addmm_activation": lambda given: _count_added(given, 2),
    "aten::addmm_": lambda given: _count_added(given, 2),
    "aten::baddbmm": lambda given: _count_added(given, 3),
    "aten::baddbmm_": lambda given: _count_added(given, 3),
    "aten::linear": _linear,
    "aten::mkldnn_linear": _linear,
    "aten::matmul": _matmul,
}


def _known_product(name: str, given: Tensors) -> Work | None:
    formula = _PRODUCTS.get(name)
    return formula(given) if formula else None


_TRANSFER = re.compile(r"(?:memcpy\s*)?\b(HtoD|DtoH|DtoD|PtoP)\b(.*)", re.IGNORECASE)
MICRO = 1e-6


def samples_of(traces: Sequence[Trace]) -> Found:
    """Returns the samples in the traces of one or several ranks of a job."""
    found = Found()
    for trace in traces:
        found.notes += trace.notes
        has_kernels = bool(trace.of("kernel"))
        operations = _on_device(trace, found) if has_kernels else _on_host(trace, found)
        _work(trace, operations, found)
        _copies(trace, found)
        if not has_kernels and trace.of("operation"):
            _note(
                found,
                "traces without kernels of a GPU: operations are timed on the CPU, without those "
                "that they call",
            )
    found.add(_collectives.samples_of(traces))
    return found


def _note(found: Found, text: str) -> None:
    if text not in found.notes:
        found.notes.append(text)


@dataclass
class _Timed:
    """An operation and the time that it takes without the operations that it calls."""

    event: Event
    seconds: float


# Whose kernel it is


class _Nesting:
    """The operations of a trace, to find the one that encloses a moment."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._threads: dict[tuple[str, str], list[Event]] = {}
        for event in events:
            self._threads.setdefault(event.thread, []).append(event)
        self._parents: dict[int, Event | None] = {}
        self._starts: dict[tuple[str, str], list[float]] = {}
        for thread, spans in self._threads.items():
            spans.sort(key=lambda event: (event.start, -event.duration))
            self._starts[thread] = [span.start for span in spans]
            stack: list[Event] = []
            for span in spans:
                while stack and stack[-1].end <= span.start:
                    stack.pop()
                self._parents[id(span)] = stack[-1] if stack else None
                stack.append(span)

    def parent(self, event: Event) -> Event | None:
        """The event that called it."""
        return self._parents.get(id(event))

    def innermost(self, thread: tuple[str, str], moment: float) -> Event | None:
        """Returns the innermost operation at a moment."""
        at = bisect_right(self._starts.get(thread, []), moment) - 1
        span = self._threads[thread][at] if at >= 0 else None
        while span is not None and span.end < moment:
            span = self.parent(span)
        return span


class _Owners:
    """Which operation launched a kernel: by its external id, its launch, or the range that encloses
    the launch.
    """

    def __init__(self, trace: Trace) -> None:
        self._nesting = _Nesting(trace.of("operation"))
        self._operations: dict[int, Event] = {}
        for event in trace.of("operation"):
            number = event.integer("External id", "External Id")
            if number:
                self._operations[number] = event
        self._launches: dict[int, Event] = {}
        for launch in trace.of("launch"):
            number = launch.integer("correlation")
            if number:
                self._launches[number] = launch

    def of(self, kernel: Event) -> Event | None:
        """The innermost operation."""
        launch = self._launches.get(kernel.integer("correlation") or 0)
        for event in (kernel, launch):
            number = event.integer("External id", "External Id") if event else None
            if number and number in self._operations:
                return self._operations[number]
        return self._nesting.innermost(launch.thread, launch.start) if launch else None

    def with_work(self, operation: Event | None) -> Event | None:
        """Returns the operation, or the nearest of its callers, whose work is known."""
        while operation is not None and work_of(operation.name, operation.args) is None:
            operation = self._nesting.parent(operation)
        return operation


def _on_device(trace: Trace, found: Found) -> list[_Timed]:
    """Returns operations with the time of all their kernels. Kernels without an operation are
    counted as unknown, by name.
    """
    owners = _Owners(trace)
    times: dict[int, _Timed] = {}
    lost = 0
    for kernel in trace.of("kernel"):
        seconds = kernel.duration * MICRO
        found.seconds += seconds
        if _collectives.is_communication(kernel.name):
            continue
        operation = owners.of(kernel)
        if operation is None:
            lost += 1
            found.leave_out(_short(kernel.name), seconds)
            continue
        # A kernel of an operation inside another one, such as a copy in a linear layer, counts for
        # the inner one.
        timed = times.setdefault(id(operation), _Timed(operation, 0.0))
        timed.seconds += seconds
    if lost:
        _note(found, f"{trace.path}: {lost} kernels belong to no operation and are left out")
    return _give_to_callers(times, owners)


def _give_to_callers(times: dict[int, _Timed], owners: _Owners) -> list[_Timed]:
    """Adds the time of operations with unknown work to their caller if that is attention."""
    result: dict[int, _Timed] = {}
    for timed in times.values():
        caller = owners.with_work(timed.event)
        is_attention = caller is not None and "attention" in caller.name
        owner = caller if caller is not None and is_attention else timed.event
        result.setdefault(id(owner), _Timed(owner, 0.0)).seconds += timed.seconds
    return list(result.values())


def _short(name: str) -> str:
    """The name of a kernel without its template arguments."""
    return re.sub(r"<.*", "<>", name.removeprefix("void "))[:60]


def _on_host(trace: Trace, found: Found) -> list[_Timed]:
    """Operations with the time that they spend outside of the operations that they call."""
    operations = trace.of("operation")
    nesting = _Nesting(operations)
    own = {id(event): event.duration for event in operations}
    for event in operations:
        parent = nesting.parent(event)
        if parent is not None:
            own[id(parent)] -= event.duration
    callers = _callers_of_products(operations, nesting)
    timed = []
    for event in operations:
        seconds = max(own[id(event)], 0.0) * MICRO
        found.seconds += seconds
        if id(event) in callers:
            found.leave_out(event.name, seconds)
        elif seconds > 0 and not event.name.startswith(("c10d::", "record_param_comms")):
            timed.append(_Timed(event, seconds))
    return timed


def _callers_of_products(operations: Sequence[Event], nesting: _Nesting) -> set[int]:
    """Returns the operations, such as aten::linear, that call another one for their product."""
    callers: set[int] = set()
    for event in operations:
        work = work_of(event.name, event.args)
        caller = nesting.parent(event) if work and work.part == "matrix" else None
        while caller is not None and id(caller) not in callers:
            callers.add(id(caller))
            caller = nesting.parent(caller)
    return callers


# Its work


def _work(trace: Trace, operations: Sequence[_Timed], found: Found) -> None:
    """Adds a sample for each operation whose work is known."""
    shaped = 0
    for timed in operations:
        event = timed.event
        shaped += "Input Dims" in event.args
        work = work_of(event.name, event.args) if timed.seconds > 0 else None
        if work is None:
            found.leave_out(event.name, timed.seconds)
            continue
        if work.kind == "attention":
            _note(
                found,
                "attention: FLOPs are those of all scores, also under a causal mask, as in the "
                "cost model",
            )
        found.samples.append(
            Sample(
                work.part,
                work.kind,
                timed.seconds,
                work.flops,
                work.bytes,
                dtype=work.dtype,
                name=event.name,
                place=trace.place(event),
            )
        )
    if operations and not shaped:
        _note(
            found,
            f"{trace.path}: no operation has Input Dims; record the trace with record_shapes=True",
        )


def _copies(trace: Trace, found: Found) -> None:
    """Adds samples of copies: to and from pinned memory of the host, and within the device."""
    left: Counter[str] = Counter()
    for event in trace.of("copy"):
        seconds, size = event.duration * MICRO, event.integer("bytes", "Bytes")
        found.seconds += seconds
        match = _TRANSFER.search(event.name)
        if not match or not size or size < 0 or seconds <= 0:
            found.leave_out(event.name, seconds)
            continue
        way, memory = match[1].lower(), match[2].lower()
        if way in ("htod", "dtoh") and "pageable" in memory:
            left[event.name] += 1
            found.leave_out(event.name, seconds)
            continue
        part = {"dtod": "memory", "ptop": "link"}.get(way, "host")
        kind = {"memory": "kernel", "link": "message"}.get(part, "copy")
        moved = 2 * size if part == "memory" else size
        found.samples.append(
            Sample(part, kind, seconds, 0, moved, name=event.name, place=trace.place(event))
        )
    for name, number in left.items():
        _note(
            found, f"{name}: {number} copies are left out; those of schedules go to pinned memory"
        )
