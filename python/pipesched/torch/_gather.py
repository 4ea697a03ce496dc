"""From the recordings of all ranks to one measurement."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pipesched import Instruction, Measurement, Schedule
from pipesched._measurement import NEVER, Clock, Stamps
from pipesched._options import ReceivePlacement

from ._clock import Clocks, Offset
from ._record import Event, Recording
from ._watch import Watch

Table = npt.NDArray[np.int64]
"""The stamps of one step: 5 rows (those of `Stamps`) by instructions."""


def _encode(table: Table) -> str:
    return base64.b64encode(zlib.compress(table.tobytes(), 1)).decode()


def _decode(text: str) -> Table:
    flat = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.int64)
    return flat.reshape(5, -1)


def _steps(recording: Recording, program: Sequence[Instruction]) -> dict[int, Table]:
    """The complete steps of this rank."""
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


def _on_one_clock(table: Table, offsets: Sequence[Offset]) -> Table:
    """Converts times of the clock of a rank to that of rank 0, by its first and last comparison."""
    first, last = offsets[0], offsets[-1]
    rate = (last.ahead - first.ahead) / max(last.at - first.at, 1)
    ahead = first.ahead + np.rint((table - first.at) * rate).astype(np.int64)
    return np.where(table == NEVER, NEVER, table - ahead)


def _clock(offsets: Sequence[Sequence[Offset]]) -> Clock:
    first, last = offsets[0], offsets[-1]
    errors = [max(a.error, b.error) for a, b in zip(first, last, strict=True)]
    rates = [
        (b.ahead - a.ahead) / max(b.at - a.at, 1) for a, b in zip(first, last, strict=True)
    ]
    return Clock(
        error_s=max(errors) / 1e9,
        offsets_s=tuple(each.ahead / 1e9 for each in last),
        drifts_ppm=tuple(1e6 * rate for rate in rates),
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
