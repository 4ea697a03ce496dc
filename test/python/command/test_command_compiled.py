"""`pipesched run` with the backends that compile."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pipesched import _core
from pipesched.command import main

ROOT = Path(__file__).parents[3]
MLP = str(ROOT / "examples" / "stages" / "mlp.mlir")


@pytest.fixture
def tool(tmp_path: Path) -> str:
    """A tool that prints its arguments, and ends with 3 if it is asked to check."""
    path = tmp_path / "tool"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nprint(*sys.argv[1:])\n"
        "sys.exit(3 if '--check' in sys.argv else 0)\n"
    )
    path.chmod(0o755)
    return str(path)


def test_options_reach_the_tool(tool: str, capfd: pytest.CaptureFixture[str]) -> None:
    line = [MLP, "--backend", "mpi", "--schedule", "chimera", "--pp", "4", "--steps", "2"]
    line += ["--option", "pairs=2", "--option", "construction=doubling"]
    line += ["--set", "mpirun=mpirun --oversubscribe"]
    line += ["--draw", "run.json", "--set", "blocking=true", "--set", f"tool={tool}"]
    assert main(["run", *line]) == 0
    assert capfd.readouterr().out == (
        f"{MLP} --backend=mpi --schedule=chimera --workers=4 --steps=2 --seed=0 --pairs=2 "
        "--construction=doubling --trace=run.json --mpirun=mpirun --oversubscribe --blocking\n"
    )


def test_status_is_that_of_the_tool(tool: str, capfd: pytest.CaptureFixture[str]) -> None:
    line = [MLP, "--backend", "loopback", "--schedule", "1f1b", "--option", "split-backward=false"]
    assert main(["run", *line, "--check", "--set", f"tool={tool}"]) == 3
    assert "--split-backward=false --check" in capfd.readouterr().out


def test_a_build_without_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_core, "has_compiler", False)
    assert main(["run", MLP, "--backend", "loopback", "--tool", "nowhere"]) == 1
    assert "this build of PipeSched has no compiler" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "status", "said"),
    [
        ("--backend loopback", 2, "--backend loopback needs a file with functions of stages"),
        ("m.mlir --backend mpi --schedule gpipe,1f1b", 2, "runs one schedule at a time, found 2"),
        ("m.mlir --backend loopback -o out", 2, "-o belongs to --backend gloo and nccl"),
        ("m.mlir --backend loopback --draw p.html", 2, "--draw belongs to --backend gloo and nccl"),
        ("m.mlir --backend loopback --set tool=nowhere", 1, "nowhere is not found; build it"),
        ("gpt --schedules 1f1b --check", 2, "--check belongs to --backend loopback and mpi"),
        ("m.mlir --schedules 1f1b", 2, "m.mlir belongs to --backend loopback"),
        ("gpt", 2, "--schedules is missing"),
        ("--schedules 1f1b", 2, "give a model: one that ships"),
    ],
)
def test_mistakes(line: str, status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *line.split()]) == status
    assert said in capsys.readouterr().err
