"""The differences of the clocks of ranks, and the recordings of all ranks on one clock.

Rank 0 sends a message to each other rank, which returns the time of its clock. If both
directions took equally long, the answer is the time at the middle of the round trip:

    rank 0   t0 ------.            .------> t3        offset = t1 - (t0 + t3) / 2
    rank r             `--> t1 ---'                   wrong by at most (t3 - t0) / 2

The shortest of several round trips counts. Clocks are compared when a runtime is made and again
when a recording is gathered; between these two their offset is taken to grow evenly.
"""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor

from pipesched import Instruction, Measurement, Schedule
from pipesched.results.measurement import NEVER, Clock, Stamps
from pipesched.support.options import ReceivePlacement

from ..comm.messages import Link
from ..core.watch import Watch
from .record import Event, Recording

TAG = 3
"""Tags of messages between stages never have this remainder modulo 4."""
ROUNDS = 24


class Offset(NamedTuple):
    """The clock of a rank relative to rank 0's, in ns."""

    at: int
    """The time of the rank's clock when the two clocks were compared."""
    ahead: int
    """The rank's clock minus rank 0's."""
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
    """On rank 0: compares its clock with a peer's."""
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
    """On another rank: sends rank 0 the time."""
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


Table = npt.NDArray[np.int64]
"""The stamps of one step: the 5 rows of `Stamps` by instructions."""


def _encode(table: Table) -> str:
    return base64.b64encode(zlib.compress(table.tobytes(), 1)).decode()


def _decode(text: str) -> Table:
    flat = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.int64)
    return flat.reshape(5, -1)


def _steps(recording: Recording, program: Sequence[Instruction]) -> dict[int, Table]:
    """Returns the complete steps of this rank."""
    events: dict[int, dict[int, Event]] = {}
    for event in recording:
        events.setdefault(event.step, {})[event.instruction.index] = event
    tables = {}
    for step, found in events.items():
        if len(found) != len(program):
            continue
        table = np.full((5, len(program)), NEVER, dtype=np.int64)
        for index, event in found.items():
            done = recording.done.get((step, index), NEVER)
            arrived = recording.arrived.get((step, index), NEVER)
            table[:, index] = event.ready_ns, event.start_ns, event.end_ns, done, arrived
        tables[step] = table
    return tables


def _rate(first: Offset, last: Offset) -> float:
    """Returns the rate of a clock above rank 0's."""
    return (last.ahead - first.ahead) / max(last.at - first.at, 1)


def _on_one_clock(table: Table, offsets: Sequence[Offset]) -> Table:
    """Converts times of the clock of a rank to rank 0's, by its first and last comparison."""
    first, rate = offsets[0], _rate(offsets[0], offsets[-1])
    ahead = first.ahead + np.rint((table - first.at) * rate).astype(np.int64)
    return np.where(table == NEVER, NEVER, table - ahead)


def _clock(offsets: Sequence[Sequence[Offset]]) -> Clock:
    first, last = offsets[0], offsets[-1]
    errors = [max(a.error, b.error) for a, b in zip(first, last, strict=True)]
    return Clock(
        error_s=max(errors) / 1e9,
        offsets_s=tuple(each.ahead / 1e9 for each in last),
        drifts_ppm=tuple(1e6 * _rate(a, b) for a, b in zip(first, last, strict=True)),
    )


def gather(
    recording: Recording,
    schedule: Schedule,
    receives: ReceivePlacement | None,
    program: Sequence[Instruction],
    watch: Watch,
    clocks: Clocks,
) -> Measurement | None:
    """Exchanges the recordings of all ranks. None if they have no complete step in common."""
    clocks.compare()
    mine = {step: _encode(table) for step, table in _steps(recording, program).items()}
    said: list[Any] = watch.meet(f"recording {clocks.comparisons}", [mine, clocks.offsets])
    steps = set.intersection(*(set(tables) for tables, _ in said))
    if not steps:
        return None
    numbers = sorted(steps, key=int)
    offsets = [[Offset(*each) for each in comparison] for comparison in said[0][1]]
    workers = []
    for rank, (tables, _) in enumerate(said):
        own = [comparison[rank] for comparison in offsets]
        parts = [_on_one_clock(_decode(tables[number]), own) for number in numbers]
        workers.append(Stamps(*np.stack(parts, axis=1)))
    return Measurement(
        schedule=schedule,
        receives=receives,
        numbers=tuple(map(int, numbers)),
        stamps=tuple(workers),
        clock=_clock(offsets),
        source="pipesched.torch",
    )
