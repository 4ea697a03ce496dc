"""Files whose schedules name functions of stages, whose costs come from these functions."""

from pathlib import Path

import pytest
from pipesched import Schedule
from test_command import Capture, text_of

CASES = Path(__file__).parents[2] / "Stages"


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A schedule with S and T, with the model that its functions make."""
    schedule = Schedule.from_file(CASES / "shard-costs.mlir")
    target = tmp_path / "shards.mlir"
    schedule.transform("pipe-attach-stage-costs").save(target)
    return str(target)


def test_simulates_shards_by_their_functions(file: str, capsys: Capture) -> None:
    """The step of test/Stages/shard-costs.mlir, which is counted there."""
    report = Schedule.from_file(file).simulate()
    assert int(report.execution.makespan_ps) == 1306
    assert report.memory is not None
    assert list(report.memory.peak_bytes) == [80, 80]
    assert "1.306 ns" in text_of(capsys, "simulate", file)


def test_a_schedule_keeps_its_functions(file: str) -> None:
    """Next to others in a file, with the functions that it calls."""
    text = Path(file).read_text()
    helper = """
  func.func @helper(%x: tensor<4xf32>) -> (tensor<4xf32>) {
    %y = arith.negf %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
"""
    begin, end = text.split("  func.func @forward", 1)
    called = end.replace(
        "arith.negf %arg0 : tensor<4xf32>",
        "call @helper(%arg0) : (tensor<4xf32>) -> tensor<4xf32>",
        1,
    )
    other = """
  pipe.schedule @other workers 1 microbatches 1 {
    path on [0]
    worker 0 runs [0F0 0B0]
  }
}
"""
    whole = begin + helper + "  func.func @forward" + called.rstrip().removesuffix("}") + other
    alone = Schedule.from_text(whole, name="shards")
    kept = alone.to_text()
    for name in ("data", "target", "loss", "forward", "helper", "shard", "shard_backward"):
        assert f"func.func @{name}(" in kept
    assert "@other" not in kept
    assert int(alone.simulate().execution.makespan_ps) == 1306
