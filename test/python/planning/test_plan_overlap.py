"""Lines for launchers if a plan counts exchanges of experts as hidden."""

from __future__ import annotations

from typing import Any

import pytest
from pipesched import PipeSchedError
from pipesched.planning._overlapped import FLAGS
from test_plan import flags
from test_plan_split import planned


def found(**given: Any) -> Any:
    options = {"launcher": "megatron", "expert_exposed": 71, "context": [1], "chunks": [2]}
    return planned(**{**options, "schedules": ["interleaved-1f1b"], **given})


def test_megatron_has_both_flags() -> None:
    best = found()
    megatron = best.launchers().megatron
    assert best.schedule == "interleaved-1f1b"
    assert set(FLAGS) <= set(flags(megatron.lines))
    assert any("CUDA_DEVICE_MAX_CONNECTIONS=32" in note for note in megatron.notes)
    assert not any("may gain nothing" in note for note in megatron.notes)


def test_nothing_hidden_has_no_flags() -> None:
    megatron = found(expert_exposed=100).launchers().megatron
    assert megatron.lines and not set(FLAGS) & set(flags(megatron.lines))
    assert megatron.notes == ()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"schedules": ["1f1b"]}, "in a pipeline without chunks"),
        ({"recompute": ["full"]}, "with full recomputation"),
    ],
)
def test_what_megatron_cannot_hide_is_said(given: dict[str, Any], why: str) -> None:
    megatron = found(**given).launchers().megatron
    assert megatron.lines is None
    assert why in megatron.reason and "counts 29 % of them as hidden" in megatron.reason


def test_without_a_pipeline_no_chunks_are_needed() -> None:
    best = found(stages=[1], schedules=["1f1b"])
    assert set(FLAGS) <= set(flags(best.launchers().megatron.lines))


def test_few_ranks_are_said() -> None:
    notes = found(expert=[4]).launchers().megatron.notes
    assert any("with 4 expert ranks exchanges are short" in note for note in notes)


def test_torchtitan_says_what_it_does_not_hide() -> None:
    best = planned(launcher="torchtitan", expert_exposed=71)
    torchtitan = best.launchers().torchtitan
    assert torchtitan.lines
    assert any("in DualPipeV alone" in note for note in torchtitan.notes)


def test_combined_1f1b_hides_them_without_being_told() -> None:
    """Pairs of the schedule itself, with nothing counted as hidden besides."""
    given = {"expert_exposed": 100, "schedules": ["interleaved-1f1b", "combined-1f1b"]}
    best = found(**given)
    assert best.schedule == "combined-1f1b"
    other = found(**{**given, "schedules": ["interleaved-1f1b"]})
    assert best.step_s < other.step_s
    megatron = best.launchers().megatron
    assert set(FLAGS) <= set(flags(megatron.lines))
    assert any("CUDA_DEVICE_MAX_CONNECTIONS=32" in note for note in megatron.notes)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"expert": [1]}, "without ranks that divide the experts"),
        ({"recompute": ["full"]}, "with full recomputation"),
    ],
)
def test_what_combined_1f1b_needs_is_said(given: dict[str, Any], why: str) -> None:
    with pytest.raises(PipeSchedError, match=f"Megatron-LM runs no combined-1f1b {why}"):
        found(expert_exposed=100, schedules=["combined-1f1b"], **given)
