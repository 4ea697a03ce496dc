"""Operations of PyTorch in terms of those that come through to linalg.

Scatters do not: PyTorch's own decompositions write the gradient of an embedding and of a choice by
class numbers to places that the data says. Here both are products with masks of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._decomp import core_aten_decompositions

aten = torch.ops.aten


def _mask(numbers: Tensor, count: int, dtype: torch.dtype, ignored: int) -> Tensor:
    """One row per number, with a one at its place; no one for the ignored number."""
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
    """What each row counts."""
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


def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for tracing."""
    table = dict(core_aten_decompositions())
    table[aten.embedding_dense_backward.default] = _embedding_gradient
    table[aten.nll_loss_forward.default] = _nll_loss
    table[aten.nll_loss_backward.default] = _nll_loss_gradient
    table[aten.squeeze.dims] = _squeeze
    table[aten.empty_permuted.default] = _empty
    return table
