"""Random modules compared with PyTorch, in each type. The variables PIPESCHED_RANDOM_MODULES (their
number) and PIPESCHED_RANDOM_FIRST (the first seed) ask for others than the few that always run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")
pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")

import random_modules  # noqa: E402
from compiled_runs import needs_tool  # noqa: E402
from pipesched.frontends import FrontendError  # noqa: E402

COUNT = int(os.environ.get("PIPESCHED_RANDOM_MODULES", "6"))
FIRST = int(os.environ.get("PIPESCHED_RANDOM_FIRST", "4"))


@needs_tool
@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_random_modules_compute_what_pytorch_computes(seed: int, tmp_path: Path) -> None:
    name = list(random_modules.TYPES)[seed % 3]
    trial = random_modules.random_trial(seed, random_modules.TYPES[name])
    try:
        found = random_modules.differences(trial, tmp_path, name)
    except FrontendError as error:
        pytest.skip(f"refused: {error}")
    assert not found, f"{found}\n{trial.model}"
