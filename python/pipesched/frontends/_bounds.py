"""Bounds and comparisons that keep NaN, as PyTorch's do, of which torch-mlir makes a comparison and
a choice that takes the bound; it also takes any tensor to be equal to itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten


def _maximum(first: Tensor, second: Tensor) -> Any:
    if not (first.is_floating_point() and second.is_floating_point()):
        return NotImplemented
    # One of them is NaN where neither comparison holds, and so is the sum.
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
