"""Published peak memory alongside ours, which counts tensors: the memory that an allocator,
collectives and workspaces take in addition, from which the reserve of plans follows
(docs/Planning.md, "The reserve").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from pipesched import Configuration, Path
from pipesched.paper import Basis, Study

from . import validation, zero_bubble
from .study import GIB, data, plain_costs

GPT2_VOCABULARY = 50304
"""GPT-2's 50,257 tokens, in multiples of 128 as Megatron pads them (**assumption**)."""

SCHEDULES = ("1F1B", "ZB-1p", "ZB-2p")
"""Schedules of 2401.10241 with a stage per worker."""


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
    costs = plain_costs(
        model=_gpt(row), system="a100-sxm-80gb", microbatch_size=row["microbatch_size"]
    )
    point = Configuration(
        zero_bubble.FAMILIES[schedule],
        workers,
        row["microbatches"],
        paths=[Path(list(range(workers)), blocks=blocks)],
        costs=costs,
    )
    memory = point.simulate().memory
    assert memory is not None
    return float(memory.peak_bytes.max()) / GIB


def _zero_bubble() -> Iterator[tuple[str, str, float, float]]:
    """The peaks do not depend on the number of microbatches, so that each model has one row."""
    rows = data("zero_bubble_iclr24.json")["rows"]
    firsts = {row["model"]: row for row in reversed(rows)}
    for row in reversed(firsts.values()):
        for schedule in SCHEDULES:
            measured = row["measured_memory_gb"][schedule]
            counted = _zero_bubble_gib(row, schedule)
            yield "2401.10241 table 4", f"{row['model']}, {schedule}", measured, counted


def _torchtitan() -> Iterator[tuple[str, str, float, float]]:
    for row in validation.torchtitan():
        if row.quantity == "memory":
            yield row.source, row.case, row.measured, row.predicted


def memory() -> Study:
    """Published peaks next to the tensors that we count, and the memory of PyTorch's runtime.

    >>> study = memory()
    >>> study.frame[study.frame.above_percent < 0].case.tolist()
    ['405B FP8, interleaved']
    """
    rows = [*_zero_bubble(), *_torchtitan()]
    frame = pd.DataFrame(rows, columns=["source", "case", "measured_gib", "counted_gib"])
    frame["above_percent"] = 100 * (frame.measured_gib / frame.counted_gib - 1)
    frame["uncounted_percent"] = 100 * (1 - frame.counted_gib / frame.measured_gib)
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
