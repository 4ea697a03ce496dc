"""The storages of tensors, by which memory is counted: tensors share them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._values import tensors_in


def places_of(tensors: Sequence[Tensor], spared: Collection[int]) -> dict[int, int]:
    """The storages of tensors with their bytes, without those of `spared`."""
    found: dict[int, int] = {}
    for tensor in tensors:
        if tensor.layout == torch.strided:
            storage = tensor.untyped_storage()
            if storage._cdata not in spared:
                found[storage._cdata] = storage.nbytes()
    return found


class _Extent:
    """Where a tensor lies, for NumPy, which looks at the addresses alone."""

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
    """The numbers of those tensors that have elements in common with another one of them."""
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
    """Whether two tensors of one device have elements in common."""
    return _have_common(np.asarray(_Extent(one)), np.asarray(_Extent(other)))


def _have_common(one: Any, other: Any) -> bool:
    most: Any = 10_000  # a limit of the search, after which the tensors count as one
    try:
        return bool(np.shares_memory(one, other, max_work=most))
    except np.exceptions.TooHardError:
        return True


def storages_of(values: Any) -> set[int]:
    """The storages of the tensors in a value."""
    found = [tensor for tensor in tensors_in(values) if tensor.layout == torch.strided]
    return {tensor.untyped_storage()._cdata for tensor in found}


def as_sent(output: Tensor, buffered: Collection[int]) -> Tensor:
    """An output without its graph. A buffer of a stage is copied: another forward may change it
    before the next stage reads it.

    buffered: the storages of buffers.
    """
    found = output.detach()
    if not buffered or found.layout != torch.strided:
        return found
    return found.clone() if found.untyped_storage()._cdata in buffered else found
