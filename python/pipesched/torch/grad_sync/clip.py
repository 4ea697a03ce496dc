"""The norm of the gradients of the whole model, and clipping by it. Each gradient counts once: of a
replica or tied parameter on its first rank, of shards on all ranks, of other pipelines only for
experts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate

from ..core.errors import PipelineError
from ..core.values import local
from ..core.watch import Watch
from .data_parallel import Averages, Divided
from .reduce import Shared, redistribute_gradient


def values_of(gradient: Tensor) -> Tensor:
    """Returns the numbers of a gradient that this rank has, once each if it is sparse."""
    own = local(gradient).detach()
    return own if own.layout == torch.strided else own.coalesce().values()


class Norm:
    """A p-norm that is put together from parts on several ranks."""

    def __init__(self, kind: float, watch: Watch, device: torch.device) -> None:
        if not kind > 0:
            raise PipelineError(f"`norm_type` is {kind:g}; wanted a number above 0, or infinity")
        self.kind = float(kind)
        self._watch, self._device = watch, device

    def part(self, gradients: Iterable[Tensor]) -> Tensor:
        """Returns the share of the gradients of this rank in the norm."""
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        for gradient in gradients:
            values = values_of(gradient)
            if not values.numel():
                continue
            is_short = values.dtype in (torch.float16, torch.bfloat16)
            dtype = torch.float32 if is_short else None
            norm = torch.linalg.vector_norm(values, self.kind, dtype=dtype).to(total)
            total = torch.maximum(total, norm) if self._is_most else total + norm**self.kind
        return total

    @property
    def _is_most(self) -> bool:
        return math.isinf(self.kind)

    def join(self, one: Tensor, other: Tensor) -> Tensor:
        return torch.maximum(one, other) if self._is_most else one + other

    def over(self, total: Tensor, group: dist.ProcessGroup) -> None:
        """Joins the parts of the ranks of a group, in place."""
        kind = dist.ReduceOp.MAX if self._is_most else dist.ReduceOp.SUM
        work: Any = dist.all_reduce(total, kind, group=group, async_op=True)
        self._watch.wait_for(total, work, lambda: "the norms of the gradients of other ranks")

    def whole(self, total: Tensor) -> Tensor:
        return total if self._is_most else total ** (1 / self.kind)


def _find_counted(
    parameters: Sequence[nn.Parameter], shared: Sequence[Shared], rank: int
) -> list[Any]:
    elsewhere = {id(p) for each in shared if each.workers[0] != rank for p in each.parameters}
    again = {id(p) for each in shared if each.is_tied for p in each.parameters[1:]}
    return [p for p in parameters if id(p) not in elsewhere | again and p.grad is not None]


def _spread(parameter: nn.Parameter, averages: Averages) -> tuple[dist.ProcessGroup, ...]:
    """Returns the groups across pipelines whose ranks have different parts of a parameter."""
    found = []
    if isinstance(parameter, DTensor):
        mesh, placements = parameter.device_mesh, parameter.placements
        cut = [i for i, p in enumerate(placements) if not isinstance(p, Replicate)]
        found = [mesh.get_group(dim) for dim in cut]
    peers = averages.of(parameter)
    return (*found, peers.group) if isinstance(peers, Divided) else tuple(found)


def total_norm(
    parameters: Sequence[nn.Parameter],
    shared: Sequence[Shared],
    norm: Norm,
    watch: Watch,
    averages: Averages,
) -> Tensor:
    """Returns the norm of the gradients of all ranks, the same on each."""
    found: dict[Any, list[Tensor]] = {}
    for parameter in parameters:  # in one order on all ranks that join a part
        redistribute_gradient(parameter)
        found.setdefault(_spread(parameter, averages), [])
    for parameter in _find_counted(parameters, shared, watch.rank):
        gradient = parameter.grad
        assert gradient is not None
        found[_spread(parameter, averages)].append(gradient)
    total = norm.part([])
    for groups, gradients in found.items():
        part = norm.part(gradients)
        for each in groups:
            norm.over(part, each)
        total = norm.join(total, part)
    norm.over(total, averages.pipeline)
    return norm.whole(total)


def clip(parameters: Iterable[nn.Parameter], total: Tensor, most: float) -> None:
    factor = torch.clamp(most / (total + 1e-6), max=1.0)
    seen: set[int] = set()
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and id(gradient) not in seen:
            seen.add(id(gradient))
            own = local(gradient)
            own.mul_(factor.to(own.device, own.real.dtype if own.is_complex() else own.dtype))


def with_infinity(gradient: Tensor) -> Tensor:
    """Returns a gradient with an infinity: a dense one changed in place, a sparse one new."""
    own = local(gradient)
    if own.layout == torch.strided:
        own.view(-1)[:1].fill_(math.inf) if own.is_contiguous() else own.fill_(math.inf)
        return gradient
    dense = own.dense_dim()
    shape = (1, *own.shape[own.dim() - dense :])
    index = torch.zeros((own.sparse_dim(), 1), dtype=torch.int64, device=own.device)
    rows = torch.full(shape, math.inf, dtype=own.dtype, device=own.device)
    return own + torch.sparse_coo_tensor(index, rows, own.shape)
