"""Traces of PyTorch's profiler name the cells that the runtime runs (docs/Torch.md)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from pipesched.torch import PipelineRuntime, split_sequential  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_rank")


def make() -> Any:
    schedule = pipesched.generate("zb-v", workers=1, microbatches=3)
    stages = split_sequential(
        torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(2))), schedule
    )
    return PipelineRuntime(schedule, stages, torch.nn.functional.mse_loss)


def test_cells_and_steps_have_names(tmp_path: Path) -> None:
    runtime, x = make(), torch.ones(6, 4)
    runtime.step(x, x)
    plan = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(schedule=plan) as profiler:
        for _ in range(3):
            runtime.step(x, x)
            profiler.step()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    runtime.close()
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    ranges = [each for each in events if each.get("cat") == "user_annotation"]
    cells = sorted((each["ts"], each["name"]) for each in ranges if " mb " in each["name"])
    step = [
        f"{cell.phase} {cell.stage} mb {cell.microbatch}"
        for instruction in runtime.schedule.program(0)
        for cell in instruction.cells
    ]
    assert {"F 0 mb 0", "I 1 mb 2", "W 1 mb 2"} <= set(step)
    assert [name for _, name in cells] == 2 * step
    steps = [each["name"] for each in ranges if each["name"].startswith("ProfilerStep#")]
    assert len(steps) == 2


def test_without_a_profiler_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, x = make(), torch.ones(6, 4)

    def refuse(name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(torch.profiler, "record_function", refuse)
    runtime.step(x, x)
    runtime.close()
