"""Buffers that several ranks hold, such as the statistics of a batch normalization.

Each replica of a stage sees other microbatches, and each pipeline other batches. At the end of a
step their buffers can be made equal:

    average  floating-point buffers that any replica has changed become the mean of all of them;
             integers, such as a number of batches, grow by the amount that all replicas of a
             pipeline have counted, as they would without a pipeline
    first    the others take the first replica's buffers, as DDP does between steps

Buffers that no replica has changed in a step, such as tables and masks, are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..core.errors import PipelineError
from ..core.groups import Peers
from ..core.values import local
from ..core.watch import Watch
from .data_parallel import BufferRule
from .reduce import Sum


class SharedBuffers:
    """The buffers of some modules, over the ranks that hold them."""

    def __init__(
        self,
        name: str,
        modules: Sequence[nn.Module],
        rule: BufferRule,
        sum_up: Sum | None,
        replicas: int,
        is_first: bool,
        peers: Sequence[Peers],
    ) -> None:
        self.name = name
        self._modules = modules
        self._rule = rule
        self._sum, self._peers = sum_up, peers
        self._count = replicas * math.prod(each.size for each in peers)
        self._is_first = is_first and all(each.rank == 0 for each in peers)
        self._before: dict[str, Tensor] = {}
        self._is_due = False

    def buffers(self) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for number, module in enumerate(self._modules):
            found.update((f"{number}.{name}", b) for name, b in module.named_buffers())
        return {name: local(b) for name, b in found.items() if b.numel()}

    def begin(self) -> None:
        self._before = {name: b.detach().clone() for name, b in self.buffers().items()}
        self._is_due = bool(self._before)

    def finish(self, watch: Watch, what: Callable[[], str]) -> None:
        if not self._is_due:
            return
        self._is_due = False
        now = self.buffers()
        for dtype in dict.fromkeys(buffer.dtype for buffer in now.values()):
            chosen = {name: b for name, b in now.items() if b.dtype == dtype}
            is_count = not dtype.is_floating_point and not dtype.is_complex
            self._exchange(chosen, is_count, partial(self._wait, watch))
        self._before = {}

    def _wait(self, watch: Watch, sum_up: Sum, buffer: Tensor) -> None:
        call: Any = watch.start_call(partial(sum_up, buffer), lambda: self.name)
        watch.wait_for(buffer, call, lambda: self.name)

    def _exchange(
        self, chosen: dict[str, Tensor], is_count: bool, wait: Callable[[Sum, Tensor], None]
    ) -> None:
        adds = is_count and self._rule == "average"
        parts = []
        for name, buffer in chosen.items():
            value = buffer.detach()
            if adds:
                value = value.to(torch.int64) - self._old(name, value)
            elif self._rule == "first" and not self._is_first:
                value = torch.zeros_like(value)
            parts.append(value.reshape(-1).to(torch.int64 if is_count else value.dtype))
        changed = [float(not self._is_as_before(name, b)) for name, b in chosen.items()]
        total = torch.cat([*parts, torch.tensor(changed, device=parts[0].device).to(parts[0])])
        if self._sum is not None:
            wait(self._sum, total)
        for peers in [] if adds else self._peers:
            wait(peers.begin_sum, total)
        self._write(chosen, total, adds)

    def _old(self, name: str, buffer: Tensor) -> Tensor:
        return self._before.get(name, torch.zeros_like(buffer)).to(torch.int64)

    def _is_as_before(self, name: str, buffer: Tensor) -> bool:
        return name in self._before and torch.equal(self._before[name], buffer)

    def _write(self, chosen: dict[str, Tensor], total: Tensor, adds: bool) -> None:
        changed = total[-len(chosen) :].tolist()
        begin = 0
        for (name, buffer), count in zip(chosen.items(), changed, strict=True):
            part = total[begin : begin + buffer.numel()].view(buffer.shape)
            begin += buffer.numel()
            if not count:
                continue
            if adds:
                part = self._old(name, buffer) + part
            elif self._rule == "average":
                part = part / self._count
            with torch.no_grad():
                buffer.copy_(part.to(buffer.dtype))


class OneBuffer:
    """Buffers with copies on several ranks, which are right only while they do not change."""

    def __init__(self, name: str, ranks: Sequence[int], find: Callable[[], list[Tensor]]) -> None:
        self.name = name
        self._ranks, self._find = ranks, find
        self._before: list[Tensor] = []

    def begin(self) -> None:
        self._before = [buffer.detach().clone() for buffer in self._find()]

    def finish(self, watch: Watch, what: Callable[[], str]) -> None:
        before, self._before = self._before, []
        if all(torch.equal(a, b) for a, b in zip(self._find(), before, strict=True)):
            return
        raise PipelineError(
            f"{self.name} is one buffer of the whole model, and a step changed the copies of ranks "
            f"{list(self._ranks)} apart; give each place a module of its own, or put them on one "
            "rank"
        )
