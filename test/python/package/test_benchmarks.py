"""The scripts in benchmarks/ run, and the values that they compare are comparable."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

TOOLS = ROOT / "build" / "release" / "bin"
RUN = str(TOOLS / "pipesched-run")
BENCH = TOOLS / "pipesched-bench"

SMALLEST = {
    "compile_time": (
        [RUN, "--microbatches=4", "--families=1f1b", "--models=mlp", "--workers=2", "--repeats=1"],
        "1f1b",
    ),
    "compiled_steps": ([RUN, "--unit=1", "--steps=3"], "1f1b"),
    "optimize": (
        "--workers 2 --budgets 1 --copy-ratios 2 --costs 6.2B --max-evaluations 100 "
        "--threads 1".split(),
        "6.2B, 2 workers, 6 microbatches:",
    ),
    "runtime": (["--runs=1", "--chunks=2", "--mpi=none"], "loopback, buffered     all-reduce"),
    "stage_rates": (
        [RUN, "--repeats=1", "--sizes=32x2x4x1"],
        "| Llama, 1 x 4 tokens of 32, 2 heads |",
    ),
    "sweep": (["--jobs=1", "--workers=4", "--microbatches=8"], "configurations evaluated"),
    "torch_memory": (["--width=8", "--rows=8", "--microbatches=4"], "1f1b"),
    "torch_runtime": (["--cases", "one rank;1f1b", "--steps", "3", "--warm", "2"], "1f1b"),
    "torch_steps": (
        "--workers=2 --microbatches=2 --steps=1 --forward=1 --input=1 --weight=1 "
        "--families 1f1b zb-h1".split(),
        "zb-h1",
    ),
}
"""By script: arguments with which it takes the least time, and a text that it prints. torch_ranks
is a module of others.
"""
NEEDS = {"stage_rates": "torch_mlir"}


def run(script: Path, *arguments: str) -> str:
    """Returns the output of a script."""
    line = [sys.executable, str(script), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_script_is_run() -> None:
    scripts = {file.stem for file in (ROOT / "benchmarks").glob("*.py")}
    assert scripts == {*SMALLEST, "torch_ranks"}


@pytest.mark.parametrize("name", SMALLEST)
def test_smallest_size(name: str) -> None:
    arguments, said = SMALLEST[name]
    if RUN in arguments and not Path(RUN).exists():
        pytest.skip("the release tools are not built")
    if name == "runtime" and not shutil.which("clang-22"):
        pytest.skip("clang-22 is not installed")
    needed = NEEDS.get(name, "torch" if name.startswith("torch") else "")
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"needs {needed}")
    assert said in run(ROOT / "benchmarks" / f"{name}.py", *arguments)


@pytest.mark.skipif(not BENCH.exists(), reason="the release tools are not built")
def test_smallest_size_of_the_library() -> None:
    command = [str(BENCH), "--cells=64", "--benchmark_min_time=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "64" in done.stdout and "ERROR" not in done.stdout
