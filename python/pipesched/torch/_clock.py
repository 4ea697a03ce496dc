"""How far the clocks of ranks are apart.

Rank 0 sends a message to each other rank, which returns the time of its own clock. If that took as
long in one direction as in the other, the answer stands for the middle of the round trip:

    rank 0   t0 ------.            .------> t3        offset = t1 - (t0 + t3) / 2
    rank r             `--> t1 ---'                   wrong by at most (t3 - t0) / 2

The shortest of several round trips counts. Clocks are compared when a runtime is made and again
when a recording is gathered; between these two their offset is taken to grow evenly.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from ._messages import Link

TAG = 3
"""Tags of messages between stages never have this remainder modulo 4."""
ROUNDS = 24


class Offset(NamedTuple):
    """The clock of a rank beside that of rank 0, in ns."""

    at: int
    """The time of the rank's clock when the two clocks were compared."""
    ahead: int
    """The rank's clock minus that of rank 0."""
    error: int
    """The largest possible error of `ahead`."""


def _exchange(link: Link, buffer: Tensor, peer: int, is_send: bool) -> None:
    if link.host is not None:
        work = (link.host.send if is_send else link.host.recv)([buffer], peer, TAG)
    else:
        call = dist.isend if is_send else dist.irecv
        rank = dist.get_global_rank(link.group, peer)
        work = call(buffer, rank, group=link.group, tag=TAG)
    work.wait()


def _ask(link: Link, peer: int) -> Offset:
    """On rank 0: compares its clock with that of a peer."""
    question, answer = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    best = Offset(0, 0, 2**62)
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        _exchange(link, question, peer, is_send=True)
        _exchange(link, answer, peer, is_send=False)
        end = time.perf_counter_ns()
        at = int(answer.item())
        error = (end - begin + 1) // 2
        if error < best.error:
            best = Offset(at, at - (begin + end) // 2, error)
    return best


def _answer(link: Link) -> None:
    """On another rank: tells rank 0 the time."""
    question, answer = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    for _ in range(ROUNDS):
        _exchange(link, question, 0, is_send=False)
        answer[0] = time.perf_counter_ns()
        _exchange(link, answer, 0, is_send=True)


class Clocks:
    """The clocks of all ranks, compared some times by all of them together."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.offsets: list[list[Offset]] = []
        """On rank 0: the clocks of each comparison, by rank. Empty on other ranks."""
        self.comparisons = 0

    def compare(self) -> None:
        """Compares the clocks; all ranks call this."""
        watch = self._link.watch

        def ask() -> None:
            now = Offset(time.perf_counter_ns(), 0, 0)
            self.offsets.append([now, *(_ask(self._link, peer) for peer in range(1, watch.size))])

        call = ask if watch.rank == 0 else lambda: _answer(self._link)
        watch.wait(call, lambda: "the comparison of clocks")
        self.comparisons += 1
