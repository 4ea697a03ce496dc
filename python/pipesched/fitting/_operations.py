"""The work of PyTorch's operations, from the shapes that its profiler records.

Counts are those of docs/CostModel.md: a multiplication and an addition are two FLOPs; a causal mask
saves nothing; the backward of attention is five products for two. Bytes are what a kernel reads and
writes at least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._samples import ITEM_BYTES, dtype_of


@dataclass(frozen=True)
class Tensor:
    """An argument of an operation."""

    dims: tuple[int, ...]
    dtype: str
    touched: int
    """The number of elements in memory, without those that an expanded dimension repeats."""

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
    """The tensors at these places, if they are there and have this many dimensions."""
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
    """The products over the width of q and over that of v; heads are in dimension `heads_at`."""
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


# What moves bytes


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
