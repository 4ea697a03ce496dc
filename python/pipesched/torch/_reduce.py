"""Gradients of parameters that several ranks hold: replicas of a stage, tied parameters, and the
same stages in other pipelines.

The gradients of one all-reduce travel in one buffer per dtype. Behind them the buffer has one
number per parameter, which is 1 if this rank has a gradient for it. So a parameter for which no
rank has a gradient keeps None, as without a pipeline. A buffer is summed over the replicas of a
pipeline first, then averaged over the pipelines. Of sharded parameters each rank sums its shards.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.tensor import DTensor

from ._parallel import Peers, local
from ._watch import Watch

Sum = Callable[[Tensor], Any]
"""Begins to sum a tensor in place over some ranks; returns what to wait for."""

_groups: WeakKeyDictionary[Any, dict[tuple[int, ...], Any]] = WeakKeyDictionary()


def _over(group: dist.ProcessGroup) -> Sum:
    return lambda tensor: dist.all_reduce(tensor, group=group, async_op=True)


def own_gloo(workers: Sequence[int], watch: Watch, name: str) -> Any:
    """A process group of gloo of some ranks of a pipeline, this one among them."""
    store = PrefixStore(f"{name}/{'-'.join(map(str, workers))}", watch.store)
    limit = datetime.timedelta(days=1)  # the watch limits waits itself
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
        elif rank in workers:
            ranks = [dist.get_global_rank(group, worker) for worker in workers]
            known[workers] = dist.new_group(ranks, use_local_synchronization=True)
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
    peers: Peers | None
    """The pipelines over which the gradients are averaged."""
    work: Any = None

    def store(self) -> None:
        """Writes the sums into the gradients."""
        counts = self.buffer[-len(self.parameters) :].tolist()
        if self.peers is not None:
            self.buffer /= self.peers.size
        begin = 0
        for parameter, count in zip(self.parameters, counts, strict=True):
            own = local(parameter)
            part = self.buffer[begin : begin + own.numel()].view(own.shape)
            begin += own.numel()
            if count:
                _set_gradient(parameter, part)


def _set_gradient(parameter: nn.Parameter, value: Tensor) -> None:
    gradient = parameter.grad
    if gradient is not None and not gradient.is_sparse:
        local(gradient).copy_(value)
    elif isinstance(parameter, DTensor):
        parameter.grad = DTensor.from_local(
            value.clone(),
            parameter.device_mesh,
            parameter.placements,
            run_check=False,
            shape=parameter.shape,
            stride=parameter.stride(),
        )
    else:
        parameter.grad = value.clone()


class Shared:
    """Parameters whose gradients are summed over some ranks, or over this rank alone, and then
    averaged over the pipelines that `peers_of` gives.

    With `tied`, the parameters of this rank are one parameter of the model: their own gradients are
    added up first, and each gets the sum. However often the methods are called, a sum is started
    and finished once.
    """

    def __init__(
        self,
        name: str,
        parameters: list[nn.Parameter],
        sum_up: Sum | None,
        is_tied: bool = False,
        peers_of: Callable[[nn.Parameter], Peers | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.parameters = parameters
        self._peers_of = peers_of
        self._state: Literal["begun", "started", "finished"] = "finished"
        self._sent = parameters[:1] if is_tied else parameters
        self._sum = sum_up
        self._buckets: list[_Bucket] = []
        self._before: list[Tensor | None] = []

    @property
    def distinct(self) -> list[nn.Parameter]:
        """The parameters, tied ones once."""
        return list(self._sent)

    def begin(self) -> None:
        """Sets gradients of earlier steps aside, because they are summed already."""
        self._before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        self._state = "begun"

    def start(self, watch: Watch) -> None:
        """Begins to sum."""
        if self._state != "begun":
            return
        self._state = "started"
        if len(self._sent) < len(self.parameters):
            self._add_own()
        sent = [(p, (p.dtype, self._peers_of(p))) for p in self._sent]
        for kind in dict.fromkeys(kind for _, kind in sent):
            if self._sum is None and kind[1] is None:
                continue
            chosen = [parameter for parameter, own in sent if own == kind]
            buffer = torch.cat([*map(_flat, chosen), _flags(chosen)])
            bucket = _Bucket(chosen, buffer, kind[1])
            call = self._sum
            if call is None:
                assert bucket.peers is not None
                call = bucket.peers.begin_sum
            bucket.work = watch.start_call(partial(call, buffer), lambda: self.name)
            self._buckets.append(bucket)

    def _add_own(self) -> None:
        own = [p.grad for p in self.parameters if p.grad is not None]
        first = self._sent[0]
        first.grad = None
        if own:
            _set_gradient(first, torch.stack([local(gradient) for gradient in own]).sum(0))

    def finish(self, watch: Watch, what: Callable[[], str]) -> None:
        """Waits for the sums, and writes them into the gradients."""
        if self._state != "started":
            return
        self._state = "finished"
        for bucket in self._buckets:
            watch.wait(bucket.work.wait, what)
            if self._sum is not None and bucket.peers is not None:
                call = partial(bucket.peers.begin_sum, bucket.buffer)
                watch.wait(watch.start_call(call, what).wait, what)
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
        return torch.zeros_like(local(parameter).detach()).reshape(-1)
    dense = gradient.to_dense() if gradient.is_sparse else local(gradient)
    return dense.reshape(-1).to(parameter.dtype)


def _flags(parameters: Sequence[nn.Parameter]) -> Tensor:
    flags = [float(parameter.grad is not None) for parameter in parameters]
    return torch.tensor(flags, dtype=parameters[0].dtype, device=parameters[0].device)


def shapes_of(parameters: Sequence[Tensor]) -> list[list[Any]]:
    """What all ranks of an all-reduce must agree on."""
    return [[list(local(p).shape), str(p.dtype), *_shards(p)] for p in parameters]


def _shards(parameter: Tensor) -> list[str]:
    return [str(parameter.placements)] if isinstance(parameter, DTensor) else []


def checksum(parameters: Sequence[nn.Parameter]) -> list[float]:
    """Numbers that differ if the values differ: of each parameter its sum and a weighted sum."""
    found = []
    for parameter in parameters:
        values = local(parameter).detach().reshape(-1)
        values = torch.view_as_real(values).reshape(-1) if values.is_complex() else values
        values = values.double()
        weights = torch.arange(values.numel(), device=values.device).remainder(1021).add(1)
        found += [values.sum().item(), (values * weights).sum().item()]
    return found
