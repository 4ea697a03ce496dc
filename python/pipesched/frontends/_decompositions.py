"""Operations of PyTorch in terms of operations that come through to linalg.

Scatters do not: PyTorch's own decompositions write the gradient of an embedding and of a choice by
class numbers to places that depend on data. Here both are products with masks of zeros and ones,
and so is each write to places that a tensor of numbers gives.

Operations for which torch-mlir has other formulas than PyTorch are decomposed here too: its GELU
has 22/7 for pi, and its sums of bf16 are rounded at each summand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions, get_decompositions

# Bounds and comparisons that keep NaN, as PyTorch's do

aten = torch.ops.aten


def _maximum(first: Tensor, second: Tensor) -> Any:
    if not (first.is_floating_point() and second.is_floating_point()):
        return NotImplemented
    # One of them is NaN if neither comparison holds, and so is the sum.
    rest = torch.where(second >= first, second, first + second)
    return torch.where(first > second, first, rest)


def _minimum(first: Tensor, second: Tensor) -> Any:
    if not (first.is_floating_point() and second.is_floating_point()):
        return NotImplemented
    rest = torch.where(second <= first, second, first + second)
    return torch.where(first < second, first, rest)


def _clamp(value: Tensor, least: Any = None, most: Any = None) -> Any:
    if not value.is_floating_point():
        return NotImplemented
    for bound, is_outside in ((least, torch.lt), (most, torch.gt)):
        if bound is not None:
            limit = torch.full((), bound, dtype=value.dtype)
            value = torch.where(is_outside(value, limit), limit, value)
    return value


def _clamp_to_tensors(value: Tensor, least: Any = None, most: Any = None) -> Any:
    if not value.is_floating_point():
        return NotImplemented
    value = value if least is None else _maximum(value, least)
    return value if most is None else _minimum(value, most)


def _hardtanh(value: Tensor, least: float = -1, most: float = 1) -> Any:
    return _clamp(value, least, most)


def _elu(value: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    grown = torch.expm1(value * input_scale) * (alpha * scale)
    return torch.where(value > 0, value * scale, grown)


def _leaky_relu(value: Tensor, slope: float = 0.01) -> Tensor:
    return torch.where(value > 0, value, value * slope)


def _equal(first: Tensor, second: Tensor) -> Any:
    return ~torch.isnan(first) if first is second else NotImplemented


BOUNDS: dict[Any, Callable[..., Any]] = {
    aten.maximum.default: _maximum,
    aten.minimum.default: _minimum,
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp_to_tensors,
    aten.hardtanh.default: _hardtanh,
    aten.elu.default: _elu,
    aten.leaky_relu.default: _leaky_relu,
    aten.eq.Tensor: _equal,
}


def _mask(numbers: Tensor, count: int, dtype: torch.dtype, ignored: int) -> Tensor:
    """Returns a row for each class number, with a one at the place of the class; the row of the
    ignored number has none.
    """
    places = torch.arange(count, device=numbers.device)
    found = (numbers.unsqueeze(-1) == places) & (numbers != ignored).unsqueeze(-1)
    return found.to(dtype)


def _embedding_gradient(
    gradient: Tensor, numbers: Tensor, count: int, padding: int, by_frequency: bool
) -> Tensor:
    if by_frequency:
        raise NotImplementedError("scale_grad_by_freq of an embedding")
    mask = _mask(numbers.reshape(-1), count, gradient.dtype, padding)
    return mask.t() @ gradient.reshape(-1, gradient.shape[-1])


def _weights(target: Tensor, weight: Tensor | None, mask: Tensor, ignored: int) -> Tensor:
    """Returns the weight of each row."""
    if weight is None:
        return (target != ignored).to(mask.dtype)
    return mask @ weight


def _nll_loss(
    scores: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignored: int
) -> tuple[Tensor, Tensor]:
    rows, numbers = scores.reshape(-1, scores.shape[-1]), target.reshape(-1)
    mask = _mask(numbers, rows.shape[-1], rows.dtype, ignored)
    counts = _weights(numbers, weight, mask, ignored)
    losses = -(rows * mask).sum(-1) * counts
    total = counts.sum()
    if reduction == 0:
        return losses.reshape(target.shape), total
    return (losses.sum() / total if reduction == 1 else losses.sum()), total


def _nll_loss_gradient(
    gradient: Tensor,
    scores: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignored: int,
    total: Tensor,
) -> Tensor:
    rows, numbers = scores.reshape(-1, scores.shape[-1]), target.reshape(-1)
    mask = _mask(numbers, rows.shape[-1], rows.dtype, ignored)
    counts = _weights(numbers, weight, mask, ignored)
    if reduction == 1:
        gradient = gradient / total
    if reduction == 0:
        counts = counts * gradient.reshape(-1)
        gradient = torch.ones((), dtype=rows.dtype)
    return (mask * (-counts * gradient).unsqueeze(-1)).reshape(scores.shape)


def _squeeze(value: Tensor, dimensions: list[int]) -> Tensor:
    found = {number % max(value.dim(), 1) for number in dimensions}
    kept = [n for i, n in enumerate(value.shape) if i not in found or n != 1]
    return value.reshape(kept)


def _empty(size: list[int], _: list[int], **options: Any) -> Tensor:
    return torch.full(size, 0, dtype=options.get("dtype"))


def _eye(rows: int, columns: int | None = None, **options: Any) -> Tensor:
    count = rows if columns is None else columns
    found = torch.arange(rows).unsqueeze(-1) == torch.arange(count)
    return found.to(options.get("dtype") or torch.get_default_dtype())


def _roll(value: Tensor, shifts: list[int], dimensions: list[int] | None = None) -> Tensor:
    if not dimensions:
        return _roll(value.flatten(), shifts, [0]).reshape(value.shape)
    for shift, dimension in zip(shifts, dimensions, strict=True):
        size = value.shape[dimension]
        cut = -shift % max(size, 1)
        if cut:
            parts = value.narrow(dimension, cut, size - cut), value.narrow(dimension, 0, cut)
            value = torch.cat(parts, dimension)
    return value


def _pad(value: Tensor, amounts: list[int], number: complex = 0) -> Any:
    """Pads a tensor. Negative amounts become slices."""
    if min(amounts, default=0) >= 0:
        return NotImplemented
    for place, amount in enumerate(amounts):
        dimension = value.dim() - 1 - place // 2
        if amount < 0:
            start = -amount if place % 2 == 0 else 0
            value = value.narrow(dimension, start, value.shape[dimension] + amount)
    kept = [max(amount, 0) for amount in amounts]
    return aten.constant_pad_nd(value, kept, number) if any(kept) else value.clone()


# Sums

_NARROW = (torch.bfloat16, torch.float16)


def _sum(
    value: Tensor,
    dimensions: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """Sums; narrow numbers are summed in float32, as PyTorch does."""
    kind = dtype or value.dtype
    if kind not in _NARROW:
        return NotImplemented
    return torch.sum(value.float(), dimensions, keepdim).to(kind)


def _mean(
    value: Tensor,
    dimensions: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    kind = dtype or value.dtype
    wide = torch.float32 if kind in _NARROW else kind
    found = torch.sum(value.to(wide), dimensions, keepdim)
    return (found / _count(value, dimensions)).to(kind)


def _count(value: Tensor, dimensions: list[int] | None) -> int:
    """Returns the number of elements that each result sums up."""
    if not dimensions:
        return value.numel()
    return math.prod(value.shape[dimension] for dimension in dimensions)


def _var_mean(
    value: Tensor,
    dimensions: list[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    kept = list(dimensions) if dimensions else list(range(value.dim()))
    wide = value.float() if value.dtype in _NARROW else value
    count = _count(value, kept)
    first = wide
    for dimension in kept if count else ():
        first = first.narrow(dimension, 0, 1)
    # Equal values have a variance of 0, at which the gradient of their deviation jumps.
    moved = wide - first if count else wide
    rest = max(count - (1 if correction is None else correction), 0)
    squares = (moved - moved.sum(kept, keepdim=True) / count).square().sum(kept, keepdim)
    variance = squares / rest if rest else squares / torch.zeros((), dtype=wide.dtype)
    mean = wide.sum(kept, keepdim) / count
    return variance.to(value.dtype), mean.to(value.dtype)


def _var(value: Tensor, dimensions: list[int] | None = None, **options: Any) -> Tensor:
    return _var_mean(value, dimensions, **options)[0]


def _before(value: Tensor, dimension: int) -> tuple[Tensor, Tensor]:
    """Returns the value with one more dimension before `dimension`, and for each place a mask of
    the elements up to it.
    """
    dimension %= value.dim()
    size = value.shape[dimension]
    places = torch.arange(size)
    mask = places.unsqueeze(-1) >= places
    rest = value.dim() - 1 - dimension
    return value.unsqueeze(dimension), mask.reshape(size, size, *[1] * rest)


def _cumsum(value: Tensor, dimension: int, *, dtype: torch.dtype | None = None) -> Tensor:
    kind = dtype or (value.dtype if value.is_floating_point() else torch.int64)
    value = value.to(kind)
    if not value.dim():
        return value.clone()
    every, mask = _before(value, dimension)
    return torch.where(mask, every, 0).sum(dimension % value.dim() + 1, dtype=kind)


def _cumprod(value: Tensor, dimension: int, *, dtype: torch.dtype | None = None) -> Tensor:
    kind = dtype or (value.dtype if value.is_floating_point() else torch.int64)
    value = value.to(kind)
    if not value.dim():
        return value.clone()
    every, mask = _before(value, dimension)
    wide = every.float() if kind in _NARROW else every
    return torch.where(mask, wide, 1).prod(dimension % value.dim() + 1).to(kind)


def _logcumsumexp(value: Tensor, dimension: int) -> Tensor:
    if not value.dim():
        return value.clone()
    every, mask = _before(value, dimension)
    return torch.where(mask, every, -math.inf).logsumexp(dimension % value.dim() + 1)


def _to_copy(value: Tensor, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Converts; float64 becomes narrow by way of float32, as PyTorch rounds."""
    if value.dtype != torch.float64 or dtype not in _NARROW:
        return NotImplemented
    return value.to(torch.float32).to(dtype)


