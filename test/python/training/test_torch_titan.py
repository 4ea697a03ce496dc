"""torchtitan trains by schedules that PipeSched writes (docs/Torch.md): losses and gradients are
those of its model without a pipeline.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import pytest
from pipesched import generate
from runtime_runs import run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None,
    reason="needs torchtitan: pip install 'pipesched[test]'",
)

RANKS = 2

KINDS = {
    "1f1b": "1F1B",
    "zb-h1": "1F1B",
    "interleaved-1f1b": "Interleaved1F1B",
    "zb-v": "ZBVZeroBubble",
}
"""What `pipeline_parallel_schedule` says for each family: how stages are placed."""


@dataclass(frozen=True)
class TitanJob:
    """A schedule in a file, and what `pipeline_parallel_schedule` says of it."""

    name: str
    file: str
    kind: str
    ranks: int = RANKS


def test_torchtitan_trains_by_a_csv(tmp_path: Path) -> None:
    jobs = []
    for family, kind in KINDS.items():
        file = tmp_path / f"{family}.csv"
        file.write_text(generate(family, workers=RANKS, microbatches=4).to_csv())
        jobs.append(TitanJob(family, str(file), kind))
    for name, ranks in run(jobs, tmp_path, "titan_ranks.py").items():
        for losses, gradients in ranks:
            assert losses <= 1e-9 and gradients <= 1e-9, name
