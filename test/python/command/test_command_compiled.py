"""`pipesched run` with the backends that compile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipesched.command import main

ROOT = Path(__file__).parents[3]
MLP = str(ROOT / "examples" / "stages" / "mlp.mlir")


@pytest.fixture
def tool(tmp_path: Path) -> str:
    """A tool that prints its arguments, and ends with 3 if it is told to check."""
    path = tmp_path / "tool"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:])\n"
        "sys.exit(3 if '--check' in sys.argv else 0)\n"
    )
    path.chmod(0o755)
    return str(path)


def test_options_reach_the_tool(tool: str, capfd: pytest.CaptureFixture[str]) -> None:
    line = [MLP, "--backend", "mpi", "--schedule", "chimera", "--workers", "4", "--steps", "2"]
    line += ["--pairs", "2", "--construction", "doubling", "--mpirun", "mpirun --oversubscribe"]
    line += ["--trace", "run.json", "--blocking", "--tool", tool]
    assert main(["run", *line]) == 0
    assert capfd.readouterr().out == (
        f"{MLP} --backend=mpi --schedule=chimera --workers=4 --steps=2 --seed=0 --pairs=2 "
        "--construction=doubling --trace=run.json --mpirun=mpirun --oversubscribe --blocking\n"
    )


def test_status_is_that_of_the_tool(tool: str, capfd: pytest.CaptureFixture[str]) -> None:
    line = [MLP, "--backend", "loopback", "--schedule", "1f1b", "--no-split-backward"]
    assert main(["run", *line, "--check", "--tool", tool]) == 3
    assert "--split-backward=false --check" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("--backend loopback", 2, "--backend loopback needs a file with functions of stages"),
        ("m.mlir --backend loopback --model gpt", 2, "--model belongs to --backend gloo and nccl"),
        ("m.mlir --backend mpi --schedule gpipe,1f1b", 2, "runs one schedule at a time, found 2"),
        ("m.mlir --backend loopback -o out", 2, "-o belongs to --backend gloo and nccl"),
        ("m.mlir --backend loopback --html p", 2, "--html belongs to --backend gloo and nccl"),
        ("m.mlir --backend loopback --tool nowhere", 1, "nowhere is not found; build it"),
        ("--schedule 1f1b --model gpt --check", 2, "--check belongs to --backend loopback and mpi"),
        ("m.mlir --schedule 1f1b --model gpt", 2, "MODEL.mlir belongs to --backend loopback"),
        ("--model gpt", 2, "--schedule is missing"),
        ("--schedule 1f1b", 2, "--model is missing"),
    ],
)
def test_mistakes(line: str, status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *line.split()]) == status
    assert said in capsys.readouterr().err
