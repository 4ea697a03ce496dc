"""Process groups of gloo, ranks of other pipelines, and values that one rank computes for all."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store

from .errors import RemoteError
from .watch import Watch


def takes_host(group: dist.ProcessGroup) -> bool:
    name = str(dist.get_backend(group))
    return any(kind in name for kind in ("gloo", "mpi", "cpu:"))


def own_gloo(workers: Sequence[int], watch: Watch, name: str) -> Any:
    """Returns a process group of gloo of some ranks of a pipeline, this one among them."""
    store = PrefixStore(f"{name}/{'-'.join(map(str, workers))}", watch.store)
    number, size = workers.index(watch.rank), len(workers)
    return gloo_over(store, number, size, watch, f"ranks {list(workers)}")


def gloo_over(store: Store, number: int, size: int, watch: Watch, who: str) -> Any:
    """Returns a process group of gloo of all ranks that meet in a separate store."""
    limit = datetime.timedelta(days=1)  # the watch has its own limit
    made: list[Any] = []
    watch.wait(
        lambda: made.append(dist.ProcessGroupGloo(store, number, size, limit)),
        lambda: f"{who} to connect",
    )
    watch.carry(made[0], number, size)
    return made[0]


def begin_sum(buffer: Tensor, group: dist.ProcessGroup, host: Any = None) -> Any:
    """Starts to sum a tensor in place over a group, or on the host over one of gloo."""
    if host is not None and buffer.device.type == "cpu":
        return host.allreduce([buffer])
    return dist.all_reduce(buffer, group=group, async_op=True)


_numbers: WeakKeyDictionary[Any, Iterator[int]] = WeakKeyDictionary()


def store_of(group: dist.ProcessGroup) -> Store:
    """Returns a part of the store of torch.distributed for one runtime, the same on all ranks."""
    number = next(_numbers.setdefault(group, count()))
    prefix = f"pipesched/{group.group_name}/{number}"
    return PrefixStore(prefix, _get_default_store())


class Peers:
    """The ranks that hold the same stages in other pipelines. is_inside: modules exchange data in a
    cell.
    """

    def __init__(self, group: dist.ProcessGroup, watch: Watch, is_inside: bool = False) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.divisor = self.size
        """The divisor of sums over these ranks, for the mean over the pipelines."""
        self.store = store_of(group)
        self._watch = watch
        watch.share(self.store, f" of pipeline {self.rank}")
        if "gloo" in str(dist.get_backend(group)):
            watch.carry(group, self.rank, self.size, is_inside)
        self._host: Any = None
        if not takes_host(group):
            store, who = PrefixStore("host", self.store), "the same rank of other pipelines"
            self._host = gloo_over(store, self.rank, self.size, watch, who)

    def begin_sum(self, buffer: Tensor) -> Any:
        """Starts to sum a tensor in place over the pipelines; returns a handle."""
        return begin_sum(buffer, self.group, self._host)

    def meet(self, name: str, saying: Any) -> list[Any]:
        """Waits for all of these ranks, and returns the value that each of them sends (JSON)."""
        everyone, who = range(self.size), "this rank of pipeline"
        return self._watch.meet_in(self.store, name, saying, self.rank, everyone, who)


def _device(group: dist.ProcessGroup) -> torch.device:
    """Returns the device from which the group takes tensors: NCCL takes them only from GPUs."""
    untyped: Any = group
    if torch.device("cpu") in untyped._device_types:
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())


def from_first(find: Callable[[], Any], group: dist.ProcessGroup) -> Any:
    """Returns on all ranks of a group the result of `find` on the first one, sent as JSON:
    torch.distributed sends pickles, which can run code. Its exception is a RemoteError on other
    ranks.
    """
    if dist.get_rank(group) == 0:
        try:
            found = find()
        except Exception as error:
            _broadcast({"error": f"{type(error).__name__}: {error}"}, group)
            raise
        _broadcast({"found": found}, group)
        return found
    said = json.loads(_receive(group))
    if "error" in said:
        raise RemoteError(f"rank 0 failed: {said['error']}", 0)
    return said["found"]


def _broadcast(saying: Any, group: dist.ProcessGroup) -> None:
    contents = bytearray(json.dumps(saying).encode())
    device = _device(group)
    dist.broadcast(torch.tensor([len(contents)], device=device), group=group, group_src=0)
    dist.broadcast(
        torch.frombuffer(contents, dtype=torch.uint8).to(device), group=group, group_src=0
    )


def _receive(group: dist.ProcessGroup) -> bytes:
    device = _device(group)
    count = torch.zeros(1, dtype=torch.int64, device=device)
    dist.broadcast(count, group=group, group_src=0)
    contents = torch.empty(int(count.item()), dtype=torch.uint8, device=device)
    dist.broadcast(contents, group=group, group_src=0)
    return contents.cpu().numpy().tobytes()
