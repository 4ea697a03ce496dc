"""Process groups of gloo beside those of the caller."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store

from ._watch import Watch


def takes_host(group: dist.ProcessGroup) -> bool:
    """Whether a process group takes tensors of the host."""
    name = str(dist.get_backend(group))
    return any(kind in name for kind in ("gloo", "mpi", "cpu:"))


def own_gloo(workers: Sequence[int], watch: Watch, name: str) -> Any:
    """A process group of gloo of some ranks of a pipeline, this one among them."""
    store = PrefixStore(f"{name}/{'-'.join(map(str, workers))}", watch.store)
    number, size = workers.index(watch.rank), len(workers)
    return gloo_over(store, number, size, watch, f"ranks {list(workers)}")


def gloo_over(store: Store, number: int, size: int, watch: Watch, who: str) -> Any:
    """A process group of gloo of all ranks that meet in a store of their own."""
    limit = datetime.timedelta(days=1)  # the watch limits waits itself
    made: list[Any] = []
    watch.wait(
        lambda: made.append(dist.ProcessGroupGloo(store, number, size, limit)),
        lambda: f"{who} to connect",
    )
    watch.carry(made[0], number, size)
    return made[0]
