"""Attention kernels with separate rates: their order, and refused inputs."""

from dataclasses import replace

import pipesched
import pytest
from pipesched import Configuration, Costs
from pipesched.command import main
from pipesched.support.options import Attention

KERNELS: tuple[Attention, ...] = ("flash-3", "cudnn", "fused", "flash-2", "unfused")
"""From fast to slow on H100 with sequences of 8,192 tokens and heads of 128."""


def step_ps(costs: Costs) -> int:
    """A step of one microbatch on one worker."""
    return Configuration("1f1b", 1, 1, costs=costs).simulate().execution.makespan_ps


def test_kernels_by_speed() -> None:
    costs = Costs(model="llama3-8b", system="dgx-h100", microbatch_size=1)
    steps = [step_ps(replace(costs, attention=kernel)) for kernel in KERNELS]
    assert steps == sorted(set(steps))
    summaries = {replace(costs, attention=kernel)._raw.model() for kernel in KERNELS}
    assert len(summaries) == len(KERNELS)


def test_kernels_without_rates_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    costs = Costs(model="llama3-8b", system="dgx-a100", microbatch_size=1, attention="flash-2")
    message = "heads of 128, for which the system 'dgx-a100' has no rates; it has: none"
    with pytest.raises(pipesched.PipeSchedError, match=message):
        step_ps(costs)
    line = ["simulate", "--pp", "2", "--microbatches", "4", "--schedules", "1f1b"]
    line += ["--model", "llama3-8b", "--system", "dgx-a100", "--microbatch-size", "1"]
    assert main([*line, "--set", "attention=flash-2"]) != 0
    assert message in capsys.readouterr().err
    assert main([*line, "--set", "attention=fused"]) == 0
    assert "attention" not in capsys.readouterr().out.split("assumed:")[1].split("\n")[0]
