"""Work inside of PyTorch that all ranks of a group do together, such as writing a checkpoint, in
another thread. Ranks note their progress in the store, from which the time limit counts, since
PyTorch waits long and does not say for whom.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from ..core.groups import store_of
from ..core.watch import Watch

TELL_SECONDS = 1.0
"""How often a rank notes that it has moved on."""


class Progress:
    """How far the ranks of a group are; `places` are what a rank reaches, in order, in words."""

    def __init__(self, group: dist.ProcessGroup, watch: Watch, places: dict[str, str]) -> None:
        untyped: Any = store_of(group)
        self._store, self._inner = untyped, untyped.clone()
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self._watch, self._places = watch, places
        self._told = 0.0
        if "gloo" in str(dist.get_backend(group)):
            watch.carry(group, self._rank, self._size)

    def moved(self) -> None:
        """Notes now and then that this rank goes on."""
        now = time.monotonic()
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._inner.add("moved", 1)

    def reach(self, place: str) -> None:
        """Notes that this rank has come to a place."""
        self._inner.set(f"{place}/{self._rank}", "")
        self._inner.add("moved", 1)

    def _what(self) -> str:
        for place, doing in self._places.items():
            keys = {rank: f"{place}/{rank}" for rank in range(self._size)}
            found = {rank: self._has(key) for rank, key in keys.items()}
            missing = [str(rank) for rank, has_come in found.items() if has_come is False]
            if None in found.values():
                return f"the store of torch.distributed to answer who is to {doing}"
            if missing:
                return f"rank {', '.join(missing)} to {doing}"
        others = "the other ranks to hear" if self._rank == 0 else "rank 0 to say"
        return f"{others} that all ranks are done"

    def _has(self, key: str) -> bool | None:
        found: bool | None = self._watch.ask(lambda: self._store.check([key]), None)
        return found

    def run(self, call: Callable[[], None]) -> None:
        """Runs the call in another thread. Raises its exception, the failure of another rank, or a
        PipelineTimeout with the rank that did not go on.
        """
        cuda: Any = torch.cuda
        device = cuda.current_device() if cuda.is_initialized() else None
        failures: list[CheckpointException] = []

        def inside() -> None:
            if device is not None:  # each thread has one of its own
                cuda.set_device(device)
            try:
                call()
            except CheckpointException as error:
                failures.append(error)

        def moves() -> Any:
            return self._watch.ask(lambda: self._store.add("moved", 0), None)

        with self._watch.looking():
            self._watch.wait(inside, self._what, moves=moves)
        if failures:
            raise failures[0]
