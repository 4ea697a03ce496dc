"""The scripts in benchmarks/ run, and the values that they compare are comparable."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

SCRIPT = ROOT / "benchmarks" / "optimize.py"
TOOLS = ROOT / "build" / "release" / "bin"
RUN = str(TOOLS / "pipesched-run")
BENCH = TOOLS / "pipesched-bench"

SMALLEST = {
    "compile_time": (
        [RUN, "--microbatches=4", "--families=1f1b", "--models=mlp", "--workers=2", "--repeats=1"],
        "1f1b",
    ),
    "compiled_steps": ([RUN, "--unit=1", "--steps=3"], "1f1b"),
    "runtime": (["--runs=1", "--chunks=2", "--mpi=none"], "loopback, buffered     all-reduce"),
    "stage_rates": (
        [RUN, "--repeats=1", "--sizes=32x2x4x1"],
        "| Llama, 1 x 4 tokens of 32, 2 heads |",
    ),
    "sweep": (["--jobs=1", "--workers=4", "--microbatches=8"], "configurations evaluated"),
    "torch_memory": (["--width=8", "--rows=8", "--microbatches=4"], "1f1b"),
    "torch_steps": (
        "--workers=2 --microbatches=2 --steps=1 --forward=1 --input=1 --weight=1 "
        "--families 1f1b zb-h1".split(),
        "zb-h1",
    ),
}
"""By script: arguments with which it takes the least time, and a text that it prints. The other
scripts have tests of their own below; torch_ranks is a module of theirs.
"""
NEEDS = {"stage_rates": "torch_mlir"}
OTHERS = {"optimize", "torch_ranks", "torch_runtime"}


def run(
    *arguments: str, status: int = 0, script: Path = SCRIPT
) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, str(script), *arguments]
    done = subprocess.run(line, capture_output=True, text=True, env=dict(os.environ), check=False)
    assert done.returncode == status, done.stderr
    return done


def test_every_script_is_run() -> None:
    scripts = {file.stem for file in (ROOT / "benchmarks").glob("*.py")}
    assert scripts == SMALLEST.keys() | OTHERS


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
    done = run(*arguments, script=ROOT / "benchmarks" / f"{name}.py")
    assert said in done.stdout


@pytest.mark.skipif(not BENCH.exists(), reason="the release tools are not built")
def test_smallest_size_of_the_library() -> None:
    command = [str(BENCH), "--cells=64", "--benchmark_min_time=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "64" in done.stdout and "ERROR" not in done.stdout


@pytest.mark.parametrize("costs", ["1.5B", "paper-gpt/h100-sxm"])
def test_idle_at_equal_memory(costs: str) -> None:
    choices = ["--workers", "2,4", "--budgets", "0.5,1", "--copy-ratios", "1", "--costs", costs]
    limits = ["--max-evaluations", "300", "--threads", "1", "--microbatches", "2"]
    done = run(*choices, *limits, "--format", "json")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert [(row["workers"], row["budget"]) for row in rows] == [(2, 0.5), (2, 1), (4, 0.5), (4, 1)]
    for row in rows:
        assert row["microbatches"] == 2 * row["workers"]
        assert row["fitting"][:1] == ([row["best_known"]] if row["best_known"] else [])
        assert 0 <= row["optimized_idle"] < 1
        if row["best_known"]:
            # The search starts from the best schedule known.
            assert row["optimized_idle"] <= row["best_known_idle"]
            assert row["step_saved"] >= 0
    for less, more in (rows[:2], rows[2:]):
        assert "1f1b" in more["fitting"] and "1f1b" not in less["fitting"]
        assert more["best_known_idle"] <= (less["best_known_idle"] or 1)


def test_order_alone_fits_where_nothing_known_does() -> None:
    choices = ["--workers", "4", "--budgets", "0.25", "--copy-ratios", "1", "--costs", "1.5B"]
    limits = ["--max-evaluations", "300", "--threads", "1", "--microbatches", "2"]
    done = run(*choices, *limits, "--without-offload", "--format", "json")
    (row,) = json.loads(done.stdout)
    assert row["fitting"] == []
    assert row["best_known"] is None
    assert row["saved"] is None
    assert 0 < row["optimized_idle"] < 1


def test_grid_of_saved_rows(tmp_path: Path) -> None:
    choices = ["--workers", "2", "--budgets", "0.5,1", "--copy-ratios", "1,2", "--costs", "6.2B"]
    limits = ["--max-evaluations", "100", "--threads", "1"]
    saved = run(*choices, *limits, "--format", "json").stdout
    (tmp_path / "rows.json").write_text(saved)
    lines = run("--rows", str(tmp_path / "rows.json"), "--format", "grid").stdout.splitlines()
    assert lines[1] == "6.2B, 2 workers, 6 microbatches:"
    assert lines[3] == "| memory | copy 1 F | copy 2 F |"
    assert [line[:9] for line in lines[5:7]] == ["| 0.50 | ", "| 1.00 | "]
    for row in json.loads(saved):
        known = "none" if row["best_known"] is None else f"{100 * row['best_known_idle']:.1f}"
        cell = lines[5 + [0.5, 1].index(row["budget"])].split(" | ")[int(row["copy_ratio"])]
        assert cell.rstrip(" |") == f"{known} > {100 * row['optimized_idle']:.1f}"


def test_summary(tmp_path: Path) -> None:
    saved = {(0.5, 2.0): 0.5, (0.5, 4.0): 0.3, (0.5, 1.0): 0.1, (1.0, 4.0): 0.2}
    known = {
        "costs": "1.5B", "workers": 4, "microbatches": 12, "fitting": ["v-min + offload all"],
        "best_known": "v-min + offload all", "best_known_idle": 0.23, "optimized": "v",
        "optimized_idle": 0.1, "gap": 0.01, "origin": "annealed", "step_saved": 0.15,
    }  # fmt: skip
    rows = [
        {**known, "budget": budget, "copy_ratio": ratio, "saved": part, "status": "time_limit"}
        for (budget, ratio), part in saved.items()
    ]
    nothing_fits = {**rows[0], "best_known": None, "best_known_idle": None, "saved": None}
    rows += [{**nothing_fits, "workers": 99, "status": "optimal"}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    lines = run("--rows", str(tmp_path / "rows.json"), "--format", "grid").stdout.splitlines()
    assert lines[-2:] == [
        "all: 4 cases, 10.0 to 50.0 % less idle, 25.0 % in the median; 1 proven optimal",
        "copies of 2 F or more, memory below that of 1F1B: 2 cases, 30.0 to 50.0 % less idle, "
        "40.0 % in the median; 1 proven optimal",
    ]


def test_rows_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text('[{"costs": "6.2B"}]')
    assert "missing" in run("--rows", str(tmp_path / "rows.json"), status=1).stderr
    assert "No such file" in run("--rows", str(tmp_path / "no.json"), status=1).stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--costs", "7B"], "--costs: expected some of paper-gpt/h100-sxm"),
        (["--placements", "w"], "--placements: expected some of linear, interleaved, v"),
        (["--copy-ratios", "0"], "expected numbers above 0"),
        (["--workers", "0"], "expected a positive integer"),
    ],
)
def test_mistakes(arguments: list[str], said: str) -> None:
    assert said in run(*arguments, status=2).stderr


def test_costs_of_runtimes() -> None:
    pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")
    script = str(ROOT / "benchmarks" / "torch_runtime.py")
    choices = ["--cases", "one rank;1f1b", "--steps", "3", "--warm", "2"]
    line = [sys.executable, script, *choices, "--format", "json"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    alone, line_of_two = json.loads(done.stdout)
    assert (alone["cells"], alone["messages"]) == (128, 0)
    assert (line_of_two["cells"], line_of_two["messages"]) == (32, 32)
    assert alone["pipesched (us)"] > 0 and line_of_two["ratio, ordered"] > 0
