"""The storages of tensors, by which memory is counted: tensors share them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

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


def storages_of(values: Any) -> set[int]:
    """The storages of the tensors in a value."""
    found = [tensor for tensor in tensors_in(values) if tensor.layout == torch.strided]
    return {tensor.untyped_storage()._cdata for tensor in found}
