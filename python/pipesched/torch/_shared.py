"""Parameters that share memory although they are several: a step of an optimizer changes all of
them at once, which ranks that hold only some of them cannot see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.parameter import is_lazy

from ._errors import PipelineError
from ._places import have_common


class Held(NamedTuple):
    """A part of the model."""

    name: str
    module: nn.Module
    workers: frozenset[int]
    """The ranks that hold it."""


def check_made(name: str, tensor: Any) -> None:
    """Refuses parameters and buffers of lazy modules that have not seen a batch yet."""
    if is_lazy(tensor):
        raise PipelineError(
            f"{name!r} has no shape yet, as those of lazy modules before their first forward: run "
            "the model on a microbatch before it is divided, and before optimizers are made"
        )


class _Piece(NamedTuple):
    """A parameter or buffer of a part."""

    begin: int
    end: int
    tensor: Tensor
    whole: Tensor
    name: str
    workers: frozenset[int]


def _pieces(parts: Iterable[Held]) -> Iterator[_Piece]:
    for part in parts:
        named: dict[str, Any] = dict(part.module.named_parameters(remove_duplicate=False))
        named.update(part.module.named_buffers(remove_duplicate=False))
        for name, whole in named.items():
            check_made(f"{part.name}{name}", whole)
            tensor = whole.detach()
            tensor = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            if tensor.layout == torch.strided and tensor.numel() and not tensor.is_meta:
                sizes = zip(tensor.shape, tensor.stride(), strict=True)
                last = sum((length - 1) * abs(step) for length, step in sizes)
                begin = tensor.data_ptr()
                end = begin + (last + 1) * tensor.element_size()
                yield _Piece(begin, end, tensor, whole, f"{part.name}{name}", part.workers)


def refuse_shared(parts: Iterable[Held]) -> None:
    """Raises if parts of different ranks have elements of a parameter in common which are not one
    parameter object. Only neighbours in memory are compared.
    """
    near: list[_Piece] = []
    for piece in sorted(_pieces(parts), key=lambda piece: piece[:2]):
        near = [other for other in near if other.end > piece.begin]
        for other in near:
            if other.whole is piece.whole or other.workers == piece.workers:
                continue
            if not any(isinstance(each.whole, nn.Parameter) for each in (other, piece)):
                continue
            if other.tensor.device == piece.tensor.device and have_common(
                other.tensor, piece.tensor
            ):
                raise PipelineError(
                    f"{other.name!r} and {piece.name!r} share memory but are not one parameter, "
                    f"and ranks {sorted(other.workers ^ piece.workers)} hold only one of them, so "
                    "that a step would change them apart; make them one object, which ties them, "
                    "or clone one"
                )
        near.append(piece)
