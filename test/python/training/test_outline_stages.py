"""Gradients of JAX and PyTorch, each one function, train after `pipe-outline-stages` as they do in
JAX, with whole and split backwards.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch_mlir", reason="needs torch-mlir: pip install 'pipesched[test]'")
jax = pytest.importorskip("jax", reason="needs JAX: pip install 'pipesched[test]'")

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "stages" / "outline.py"
TOOLS = ROOT / "build" / "release" / "bin"
STEPS = 4

needs_tools = pytest.mark.skipif(
    not (TOOLS / "pipesched-run").exists(), reason="the release tools are not built"
)


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("outline", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def train_undivided() -> list[float]:
    """The losses of the function itself, with gradients summed over microbatches."""
    script = load_script()
    step = jax.jit(script.jax_step())
    parameters, inputs, targets = script.arrays()
    losses = []
    for _ in range(STEPS):
        found = [step(parameters, x, t) for x, t in zip(inputs, targets, strict=True)]
        losses.append(float(sum(loss for loss, _, _ in found)))
        sums = jax.tree.map(lambda *each: sum(each), *(gradients for _, gradients, _ in found))
        parameters = [w - script.RATE * g for w, g in zip(parameters, sums, strict=True)]
    return losses


def run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_tools
@pytest.mark.parametrize("framework", ["jax", "torch"])
def test_cut_gradients_train_as_whole_ones(framework: str, tmp_path: Path) -> None:
    file, cut = tmp_path / "step.mlir", tmp_path / "cut.mlir"
    run(sys.executable, SCRIPT, framework, file)
    wanted = train_undivided()
    assert wanted[-1] < 0.95 * wanted[0]
    for options, family in (("", "1f1b"), ("{split-backward}", "zb-h1")):
        passes = f"builtin.module(pipe-outline-stages{options})"
        run(TOOLS / "pipesched-opt", file, f"--pass-pipeline={passes}", "-o", cut)
        printed = run(
            TOOLS / "pipesched-run",
            cut,
            f"--parameters={file.with_suffix('.parameters')}",
            f"--schedule={family}",
            f"--steps={STEPS}",
        )
        found = [float(loss) for loss in re.findall(r"^step \d+: loss (\S+),", printed, re.M)]
        assert found == pytest.approx(wanted, rel=1e-5)
