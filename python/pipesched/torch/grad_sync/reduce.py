"""Gradients of parameters that several ranks hold: replicas of a stage, tied parameters, and the
same stages in other pipelines.

A large gradient is summed in place. Small ones travel in one buffer per dtype, with three numbers
per parameter at its end: the number of ranks that have a gradient for it, the number with a sparse
one, and its dimensions. From an accelerator the numbers travel over gloo, so that no process waits
for its device. A parameter for which no rank has a gradient keeps None, and a gradient that is
sparse on all ranks stays sparse: a second exchange finds the rows that any rank has.

Sums are over the replicas of a pipeline first, then averaged over the pipelines; each rank sums its
shards of sharded parameters. Only the first rank of each sum adds to gradients of earlier steps,
which are summed already; the others start from 0, and get the whole with the next sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, TypeGuard
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from ..core.groups import Peers, begin_sum, own_gloo, takes_host
from ..core.values import local
from ..core.watch import Watch
from .data_parallel import Divided

Sum = Callable[[Tensor], Any]
"""Starts to sum a tensor in place over some ranks; returns a handle to wait for."""
SMALL = 1 << 18
"""Bytes of a gradient below which it is copied into a buffer with others."""
_groups: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


def sum_over(group: dist.ProcessGroup, workers: tuple[int, ...], watch: Watch) -> Sum | None:
    """Returns the sum over some ranks of a group, None on others; all ask in one order."""
    rank = dist.get_rank(group)
    known = _groups.setdefault(group, {})
    host: Any = None
    if rank in workers and not takes_host(group):
        key = "host", workers
        if key not in known:
            known[key] = own_gloo(workers, watch, "flags")
        host = known[key]
    if len(workers) == dist.get_world_size(group):
        return partial(begin_sum, group=group, host=host)
    if workers not in known:
        if dist.get_backend(group) == "gloo":
            # new_group would need all ranks of the job, also ranks of other pipelines.
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
    if is_own:
        return lambda tensor: found.allreduce([tensor])
    return partial(begin_sum, group=found, host=host)


class _Exchange:
    """The gradients of some parameters of one dtype, on their way over the ranks."""

    def __init__(
        self, name: str, parameters: Sequence[nn.Parameter], sum_up: Sum | None, peers: Peers | None
    ) -> None:
        self._name, self._parameters = name, parameters
        self._sum, self._peers = sum_up, peers
        self._values = [_dense(parameter) for parameter in parameters]
        places: dict[int, int] = {}
        for value in self._values:
            places[value.data_ptr()] = places.get(value.data_ptr(), 0) + 1
        self._large = [
            value
            for value in self._values
            if not is_small(value) and value.is_contiguous() and places[value.data_ptr()] == 1
        ]
        known = set(map(id, self._large))
        self._small = [value for value in self._values if id(value) not in known]
        # For each parameter whether there is a gradient, whether it is sparse, and its dimensions.
        flags = [number for p in parameters for number in (float(p.grad is not None), *_sparse(p))]
        kind = local(parameters[0])
        small = [value.reshape(-1) for value in self._small]
        last = torch.tensor(flags, dtype=kind.dtype)
        self._flags = last
        self._joined: Tensor | None = None
        if kind.device.type == "cpu":
            self._joined = torch.cat([*small, last])
            self._flags = self._joined[-len(flags) :]
        elif small:
            self._joined = torch.cat(small)
        self._works: list[tuple[Tensor, Any]] = []

    def tensors(self) -> list[Tensor]:
        return [t for t in (self._joined, self._flags) if t is not None]

    def start(self, watch: Watch) -> None:
        buffers = list(self._large)
        if self._joined is not None:
            buffers.append(self._joined)
        if self._joined is None or self._joined.device != self._flags.device:
            buffers.append(self._flags)  # over the host, which does not wait for the device
        call: Any = self._sum
        if call is None:
            assert self._peers is not None
            call = self._peers.begin_sum
        for buffer in buffers:
            work = watch.start_call(partial(call, buffer), lambda: self._name)
            self._works.append((buffer, work))

    def finish(self, watch: Watch, what: Callable[[], str]) -> None:
        """Waits for the sums, and makes them the gradients."""
        for buffer, work in self._works:
            watch.wait_for(buffer, work, what)
            if self._sum is not None and self._peers is not None:
                work = watch.start_call(partial(self._peers.begin_sum, buffer), what)
                watch.wait_for(buffer, work, what)
        self._works = []
        flags = self._flags.real.tolist()
        begin = 0
        for value in self._small:
            assert self._joined is not None
            value.copy_(self._joined[begin : begin + value.numel()].view(value.shape))
            begin += value.numel()
        for number, (parameter, value) in enumerate(
            zip(self._parameters, self._values, strict=True)
        ):
            if self._peers is not None:
                value /= self._peers.divisor
            count, sparse, dims = flags[3 * number : 3 * number + 3]
            if count == sparse > 0 and dims % sparse == 0:
                value = self._as_sparse(parameter, value, int(dims / sparse), watch, what)
            parameter.grad = _as_gradient(parameter, value) if count else None

    def _as_sparse(
        self,
        parameter: nn.Parameter,
        value: Tensor,
        dims: int,
        watch: Watch,
        what: Callable[[], str],
    ) -> Tensor:
        """Returns a sum with the rows that any rank has, zeros too, which SparseAdam steps."""
        mask = torch.zeros(value.shape[:dims], dtype=torch.int32, device=value.device)
        if parameter.grad is not None:
            mask[tuple(parameter.grad.coalesce().indices())] = 1
        calls = [self._sum, None if self._peers is None else self._peers.begin_sum]
        for call in calls:
            if call is not None:
                watch.wait_for(mask, watch.start_call(partial(call, mask), what), what)
        indices = mask.nonzero().t()
        rows = value[tuple(indices)]
        return torch.sparse_coo_tensor(indices, rows, value.shape, is_coalesced=True)


def redistribute_gradient(parameter: nn.Parameter) -> Tensor | None:
    """Returns the gradient of a parameter, cut as the parameter is, with its parts summed."""
    gradient = parameter.grad
    if isinstance(parameter, DTensor) and isinstance(gradient, DTensor):
        if gradient.placements != parameter.placements:
            parameter.grad = gradient.redistribute(placements=parameter.placements)
    return parameter.grad


def is_small(tensor: Tensor) -> bool:
    """Returns whether a gradient travels in a buffer with others."""
    return tensor.nbytes < SMALL


def _adds_up(parameter: nn.Parameter) -> bool:
    """Returns whether a sum may include an earlier sum; a mean divides it, beyond 16 bits."""
    return not isinstance(parameter, DTensor) and parameter.dtype != torch.float16


def clear_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Resets gradients, in their memory if nothing else may be there."""
    chosen = list(parameters)
    places = Counter(p.grad.data_ptr() for p in chosen if _adds_up(p) and _is_dense(p.grad))
    for parameter in chosen:
        gradient = parameter.grad
        if _adds_up(parameter) and _is_dense(gradient) and places[gradient.data_ptr()] == 1:
            gradient.zero_()
        else:
            parameter.grad = None


