"""torchtitan trains by schedules that PipeSched writes (docs/Torch.md): losses and gradients are
those of its model without a pipeline.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pipesched import generate

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None,
    reason="needs torchtitan: pip install 'pipesched[test]'",
)

KINDS = {
    "1f1b": "1F1B",
    "zb-h1": "1F1B",
    "interleaved-1f1b": "Interleaved1F1B",
    "zb-v": "ZBVZeroBubble",
}
"""What `pipeline_parallel_schedule` says for each family: how stages are placed."""


def test_torchtitan_trains_by_a_csv(tmp_path: Path) -> None:
    jobs = []
    for family, kind in KINDS.items():
        file = tmp_path / f"{family}.csv"
        file.write_text(generate(family, workers=2, microbatches=4).to_csv())
        jobs.append({"name": family, "file": str(file), "kind": kind})
    (tmp_path / "jobs.json").write_text(json.dumps(jobs))
    script = Path(__file__).with_name("titan_ranks.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    said = [done.stderr, *(file.read_text()[-2000:] for file in tmp_path.glob("*.err"))]
    assert done.returncode == 0, "\n".join(said)
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert found.keys() == KINDS.keys()
        for losses, gradients in found.values():
            assert losses <= 1e-9 and gradients <= 1e-9
