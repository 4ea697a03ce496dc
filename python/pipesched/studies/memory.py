"""Published peak memory beside ours, which counts tensors: what an allocator, collectives and
workspaces take on top, from which the reserve of plans follows (docs/Planning.md, "The reserve").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pipesched import Configuration, Costs, Path

from . import validation, zero_bubble
from .study import Basis, Study, data

GPT2_VOCABULARY = 50304
"""GPT-2's 50,257 tokens, in multiples of 128 as Megatron pads them (**assumption**)."""

SCHEDULES = ("1F1B", "ZB-1p", "ZB-2p")
"""Schedules of 2401.10241 with a stage per worker."""


@dataclass(frozen=True)
class Row:
    """One measured peak of an accelerator, and the tensors that we count."""

    source: str
    case: str
    measured_gib: float
    counted_gib: float

    @property
    def above_percent(self) -> float:
        """How far the measurement is above what we count."""
        return 100 * (self.measured_gib / self.counted_gib - 1)

    @property
    def uncounted_percent(self) -> float:
        """The part of the measurement that we do not count."""
        return 100 * (1 - self.counted_gib / self.measured_gib)


def _gpt(row: Mapping[str, Any]) -> dict[str, Any]:
    """A model of 2401.10241: GPT-3 as in Megatron, gradients of 4 bytes."""
    gpt = validation.Gpt(row["hidden"], row["heads"], row["layers"])
    return gpt.description() | {
        "vocabulary": GPT2_VOCABULARY,
        "sequence": row["sequence"],
        "gradient_bytes_per_parameter": 4,
    }


def _zero_bubble_gib(row: Mapping[str, Any], schedule: str) -> float:
    workers = row["workers"]
    each = (row["layers"] + 2) // workers
    blocks = [each - 1, *[each] * (workers - 2), each - 1]
    costs = Costs(model=_gpt(row), system="a100-sxm-80gb", microbatch_size=row["microbatch_size"])
    point = Configuration(
        zero_bubble.FAMILIES[schedule],
        workers,
        row["microbatches"],
        paths=[Path(list(range(workers)), blocks=blocks)],
        costs=costs,
    )
    memory = point.simulate().memory
    assert memory is not None
    return float(memory.peak_bytes.max()) / validation.GIB


def _zero_bubble() -> Iterator[Row]:
    """The peaks do not depend on the number of microbatches, so that each model has one row."""
    rows = data("zero_bubble_iclr24.json")["rows"]
    firsts = {row["model"]: row for row in reversed(rows)}
    for row in reversed(firsts.values()):
        for schedule in SCHEDULES:
            measured = row["measured_memory_gb"][schedule]
            counted = _zero_bubble_gib(row, schedule)
            yield Row("2401.10241 table 4", f"{row['model']}, {schedule}", measured, counted)


def _torchtitan() -> Iterator[Row]:
    for row in validation.torchtitan():
        if row.quantity == "memory":
            yield Row(row.source, row.case, row.measured, row.predicted)


def memory() -> Study:
    """Published peaks beside the tensors that we count, and what PyTorch's runtime holds.

    >>> study = memory()
    >>> study.frame[study.frame.above_percent < 0].case.tolist()
    ['405B FP8, interleaved']
    """
    rows = [*_zero_bubble(), *_torchtitan()]
    frame = pd.DataFrame(
        {
            "source": [row.source for row in rows],
            "case": [row.case for row in rows],
            "measured_gib": [row.measured_gib for row in rows],
            "counted_gib": [row.counted_gib for row in rows],
            "above_percent": [row.above_percent for row in rows],
            "uncounted_percent": [row.uncounted_percent for row in rows],
        }
    )
    missing = frame.uncounted_percent
    return Study(
        title="Peak memory: measured, and counted as tensors",
        frame=frame,
        basis=Basis(
            given="models, degrees, microbatches and schedules as the publications state them;"
            " gradients of 4 bytes, as both frameworks sum them",
            fitted="nothing",
            open=f"not counted: {missing.median():.1f} % of the measurement in the median,"
            f" {missing.max():.1f} % at most. Not stated: the kernels of attention and the"
            " vocabulary of 2401.10241, unfused and GPT-2's here; whether its GB are 2^30 bytes, as"
            " here, or 10^9, and whether they are reserved or allocated; those of torchtitan are"
            " reserved",
        ),
    )
