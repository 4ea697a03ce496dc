"""Megatron's combined 1F1B, and what of the experts' exchanges a schedule of pairs hides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ._errors import PipeSchedError
from ._making import generate, loads
from ._options import integer
from ._overlap import Pair
from ._schedule import Schedule

Part = Literal["warm_up", "steady", "drain"]

PARTS: tuple[Part, ...] = ("warm_up", "steady", "drain")
"""The parts of a row: before its first backward, between, and behind its last forward."""

NAME = "combined-1f1b"

Unit = tuple[int, int]
"""A chunk and a microbatch."""


def _units(chunks: int, group: int, microbatches: int) -> Iterator[Unit]:
    """The order of forwards: groups take turns on the chunks. Backwards have the chunks reversed.

    >>> list(_units(2, 2, 4))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    """
    for first in range(0, microbatches, group):
        for chunk in range(chunks):
            for microbatch in range(first, min(first + group, microbatches)):
                yield chunk, microbatch


def _row(worker: int, workers: int, microbatches: int, chunks: int, group: int) -> str:
    forwards = [f"{c * workers + worker}F{m}" for c, m in _units(chunks, group, microbatches)]
    backwards = [
        f"{(chunks - 1 - c) * workers + worker}B{m}" for c, m in _units(chunks, group, microbatches)
    ]
    warm_up = (chunks - 1) * group + 2 * (workers - 1 - worker) + 1
    paired = max(0, len(forwards) - warm_up)
    pairs = [
        f"{f}+{b}" for f, b in zip(forwards[warm_up:], backwards[:paired], strict=True)
    ]
    return " ".join([*forwards[:warm_up], *pairs, *backwards[paired:]])


def combined_1f1b(
    workers: int,
    microbatches: int,
    chunks: int = 1,
    *,
    group: int | None = None,
    name: str = "combined_1f1b",
) -> Schedule:
    """Megatron-Core's 1F1B with `overlap_moe_expert_parallel_comm`: interleaved 1F1B with one more
    forward in the warm-up, whose steady state runs pairs of a forward and a backward
    (`combined_1f1b.py`). A pipeline of several workers needs chunks; groups of `group` microbatches
    take turns on them, by default as many as there are workers, and divide the microbatches.

    >>> print(combined_1f1b(1, 3))
    module {
      pipe.schedule @combined_1f1b workers 1 microbatches 3 {
        path on [0]
        worker 0 runs [0F0 0F1+0B0 0F2+0B1 0B2]
      }
    }
    <BLANKLINE>
    """
    for what, value in (("workers", workers), ("microbatches", microbatches), ("chunks", chunks)):
        integer(what, value, 1)
    if workers > 1 and chunks == 1:
        raise PipeSchedError(
            f"{NAME} on {workers} workers takes chunks, at least 2 (stages per worker), found 1:"
            " without them the backward that a forward would run beside is not there yet"
        )
    group = workers if group is None else integer("group", group, 1)
    if group < workers or microbatches % group:
        raise PipeSchedError(
            f"{NAME} on {workers} workers takes groups of at least {workers} that divide the"
            f" microbatches, found groups of {group} and {microbatches} microbatches"
        )
    path = ", ".join(str(stage % workers) for stage in range(workers * chunks))
    rows = [
        f"worker {w} runs [{_row(w, workers, microbatches, chunks, group)}]" for w in range(workers)
    ]
    body = "\n".join([f"path on [{path}]", *rows])
    (schedule,) = loads(
        f"pipe.schedule @{name} workers {workers} microbatches {microbatches} {{\n{body}\n}}"
    )
    return schedule


# What is hidden


@dataclass(frozen=True)
class Hidden:
    """Exchanges of all workers of a step: for how long they run, and how much of that is hidden, in
    each part of the rows.
    """

    name: str
    makespan_ps: int
    exchange_ps: dict[Part, int]
    hidden_ps: dict[Part, int]

    def share(self, *parts: Part) -> float | None:
        """The part of the exchanges that is hidden, in all or some parts; None without any."""
        chosen = parts or PARTS
        exchange = sum(self.exchange_ps[part] for part in chosen)
        return sum(self.hidden_ps[part] for part in chosen) / exchange if exchange else None

    @property
    def seen_ps(self) -> int:
        """What remains, of all workers."""
        return sum(self.exchange_ps.values()) - sum(self.hidden_ps.values())


@dataclass(frozen=True)
class _Cells:
    """Exchanges of cells and of pairs, and what of them is hidden, ps. A backward by itself hides
    some behind its own W.
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
    """Times a schedule whose stages all hold the layers of a pair, and says what of the exchanges
    it hides. Messages between stages are free.
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
                part = (
                    "warm_up" if i < backwards[0] else "drain" if i > forwards[-1] else "steady"
                )
                amounts = cells.forward if phase == "F" else cells.backward
            if phase == "I":  # its W runs apart
                amounts = pair.alone_exchange_ps[1], 0
            exchange[part] += amounts[0]
            hidden[part] += amounts[1]
    return Hidden(schedule.name, report.execution.makespan_ps, exchange, hidden)


def plain(pair: Pair, workers: int, microbatches: int, chunks: int, group: int | None) -> Hidden:
    """The same step without overlap: 1F1B or interleaved 1F1B, whose cells take all their parts."""
    options: dict[str, Any] = {}
    family = "1f1b"
    if chunks > 1:
        family = "interleaved-1f1b"
        options = {"chunks": chunks, "group": workers if group is None else group}
    made = generate(family, workers=workers, microbatches=microbatches, name=family, **options)
    backward = pair.input_ps + pair.weights_ps
    report = made.simulate(times=f"F={pair.in_turn_ps - backward}ps,B={backward}ps")
    cells = workers * chunks * microbatches
    seen: dict[Part, int] = dict.fromkeys(PARTS, 0)
    seen["steady"] = sum(pair.alone_exchange_ps) * cells
    return Hidden(family, report.execution.makespan_ps, seen, dict.fromkeys(PARTS, 0))
