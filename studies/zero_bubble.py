"""Bubble rates of Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024, arXiv 2401.10241)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd
from pipesched import Configuration, Costs, FamilyOptions, simulate_batch
from pipesched.paper import Basis, Pictures, Study, figure

from .study import data

FAMILIES = {
    "1F1B": "1f1b",
    "1F1B-I": "interleaved-1f1b",
    "ZB-H1": "zb-h1",
    "ZB-H2": "zb-h2",
    "ZB-1p": "zb-h1",
    "ZB-2p": "zb-h2",
}
"""Our family for each of their schedules. Their automatic schedule with the memory of 1F1B has the
rates of ZB-H1; the nearest to twice that memory is ZB-H2, which holds one activation less.
"""


@dataclass(frozen=True)
class Measured:
    """One row of tables 5 and 9: a model, its profiled times, and the rates by schedule."""

    model: str
    layers: int
    workers: int
    microbatches: int
    times: Mapping[str, int]
    """Picoseconds of one stage; `comm` is a message's."""
    rates: Mapping[str, float]

    @property
    def chunks(self) -> int:
        """Chunks of 1F1B-I: one layer each; the first and the last stage have one fewer."""
        return (self.layers + 2) // self.workers


@cache
def published() -> tuple[Measured, ...]:
    """The rows of the tables.

    >>> published()[0].rates["ZB-H1"]
    0.1585
    """
    return tuple(
        Measured(
            row["model"],
            row["layers"],
            row["workers"],
            row["microbatches"],
            {name: round(1e9 * ms) for name, ms in row["profiled_ms"].items()},
            row["published_bubble_rate"],
        )
        for row in data("zero_bubble_iclr24.json")["rows"]
    )


def configuration(measured: Measured, schedule: str) -> Configuration:
    """One of their schedules, as one of our families."""
    family = FAMILIES[schedule]
    chunks = measured.chunks if family == "interleaved-1f1b" else 1
    times = {
        name: time if name == "comm" else time // chunks for name, time in measured.times.items()
    }
    return Configuration(
        family,
        measured.workers,
        measured.microbatches,
        FamilyOptions(chunks=chunks) if chunks > 1 else FamilyOptions(),
        costs=Costs(times=times),
        transport="delay",
    )


def _without_delays(measured: Measured, span_ps: int) -> float:
    """The rate of 1F1B-I without D of its messages, which is the published one."""
    work = measured.microbatches * sum(measured.times[phase] for phase in "FIW")
    return 1 - work / (span_ps - measured.workers * measured.times["comm"])


def _row(measured: Measured, schedule: str, point: Configuration, span: float) -> dict[str, Any]:
    rate = measured.rates[schedule]
    row = {
        "model": measured.model,
        "microbatches": measured.microbatches,
        "schedule": schedule,
        "family": point.family,
        "bubble_percent": 100 * span,
        "published_bubble_percent": 100 * rate,
        "error_points": 100 * (span - rate),
        "same_digits": round(span, 4) == rate,
    }
    if schedule == "1F1B-I":
        work = measured.microbatches * sum(
            measured.chunks * (measured.times[phase] // measured.chunks) for phase in "FIW"
        )
        total = round(work / (1 - span))
        row["less_d_messages_percent"] = 100 * _without_delays(measured, total)
    return row


def _draw(frame: pd.DataFrame) -> Pictures:
    groups = list(frame.groupby(["model", "microbatches"], sort=False))
    made, all_axes = figure(2, 3, width=10.0, height=5.0)
    for axes, ((model, n), rows) in zip(all_axes, groups, strict=True):
        places = list(range(len(rows)))
        axes.bar(places, rows.bubble_percent, width=0.6, label="ours")
        axes.plot(places, rows.published_bubble_percent, "k_", markersize=14, label="published")
        axes.set_xticks(places, rows.schedule, rotation=30)
        axes.set(title=f"{model}, N = {n}", ylabel="bubble [%]")
    all_axes[0].legend()
    return {"zero-bubble": made}


def zero_bubble() -> Study:
    """Bubble rates from profiled times, with a delay per message.

    >>> frame = zero_bubble().frame
    >>> bool(frame[frame.schedule.isin(["1F1B", "ZB-H1", "ZB-H2", "ZB-1p"])].same_digits.all())
    True
    """
    keys = [(measured, schedule) for measured in published() for schedule in FAMILIES]
    points = [configuration(*key) for key in keys]
    spans = simulate_batch(points).span_bubble_ratio
    rows = [
        _row(*key, point, float(span)) for key, point, span in zip(keys, points, spans, strict=True)
    ]
    frame = pd.DataFrame(rows)
    same = frame.groupby("schedule", sort=False).same_digits.agg(["sum", "size"])
    counts = ", ".join(f"{name} {row['sum']} of {row['size']}" for name, row in same.iterrows())
    return Study(
        title="Bubble rates of Qi et al. (ICLR 2024), from its profiled times",
        frame=frame,
        basis=Basis(
            given="profiled F, I, W and message delay of two models; rates computed from them",
            fitted="nothing",
            open=f"the same to the four printed digits: {counts}. Published 1F1B-I leaves out D"
            " messages; ZB-2p frees a part of an activation at I, which lets it hold more of them"
            " than ours, whole until W",
        ),
        draw=lambda: _draw(frame),
    )
