"""Attention kernels with rates of their own: order, rates of own systems, and what is refused."""

from dataclasses import replace
from typing import Any

import pipesched
import pytest
from pipesched import Configuration, Costs
from pipesched._options import Attention
from pipesched.command import main

KERNELS: tuple[Attention, ...] = ("flash-3", "cudnn", "fused", "flash-2", "unfused")
"""From fast to slow on H100 with sequences of 8,192 tokens and heads of 128."""
HEAD, HEADS, TOKENS = 128, 4, 1024


def step_ps(costs: Costs) -> int:
    """A step of one microbatch on one worker."""
    return Configuration("1f1b", 1, 1, costs=costs).simulate().execution.makespan_ps


def own_model(**fields: Any) -> dict[str, Any]:
    """A layer whose attention has two key-value heads for four query heads."""
    sizes = {"hidden": HEAD * HEADS, "feedforward": 8, "sequence": TOKENS, "layers": 1}
    heads = {"attention_heads": HEADS, "key_value_heads": HEADS // 2}
    form = {"name": "own", "description": "one layer", "activation": "gelu", "norm": "rms"}
    return {**form, **sizes, **heads, **fields}


def own_system(forward: float, backward: float) -> dict[str, Any]:
    """A system whose attention has these TFLOP/s, and all else is fast."""
    fast = {"tflops": 1e5}
    memory = {"capacity_gb": 1000, "bandwidth_gb_per_s": 1e6}
    kernel = {"kernel": "flash-2", "head_size": HEAD}
    rates = {
        "forward_tflops_by_tokens": [[TOKENS, forward]],
        "backward_tflops_by_tokens": [[TOKENS, backward]],
    }
    return {
        **{"name": "own", "description": "made up", "matrix": fast, "vector": fast},
        **{"memory": memory, "network": {"bandwidth_gb_per_s": 1}},
        "attention": [kernel | rates],
    }


def test_kernels_by_speed() -> None:
    costs = Costs(model="llama3-8b", system="dgx-h100", microbatch_size=1)
    steps = [step_ps(replace(costs, attention=kernel)) for kernel in KERNELS]
    assert steps == sorted(set(steps))
    summaries = {replace(costs, attention=kernel)._raw.model() for kernel in KERNELS}
    assert len(summaries) == len(KERNELS)


def test_rates_of_an_own_system() -> None:
    """A slower backward takes that much longer: half of the scores in five GEMMs of two."""
    costs = Costs(model=own_model(attention="flash-2"), microbatch_size=1)
    fast, slow = (
        step_ps(replace(costs, system=own_system(1.0, backward))) for backward in (1.0, 0.5)
    )
    flops = 2.5 * 4 * TOKENS * (TOKENS + 1) / 2 * HEAD * HEADS
    assert slow - fast == pytest.approx(flops / 1e12 * 1e12, abs=2)


@pytest.mark.parametrize("field", ["repeated_key_values", "separate_accumulation"])
def test_more_kernels_take_longer(field: str) -> None:
    plain, more = (
        Costs(model=own_model(**{field: given}), system="h100-sxm", microbatch_size=1)
        for given in (False, True)
    )
    assert step_ps(more) > step_ps(plain)


def test_kernels_without_rates_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    costs = Costs(model="llama3-8b", system="dgx-a100", microbatch_size=1, attention="flash-2")
    message = "heads of 128, for which the system 'dgx-a100' has no rates; it has: none"
    with pytest.raises(pipesched.PipeSchedError, match=message):
        step_ps(costs)
    line = ["compare", "--stages", "2", "--microbatches", "4", "--schedules", "1f1b"]
    line += ["--model", "llama3-8b", "--system", "dgx-a100", "--microbatch-size", "1"]
    assert main([*line, "--attention", "flash-2"]) != 0
    assert message in capsys.readouterr().out
    assert main([*line, "--attention", "fused"]) == 0
    assert "attention" not in capsys.readouterr().out.split("\nassumed:")[1].split("\n")[0]


def test_latent_heads_have_a_size_of_their_own() -> None:
    """DeepSeek-V3's have 128 + 64 elements, for which nobody published rates here."""
    costs = Costs(model="deepseek-v3", system="h800-sxm", microbatch_size=1, attention="flash-3")
    with pytest.raises(pipesched.PipeSchedError, match="flash-3 with heads of 192"):
        step_ps(costs)
