"""The ranks of pipelines beside each other that work together, and what they tell each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store

from ._gloo import gloo_over, takes_host
from ._watch import Watch

_numbers: WeakKeyDictionary[Any, Iterator[int]] = WeakKeyDictionary()


def store_of(group: dist.ProcessGroup) -> Store:
    """A part of the store of torch.distributed for one runtime, the same on all ranks, since these
    make their runtimes in the same order.
    """
    number = next(_numbers.setdefault(group, count()))
    prefix = f"pipesched/{group.group_name}/{number}"
    return PrefixStore(prefix, _get_default_store())


class Peers:
    """The ranks that hold the same stages, one in each pipeline, or parts of them.

    is_inside: whether modules exchange something over the group in the middle of a cell.
    """

    def __init__(self, group: dist.ProcessGroup, watch: Watch, is_inside: bool = False) -> None:
        self.group = group
        self.rank, self.size = dist.get_rank(group), dist.get_world_size(group)
        self.divisor = self.size
        """What sums over these ranks are divided by, for the mean over the pipelines."""
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
        """Begins to sum a tensor in place over the pipelines; returns what to wait for."""
        if self._host is not None and buffer.device.type == "cpu":
            return self._host.allreduce([buffer])
        return dist.all_reduce(buffer, group=self.group, async_op=True)

    def meet(self, name: str, saying: Any) -> list[Any]:
        """Waits for all of these ranks, and returns the value that each of them sends (JSON)."""
        keys = [f"meet/{name}/{number}" for number in range(self.size)]
        self.store.set(keys[self.rank], json.dumps(saying))

        def missing() -> str:
            absent = [str(n) for n, key in enumerate(keys) if not self.store.check([key])]
            return f"this rank of pipeline {', '.join(absent)} to come to {name!r}"

        self._watch.poll(lambda: self.store.check(keys), missing)
        return [json.loads(self.store.get(key)) for key in keys]