def _is_dense(gradient: Tensor | None) -> TypeGuard[Tensor]:
    return gradient is not None and gradient.layout == torch.strided


def _dense(parameter: nn.Parameter) -> Tensor:
    gradient = redistribute_gradient(parameter)
    if gradient is None:
        return torch.zeros_like(local(parameter).detach())
    if gradient.layout != torch.strided:
        return gradient.to_dense().to(parameter.dtype)
    return local(gradient).detach().to(parameter.dtype)


def _sparse(parameter: nn.Parameter) -> tuple[float, float]:
    gradient = parameter.grad
    if gradient is None or gradient.layout != torch.sparse_coo:
        return 0.0, 0.0
    return 1.0, float(gradient.sparse_dim())


def _as_gradient(parameter: nn.Parameter, value: Tensor) -> Tensor:
    if not isinstance(parameter, DTensor):
        return value
    return DTensor.from_local(
        value,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _plus(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """Returns the sum of two gradients, in place of a dense one."""
    if one is None or other is None:
        return other if one is None else one
    if one.layout != torch.strided and other.layout == torch.strided:
        one, other = other, one
    return one.add_(other) if one.layout == torch.strided else one + other


class Shared:
    """Parameters whose gradients are summed over some ranks, or only over this rank, and then
    averaged over the pipelines that `peers_of` gives.

    With `is_tied`, the parameters of this rank are one parameter of the model: their own gradients
    are added up first, and each gets the sum. With `keeps`, this rank is the one that adds to the
    gradients of earlier steps. However often the methods are called, a sum is started and finished
    once.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[], list[nn.Parameter]],
        sum_up: Sum | None,
        workers: tuple[int, ...],
        peers_of: Callable[[nn.Parameter], Peers | None],
        is_tied: bool = False,
        keeps: bool = False,
    ) -> None:
        self.name = name
        self.workers = workers
        """The ranks of this pipeline that hold the parameters."""
        self.is_tied = is_tied
        self._keeps = keeps
        self._find, self._sum, self._peers_of = find, sum_up, peers_of
        self.parameters: list[nn.Parameter] = []
        """All of them, also frozen ones."""
        self.signature: list[Any] = []
        """Facts that all ranks must agree on."""
        self.look()
        self.changes = 0
        """How often that has changed."""
        self._state: Literal["begun", "started", "finished"] = "finished"
        self._trained: list[nn.Parameter] = []
        self._exchanges: list[_Exchange] = []
        self._divided: list[nn.Parameter] = []
        """Parameters whose gradients are only to be divided."""
        self._before: list[Tensor | None] = []

    def look(self) -> bool:
        """Finds the parameters again; returns whether the signature has changed."""
        self.parameters = self._find()
        old, self.signature = self.signature, shapes_of(self._one_each(self.parameters))
        return old != self.signature

    def _one_each(self, parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        return parameters[:1] if self.is_tied else parameters

    @property
    def peers(self) -> list[Peers]:
        found = [self._peers_of(parameter) for parameter in self.parameters]
        return list({id(each): each for each in found if each is not None}.values())

    @property
    def distinct(self) -> list[nn.Parameter]:
        """The trained parameters, tied ones once."""
        return self._one_each([p for p in self.parameters if p.requires_grad])

    def begin(self) -> None:
        """Leaves gradients of earlier steps to one rank, or sets them aside if summed already."""
        self._trained = [p for p in self.parameters if p.requires_grad]
        self._before = [None if _adds_up(p) else p.grad for p in self._trained]
        kept = set(map(id, self.distinct)) if self._keeps else set()
        clear_gradients(p for p in self._trained if not (_adds_up(p) and id(p) in kept))
        self._undivide()
        self._state = "begun"

    def _undivide(self) -> None:
        """Multiplies gradients of earlier steps that the mean divides again."""
        for parameter in self._trained:
            peers = self._peers_of(parameter)
            if isinstance(peers, Divided) and parameter.grad is not None:
                parameter.grad *= peers.divisor

    def tensors(self) -> list[Tensor]:
        aside = [tensor for _, tensor in self.aside()]
        return [*aside, *(t for each in self._exchanges for t in each.tensors())]

    def aside(self) -> list[tuple[nn.Parameter, Tensor]]:
        """Returns the parameters with gradients of earlier steps set aside, and these."""
        pairs = zip(self._trained, self._before, strict=bool(self._before))
        return [(p, local(b)) for p, b in pairs if b is not None and p.grad is not None]

    def start(self, watch: Watch) -> None:
        if self._state != "begun":
            return
        self._state = "started"
        sent = self._one_each(self._trained)
        for other in self._trained[len(sent) :]:
            sent[0].grad = _plus(sent[0].grad, other.grad)
            other.grad = None
        kinds: dict[tuple[torch.dtype, Peers | None], list[nn.Parameter]] = {}
        for parameter in sent:
            kind = local(parameter).dtype, self._peers_of(parameter)
            kinds.setdefault(kind, []).append(parameter)
        for (_, peers), chosen in kinds.items():
            if self._sum is None and isinstance(peers, Divided):
                self._divided += chosen
            elif self._sum is not None or peers is not None:
                exchange = _Exchange(self.name, chosen, self._sum, peers)
                exchange.start(watch)
                self._exchanges.append(exchange)

    def finish(self, watch: Watch, what: Callable[[], str]) -> None:
        """Waits for the sums, and writes them into the gradients."""
        if self._state != "started":
            return
        self._state = "finished"
        for exchange in self._exchanges:
            exchange.finish(watch, what)
        self._exchanges = []
        for parameter in self._divided:
            redistribute_gradient(parameter)
            if parameter.grad is not None:
                peers = self._peers_of(parameter)
                assert peers is not None
                parameter.grad /= peers.divisor
        self._divided = []
        sent = self._one_each(self._trained)
        for parameter in self._trained[len(sent) :]:
            total = sent[0].grad
            parameter.grad = None if total is None else total.clone()
        for parameter, before in zip(self._trained, self._before, strict=True):
            parameter.grad = _plus(before, parameter.grad)
        self._before = []


def shapes_of(parameters: Sequence[Tensor]) -> list[list[Any]]:
    """Returns the facts that all ranks of an all-reduce must agree on."""
    return [[list(local(p).shape), str(p.dtype), *_shards(p), *_list_frozen(p)] for p in parameters]


def _shards(parameter: Tensor) -> list[str]:
    return [str(parameter.placements)] if isinstance(parameter, DTensor) else []


def _list_frozen(parameter: Tensor) -> list[str]:
    is_frozen = isinstance(parameter, nn.Parameter) and not parameter.requires_grad
    return ["frozen"] if is_frozen else []


CHUNK = 1 << 16
"""The elements that a checksum takes at once, so that it needs little memory."""


def checksum(parameters: Iterable[nn.Parameter]) -> list[float]:
    """Returns the sum and a weighted sum of each parameter."""
    return [number for parameter in parameters for number in _sums(local(parameter).detach())]


def _sums(values: Tensor) -> tuple[float, float]:
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    plain, weighted = [], []
    begin = 0
    for part in _chunks(values):
        chunk = part.double()
        weights = torch.arange(begin, begin + chunk.numel(), device=chunk.device)
        begin += chunk.numel()
        weights = weights.remainder_(1021).add_(1)
        plain.append(chunk.sum())
        weighted.append((chunk * weights).sum())
    if not plain:
        return 0.0, 0.0
    return torch.stack(plain).sum().item(), torch.stack(weighted).sum().item()


def _chunks(values: Tensor) -> Iterator[Tensor]:
    """Yields the elements in the order of their indices, without a copy of all of them."""
    if values.is_contiguous():
        yield from torch.split(values.view(-1), CHUNK) if values.numel() else ()
    elif values.dim() == 1 or values[0].numel() <= CHUNK:
        rows = max(1, CHUNK // max(1, values[:1].numel()))
        for part in torch.split(values, rows):
            yield from torch.split(part.reshape(-1), CHUNK)
    else:
        for part in values:
            yield from _chunks(part)