# Writes to places that numbers say


def _last(mask: Tensor, dimension: int) -> Tensor:
    """The mask of only the last place along a dimension that the mask has."""
    count = mask.shape[dimension]
    rest = mask.dim() - 1 - dimension
    places = torch.arange(count).reshape(count, *[1] * rest)
    return mask & (torch.where(mask, places, -1).amax(dimension, keepdim=True) == places)


def _find_places(value: Tensor, dimension: int, index: Tensor) -> Tensor:
    """Returns for each entry of `index` a mask of the places of `value` to which it writes."""
    count = value.shape[dimension]
    places = torch.arange(count).reshape(count, *[1] * (index.dim() - dimension))
    return index.unsqueeze(dimension) == places


def _grow(value: Tensor, like: Tensor, number: float = 0) -> Tensor:
    """Adds rows at the ends of dimensions in which `like` is larger."""
    amounts: list[int] = []
    for size, wanted in zip(reversed(value.shape), reversed(like.shape), strict=True):
        amounts += [0, wanted - size]
    return torch.nn.functional.pad(value, amounts, value=number) if any(amounts) else value


def _shrink(value: Tensor, like: Tensor) -> Tensor:
    for dimension, size in enumerate(like.shape):
        value = value.narrow(dimension, 0, size)
    return value


