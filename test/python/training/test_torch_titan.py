"""torchtitan trains by schedules that PipeSched writes (docs/Torch.md): losses and gradients are
those of its model without a pipeline.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pipesched import generate
from runtime_runs import run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None,
    reason="needs torchtitan: pip install 'pipesched[test]'",
)

RANKS, MICROBATCHES = 4, 8
LOOP, VEE = "Interleaved1F1B", "ZBVZeroBubble"
AFTER_I = {"gradient_after": "I"}
"""PyTorch's runtime sends the gradient of an input as soon as I has computed it."""
TABLES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "1F1B", {}) for name in "gpipe 1f1b eager-1f1b zb-h1 zb-h2 combined-1f1b".split()),
    ("greedy", "1F1B", AFTER_I),
    *((name, LOOP, {}) for name in "interleaved-1f1b interleaved-zb looped-bfs".split()),
    ("mpmd-circular", LOOP, {}),
    *((name, VEE, {}) for name in "zb-v v-half v-min zb-auto dualpipe-v".split()),
    ("hanayo", VEE, AFTER_I),
]
"""Families, and what `pipeline_parallel_schedule` says for each: how stages are placed."""


@dataclass(frozen=True)
class TitanJob:
    """A schedule in a file, and what `pipeline_parallel_schedule` says of it."""

    name: str
    file: str
    kind: str
    ranks: int = RANKS


def test_torchtitan_trains_by_a_csv(tmp_path: Path) -> None:
    jobs = []
    for family, kind, options in TABLES:
        file = tmp_path / f"{family}.csv"
        table = generate(family, workers=RANKS, microbatches=MICROBATCHES, **options)
        file.write_text(table.to_csv())
        jobs.append(TitanJob(family, str(file), kind))
    for name, ranks in run(jobs, tmp_path, "titan_ranks.py").items():
        for losses, gradients in ranks:
            assert losses <= 1e-9 and gradients <= 1e-9, name
