"""Gradients of parameters that several ranks hold: replicas of a stage, and tied parameters.

The gradients of one all-reduce travel in one buffer per dtype. Behind them stands one number per
parameter, 1 if this rank has a gradient for it: a parameter that no rank has a gradient for keeps
None, as without a pipeline.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore

from ._errors import PipelineError
from ._watch import Watch

Sum = Callable[[Tensor], Any]
"""Begins to sum a tensor in place over some ranks; returns what to wait for."""

_groups: WeakKeyDictionary[Any, dict[tuple[int, ...], Any]] = WeakKeyDictionary()


def _over(group: dist.ProcessGroup) -> Sum:
    return lambda tensor: dist.all_reduce(tensor, group=group, async_op=True)


def own_gloo(workers: Sequence[int], watch: Watch, name: str) -> Any:
    """A process group of gloo of some ranks of a pipeline, this one among them."""
    store = PrefixStore(f"{name}/{'-'.join(map(str, workers))}", watch.store)
    limit = datetime.timedelta(days=1)  # The watch has limits of its own.
    made: list[Any] = []
    number, size = workers.index(watch.rank), len(workers)
    watch.wait(
        lambda: made.append(dist.ProcessGroupGloo(store, number, size, limit)),
        lambda: f"ranks {list(workers)} to connect",
    )
    return made[0]


def sum_over(group: dist.ProcessGroup, workers: tuple[int, ...], watch: Watch) -> Sum | None:
    """The sum over some ranks of a group, None on the others. All ranks of the group ask for it, in
    the same order.
    """
    rank = dist.get_rank(group)
    if len(workers) == dist.get_world_size(group):
        return _over(group)
    known = _groups.setdefault(group, {})
    if workers not in known:
        if dist.get_backend(group) == "gloo":
            # new_group would need all ranks of the job, also those of other pipelines.
            if rank in workers:
                known[workers] = own_gloo(workers, watch, "sums")
        elif group is dist.group.WORLD:
            known[workers] = dist.new_group(list(workers))
        else:
            raise PipelineError(
                f"ranks {list(workers)} hold the same blocks; in a pipeline over a part of all "
                "ranks their gradients can be summed over gloo only"
            )
    if rank not in workers:
        return None
    found: Any = known[workers]
    is_own = isinstance(found, dist.ProcessGroupGloo)
    return (lambda tensor: found.allreduce([tensor])) if is_own else _over(found)


@dataclass
class _Bucket:
    """The gradients of one dtype on their way."""

    parameters: Sequence[nn.Parameter]
    buffer: Tensor
    work: Any

    def store(self) -> None:
        """Writes the sums into the gradients."""
        counts = self.buffer[-len(self.parameters) :].tolist()
        begin = 0
        for parameter, count in zip(self.parameters, counts, strict=True):
            part = self.buffer[begin : begin + parameter.numel()].view(parameter.shape)
            begin += parameter.numel()
            if not count:
                continue
            if parameter.grad is None or parameter.grad.is_sparse:
                parameter.grad = part.clone()
            else:
                parameter.grad.copy_(part)


class Shared:
    """Parameters whose gradients are summed over some ranks, or over this rank alone.

    With `tied`, the parameters of this rank are one parameter of the model: their own gradients are
    added up first, and each gets the sum.
    """

    def __init__(
        self,
        name: str,
        parameters: list[nn.Parameter],
        sum_up: Sum | None,
        is_tied: bool = False,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self._sent = parameters[:1] if is_tied else parameters
        self._sum = sum_up
        self._buckets: list[_Bucket] = []
        self._before: list[Tensor | None] = []

    @property
    def distinct(self) -> list[nn.Parameter]:
        """The parameters, tied ones once."""
        return list(self._sent)

    def begin(self) -> None:
        """Puts gradients of earlier steps aside, which are summed already."""
        self._before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None

    def start(self, watch: Watch) -> None:
        """Begins to sum."""
        if len(self._sent) < len(self.parameters):
            own = [p.grad for p in self.parameters if p.grad is not None]
            self._sent[0].grad = torch.stack(own).sum(0) if own else None
        for dtype in dict.fromkeys(p.dtype for p in self._sent if self._sum):
            chosen = [p for p in self._sent if p.dtype == dtype]
            buffer = torch.cat([*map(_flat, chosen), _flags(chosen)])
            assert self._sum is not None
            work = watch.start_call(partial(self._sum, buffer), lambda: self.name)
            self._buckets.append(_Bucket(chosen, buffer, work))

    def finish(self, watch: Watch, what: Callable[[], str]) -> None:
        """Waits for the sums, and writes them into the gradients."""
        for bucket in self._buckets:
            watch.wait(bucket.work.wait, what)
            bucket.store()
        self._buckets = []
        for parameter in self.parameters[len(self._sent) :]:
            total = self._sent[0].grad
            parameter.grad = None if total is None else total.clone()
        for parameter, before in zip(self.parameters, self._before, strict=True):
            if before is not None:
                parameter.grad = before if parameter.grad is None else before.add_(parameter.grad)
        self._before = []


def _flat(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros(parameter.numel(), dtype=parameter.dtype, device=parameter.device)
    dense = gradient.to_dense() if gradient.is_sparse else gradient
    return dense.reshape(-1).to(parameter.dtype)


def _flags(parameters: Sequence[nn.Parameter]) -> Tensor:
    flags = [float(parameter.grad is not None) for parameter in parameters]
    return torch.tensor(flags, dtype=parameters[0].dtype, device=parameters[0].device)


def shapes_of(parameters: Sequence[nn.Parameter]) -> list[list[Any]]:
    """What all ranks of an all-reduce must agree on."""
    return [[list(p.shape), str(p.dtype)] for p in parameters]


def checksum(parameters: Sequence[nn.Parameter]) -> list[float]:
    """Numbers that differ if the values differ: of each parameter its sum and a weighted sum."""
    found = []
    for parameter in parameters:
        values = parameter.detach().reshape(-1)
        values = torch.view_as_real(values).reshape(-1) if values.is_complex() else values
        values = values.double()
        weights = torch.arange(values.numel(), device=values.device).remainder(1021).add(1)
        found += [values.sum().item(), (values * weights).sum().item()]
    return found