def _scatter_add(value: Tensor, dimension: int, index: Tensor, source: Tensor) -> Tensor:
    dimension %= value.dim()
    mask = _find_places(value, dimension, index)
    added = torch.where(mask, _shrink(source, index).unsqueeze(dimension), 0).sum(dimension + 1)
    return value + _grow(added, value)


def _scatter(value: Tensor, dimension: int, index: Tensor, source: Any) -> Tensor:
    dimension %= value.dim()
    mask = _find_places(value, dimension, index)
    written = _grow(mask.any(dimension + 1).to(torch.int8), value) != 0
    if not isinstance(source, Tensor):
        return torch.where(written, torch.full((), source, dtype=value.dtype), value)
    chosen = _last(mask, dimension + 1)
    given = torch.where(chosen, _shrink(source, index).unsqueeze(dimension), 0)
    return torch.where(written, _grow(given.sum(dimension + 1), value), value)


def _index_put(
    value: Tensor,
    indices: list[Tensor | None],
    source: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:
    given = [(place, each) for place, each in enumerate(indices) if each is not None]
    if any(each.dtype == torch.bool for _, each in given):
        return _put_masked(value, given, source, accumulate)
    places = [place for place, _ in given]
    rest = [place for place in range(value.dim()) if place not in places]
    numbers = torch.broadcast_tensors(  # type: ignore[no-untyped-call]
        *(each for _, each in given)
    )
    flat = torch.zeros((), dtype=torch.int64)
    for place, number in zip(places, numbers, strict=True):
        size = value.shape[place]
        number = number.to(torch.int64)
        flat = flat * size + torch.where(number < 0, number + size, number)
    front = places[0] if places == list(range(places[0], places[-1] + 1)) else 0
    shape = [value.shape[place] for place in rest]
    shape[front:front] = flat.shape
    source = source.expand(shape).movedim(
        list(range(front, front + flat.dim())), list(range(flat.dim()))
    )
    sizes = [value.shape[place] for place in places + rest]
    rows = value.permute(places + rest).reshape(math.prod(sizes[: len(places)]), -1)
    mask = _find_places(rows, 0, flat.reshape(-1))
    written = (mask if accumulate else _last(mask, 1)).to(source.dtype)
    made = written @ source.reshape(mask.shape[1], -1)
    made = rows + made if accumulate else torch.where(mask.any(1, keepdim=True), made, rows)
    back = [(places + rest).index(place) for place in range(value.dim())]
    return made.reshape(sizes).permute(back)


def _put_masked(
    value: Tensor, given: list[tuple[int, Tensor]], source: Tensor, accumulate: bool
) -> Tensor:
    """Writes one number to the places of a mask."""
    (place, mask), *others = given
    if others or place or source.numel() != 1:
        raise NotImplementedError("writing tensors to the places of a mask")
    mask = mask.reshape(*mask.shape, *[1] * (value.dim() - mask.dim()))
    source = source.reshape(())
    return torch.where(mask, value + source if accumulate else source, value)


def _diagonal_scatter(
    value: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    moved = value.movedim((dim1, dim2), (0, 1))
    steps = torch.arange(source.shape[-1])
    index = [steps + max(-offset, 0), steps + max(offset, 0)]
    return _index_put(moved, [*index], source.movedim(-1, 0)).movedim((0, 1), (dim1, dim2))


def _replication_gradient(gradient: Tensor, value: Tensor, amounts: list[int]) -> Tensor:
    for place, before in enumerate(amounts[::2]):
        dimension = value.dim() - 1 - place
        size = value.shape[dimension]
        numbers = (torch.arange(gradient.shape[dimension]) - before).clamp(0, size - 1)
        zeros = torch.zeros(size, dtype=gradient.dtype)
        rows = gradient.movedim(dimension, 0)
        zeros = zeros.reshape(size, *[1] * (rows.dim() - 1)).expand(size, *rows.shape[1:])
        gradient = _index_put(zeros, [numbers], rows, accumulate=True).movedim(0, dimension)
    return gradient


# Windows


def _unpool(gradient: Tensor, shares: list[Tensor]) -> Tensor:
    """Returns the gradient of means over windows; `shares` has by dimension the weights of places
    in windows.
    """
    for number, share in enumerate(shares):
        dimension = gradient.dim() - len(shares) + number
        found = gradient.movedim(dimension, -1) @ share.to(gradient.dtype)
        gradient = found.movedim(-1, dimension)
    return gradient


def _share(first: Tensor, last: Tensor, size: int, counts: Tensor) -> Tensor:
    places = torch.arange(size)
    inside = (places >= first.unsqueeze(-1)) & (places < last.unsqueeze(-1))
    return inside.to(torch.float64) / counts.unsqueeze(-1)


def _pool_gradient(
    gradient: Tensor,
    value: Tensor,
    kernel: list[int],
    stride: list[int],
    padding: list[int],
    ceil: bool,
    counts_padding: bool,
    divisor: int | None,
) -> Tensor:
    shares, count = [], len(kernel)

    def each(given: list[int], number: int) -> int:
        return given[number % len(given)]

    for number in range(count):
        size, made = value.shape[number - count], gradient.shape[number - count]
        pad, width = each(padding, number), kernel[number]
        first = torch.arange(made) * each(stride or kernel, number) - pad
        last = (first + width).clamp(max=size + pad)
        inside = last if counts_padding else last.clamp(max=size)
        counts = inside - (first if counts_padding else first.clamp(min=0))
        counts = torch.ones_like(counts) if divisor else counts
        shares.append(_share(first, last, size, counts))
    found = _unpool(gradient, shares)
    return found / divisor if divisor else found


def _pool(value: Tensor, kernel: list[int], *options: Any) -> Any:
    """With a batch, and with narrow numbers in float32."""
    has_batch, is_narrow = value.dim() == len(kernel) + 2, value.dtype in _NARROW
    if has_batch and not is_narrow:
        return NotImplemented
    operation = aten.avg_pool2d if len(kernel) == 2 else aten.avg_pool3d
    wide = value.float() if is_narrow else value
    found = operation(wide if has_batch else wide.unsqueeze(0), kernel, *options)
    return (found if has_batch else found.squeeze(0)).to(value.dtype)


def _adaptive_gradient(gradient: Tensor, value: Tensor) -> Tensor:
    shares = []
    for size, made in zip(value.shape[-2:], gradient.shape[-2:], strict=True):
        steps = torch.arange(made)
        first, last = steps * size // made, ((steps + 1) * size + made - 1) // made
        shares.append(_share(first, last, size, last - first))
    return _unpool(gradient, shares)


def _convolution_gradient(
    gradient: Tensor,
    value: Tensor,
    weight: Tensor,
    bias: list[int] | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    wanted: list[bool],
) -> Any:
    """A transposed convolution, computed by a plain one."""
    if not transposed:
        return NotImplemented
    how = (stride, padding, dilation, False, [0] * len(stride), groups)
    found: list[Any] = [None, None, None]
    if wanted[0]:
        found[0] = aten.convolution(gradient, weight, None, *how)
    if wanted[1]:
        one = aten.convolution_backward(value, gradient, weight, None, *how, [False, True, False])
        found[1] = one[1]
    if wanted[2]:
        found[2] = gradient.sum([0, *range(2, gradient.dim())])
    return tuple(found)


def _shrink_gradient(gradient: Tensor, value: Tensor, limit: float) -> Tensor:
    return torch.where(value.abs() <= limit, 0, gradient)


def _fmod(value: Tensor, divisor: float) -> Tensor:
    return torch.fmod(value, torch.full((), divisor, dtype=value.dtype))


def _abs(value: Tensor) -> Any:
    """For integers without `math.absi`, which upstream's passes to libm refuse."""
    if value.is_floating_point():
        return NotImplemented
    return torch.where(value < 0, -value, value)


def _hypot(first: Tensor, second: Tensor) -> Tensor:
    first, second = first.abs(), second.abs()
    large, small = torch.maximum(first, second), torch.minimum(first, second)
    ratio = torch.where(large == 0, 0, small / large)
    return large * torch.sqrt(1 + ratio * ratio)


_PYTORCHS = (
    aten.gelu.default,
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten.native_batch_norm.default,
    aten._native_batch_norm_legit.default,
    aten._native_batch_norm_legit.no_stats,
    aten._native_batch_norm_legit_functional.default,
    aten._softmax.default,
    aten._log_softmax.default,
    aten._adaptive_avg_pool2d.default,
)
"""Operations that PyTorch decomposes, although torch-mlir could lower them."""

_OWN: dict[Any, Callable[..., Any]] = {
    aten.embedding_dense_backward.default: _embedding_gradient,
    aten.nll_loss_forward.default: _nll_loss,
    aten.nll_loss_backward.default: _nll_loss_gradient,
    aten.squeeze.dims: _squeeze,
    aten.empty_permuted.default: _empty,
    aten.eye.default: _eye,
    aten.eye.m: _eye,
    aten.roll.default: _roll,
    aten.constant_pad_nd.default: _pad,
    aten.sum.default: _sum,
    aten.sum.dim_IntList: _sum,
    aten.mean.default: _mean,
    aten.mean.dim: _mean,
    aten.var.correction: _var,
    aten.var_mean.correction: _var_mean,
    aten.cumsum.default: _cumsum,
    aten.cumprod.default: _cumprod,
    aten.logcumsumexp.default: _logcumsumexp,
    aten._to_copy.default: _to_copy,
    aten.scatter_add.default: _scatter_add,
    aten.scatter.src: _scatter,
    aten.scatter.value: _scatter,
    aten.index_put.default: _index_put,
    aten._unsafe_index_put.default: _index_put,
    aten.diagonal_scatter.default: _diagonal_scatter,
    aten.replication_pad1d_backward.default: _replication_gradient,
    aten.replication_pad2d_backward.default: _replication_gradient,
    aten.replication_pad3d_backward.default: _replication_gradient,
    aten.avg_pool2d.default: _pool,
    aten.avg_pool3d.default: _pool,
    aten.avg_pool2d_backward.default: _pool_gradient,
    aten.avg_pool3d_backward.default: _pool_gradient,
    aten._adaptive_avg_pool2d_backward.default: _adaptive_gradient,
    aten.convolution_backward.default: _convolution_gradient,
    aten.softshrink_backward.default: _shrink_gradient,
    aten.hardshrink_backward.default: _shrink_gradient,
    aten.fmod.Scalar: _fmod,
    aten.abs.default: _abs,
    aten.hypot.default: _hypot,
}


def decompositions() -> dict[Any, Callable[..., Any]]:
    table = dict(core_aten_decompositions())
    known = get_decompositions(_PYTORCHS)
    return table | {each: known[each] for each in _PYTORCHS} | _OWN | BOUNDS
