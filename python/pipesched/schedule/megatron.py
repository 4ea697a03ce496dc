"""Megatron's combined 1F1B, and the exchanges of experts that a schedule of pairs hides."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal, cast

from ..costs.pairs import STREAMS, Pair
from ..support.options import Phase
from .generation import generate
from .schedule import Schedule

Part = Literal["warm_up", "steady", "drain"]

PARTS: tuple[Part, ...] = ("warm_up", "steady", "drain")
"""The parts of a row: before its first backward, between, and after its last forward."""

NAME = "combined-1f1b"


# Hidden messages


@dataclass(frozen=True)
class Hidden:
    """Exchanges of all workers of a step, and the hidden part of them, by part of the rows."""

    name: str
    makespan_ps: int
    exchange_ps: dict[Part, int]
    hidden_ps: dict[Part, int]

    def share(self, *parts: Part) -> float | None:
        """The hidden share of the exchanges, in all or some parts; None without any."""
        chosen = parts or PARTS
        exchange = sum(self.exchange_ps[part] for part in chosen)
        return sum(self.hidden_ps[part] for part in chosen) / exchange if exchange else None

    @property
    def seen_ps(self) -> int:
        """The exposed rest, of all workers."""
        return sum(self.exchange_ps.values()) - sum(self.hidden_ps.values())


@dataclass(frozen=True)
class _Cells:
    """The exchanges of cells and of pairs, and their hidden part, in ps. A backward hides part of
    its exchanges under its W.
    """

    pair: tuple[int, int]
    forward: tuple[int, int]
    backward: tuple[int, int]


def _cells(pair: Pair) -> _Cells:
    return _Cells(
        (pair.exchange_ps, pair.hidden_ps),
        (pair.alone_exchange_ps[0], 0),
        (pair.backward_exchange_ps, pair.backward_hidden_ps),
    )


def hidden_in(schedule: Schedule, pair: Pair) -> Hidden:
    """Returns the hidden exchanges of a schedule whose stages all hold the layers of a pair.
    Messages between stages take no time.
    """
    report = schedule.simulate(times=pair.times())
    frame = report.to_frame()
    cells = _cells(pair)
    exchange: dict[Part, int] = dict.fromkeys(PARTS, 0)
    hidden: dict[Part, int] = dict.fromkeys(PARTS, 0)
    for _, row in frame.groupby("worker"):
        phases, pairs = row.phase.astype(str).tolist(), row.pair.tolist()
        backwards = [i for i, phase in enumerate(phases) if phase in "BI"]
        forwards = [i for i, phase in enumerate(phases) if phase == "F"]
        for i, phase in enumerate(phases):
            if phase == "W" or (pairs[i] >= 0 and phase != "F"):
                continue  # W exchanges nothing, and pairs count with their forward
            if pairs[i] >= 0:
                part: Part = "steady"
                amounts = cells.pair
            else:
                part = "warm_up" if i < backwards[0] else "drain" if i > forwards[-1] else "steady"
                amounts = cells.forward if phase == "F" else cells.backward
            if phase == "I":  # its W runs separately
                amounts = pair.alone_exchange_ps[1], 0
            exchange[part] += amounts[0]
            hidden[part] += amounts[1]
    return Hidden(schedule.name, report.execution.makespan_ps, exchange, hidden)


def plain(pair: Pair, workers: int, microbatches: int, chunks: int, group: int | None) -> Hidden:
    """Returns the same step without overlap, by 1F1B or interleaved 1F1B: each cell takes the time
    of all its parts.
    """
    options: dict[str, Any] = {}
    family = "1f1b"
    if chunks > 1:
        family = "interleaved-1f1b"
        options = {"chunks": chunks} if group is None else {"chunks": chunks, "group": group}
    made = generate(family, workers=workers, microbatches=microbatches, name=family, **options)
    backward = pair.input_ps + pair.weights_ps
    report = made.simulate(times=f"F={pair.in_turn_ps - backward}ps,B={backward}ps")
    cells = workers * chunks * microbatches
    seen: dict[Part, int] = dict.fromkeys(PARTS, 0)
    seen["steady"] = sum(pair.alone_exchange_ps) * cells
    return Hidden(family, report.execution.makespan_ps, seen, dict.fromkeys(PARTS, 0))


# Traces

_THREADS = (*STREAMS, "cells", "second cells of pairs")


def trace_of(schedule: Schedule, pair: Pair) -> str:
    """A trace for Perfetto: the streams of each worker, and its cells."""
    frame = schedule.simulate(times=pair.times()).to_frame()
    events: list[dict[str, Any]] = []
    for number in range(schedule.workers):
        names = [(0, "process_name", f"{schedule.name}: worker {number}")]
        names += [(tid, "thread_name", name) for tid, name in enumerate(_THREADS)]
        events += [
            {"ph": "M", "name": key, "pid": number, "tid": tid, "args": {"name": name}}
            for tid, key, name in names
        ]
        for cell in frame[frame.worker == number].itertuples():
            events += _events_of(cell, number, pair)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"


def _events_of(cell: Any, worker: int, pair: Pair) -> list[dict[str, Any]]:
    begin, phase = int(cell.start_ps), str(cell.phase)
    is_paired = cell.pair >= 0
    shown = {"stage": int(cell.stage), "microbatch": int(cell.microbatch)}
    whole = {
        "ph": "X",
        "name": f"{shown['stage']}{phase}{shown['microbatch']}" + ("+" if is_paired else ""),
        "cat": "cell",
        "pid": worker,
        "tid": len(STREAMS) + (is_paired and phase != "F"),
        "ts": begin / 1e6,
        "dur": (int(cell.end_ps) - begin) / 1e6,
        "args": shown,
    }
    runs = pair.alone_runs[cast(Phase, phase)]
    if is_paired:
        runs = tuple(run for run in pair.runs if (run.phase == "F") == (phase == "F"))
    return [whole, *(run.event(worker, begin, **shown) for run in runs)]
