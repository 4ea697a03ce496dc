"""Lines for launchers if a plan counts exchanges of experts as hidden."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pipesched import PipeSchedError, plan
from pipesched.planning.launch.launchers import FLAGS
from pipesched.planning.request import Request
from pipesched.planning.search.search import Search
from pipesched.planning.space.space import Space
from test_plan import flags
from test_plan_split import planned

LONG: dict[str, Any] = {"rates": "data-sheet", "expert_dispatch": "all-to-all"}
"""Costs by which exchanges of experts are a large part."""


def found(**given: Any) -> Any:
    options = {"launcher": "megatron", "expert_exposed": 71, "context": [1], "chunks": [2], **LONG}
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
        ({"sharding": ["gradients"]}, "with Megatron-FSDP"),
        ({"sharding": ["full"]}, "with Megatron-FSDP"),
    ],
)
def test_what_megatron_cannot_hide_is_said(given: dict[str, Any], why: str) -> None:
    megatron = found(**given).launchers().megatron
    assert megatron.lines is None
    assert why in megatron.reason and "counts 29 % of them as hidden" in megatron.reason


def test_without_a_pipeline_no_chunks_are_needed() -> None:
    best = found(pp=[1], schedules=["1f1b"])
    assert set(FLAGS) <= set(flags(best.launchers().megatron.lines))


def test_few_ranks_are_said() -> None:
    notes = found(expert=[4]).launchers().megatron.notes
    assert any("with 4 expert ranks exchanges are short" in note for note in notes)


def test_torchtitan_says_what_it_does_not_hide() -> None:
    best = planned(launcher="torchtitan", expert_exposed=71)
    torchtitan = best.launchers().torchtitan
    assert torchtitan.lines
    assert any("only in DualPipeV" in note for note in torchtitan.notes)


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
        ({"sharding": ["full"]}, "with Megatron-FSDP"),
    ],
)
def test_what_combined_1f1b_needs_is_said(given: dict[str, Any], why: str) -> None:
    with pytest.raises(PipeSchedError, match=f"Megatron-LM runs no combined-1f1b {why}"):
        found(expert_exposed=100, schedules=["combined-1f1b"], **given)


EXPERTS: dict[str, Any] = {"model": "qwen3-30b-a3b", "system": "dgx-h100", "gpus": 16, **LONG}
FEW: dict[str, Any] = {"tensor": [1], "context": [1], "microbatch_size": [1, 2]}


@pytest.mark.parametrize("launcher", ["megatron", None])
def test_combined_1f1b_need_not_be_named(launcher: Any) -> None:
    """No restriction to some schedules finds better than the search of all."""
    given = {**EXPERTS, **FEW, "global_batch": 128, "launcher": launcher}
    every = plan(**given).fitting
    named = plan(**given, schedules=["combined-1f1b"]).fitting
    assert every[0].step_s <= named[0].step_s
    assert named[0].step_s in {each.step_s for each in every}
    assert all(each.shape.expert > 1 for each in every if each.schedule == "combined-1f1b")


def test_combined_1f1b_sends_as_megatron_does() -> None:
    """Before the last weight gradients of its pairs, as torchtitan does not."""
    given = {**EXPERTS, **FEW, "global_batch": 128, "chunks": [2], "pp": [4]}
    best = plan(**given, schedules=["combined-1f1b"]).fitting[0]
    found = best.configuration
    assert found is not None and found.costs is not None
    assert found.costs.pair_order == "megatron"
    later = replace(found, costs=replace(found.costs, pair_order="deepseek")).simulate()
    assert best.step_s < later.execution.makespan_ps / 1e12

    def order(**more: Any) -> str:
        return str(Request(**given, **more).pair_order)

    assert order(launcher="megatron") == order() == "megatron"
    assert order(launcher="torchtitan") == "deepseek"
    assert order(pair_order="best", launcher="megatron") == "best"


def test_combined_1f1b_is_not_searched_where_it_hides_nothing() -> None:
    """Without experts, without ranks that divide them, and in torchtitan."""

    def searched(**given: Any) -> set[str]:
        space = Space(Request(**{**EXPERTS, **FEW, "global_batch": 32, **given}))
        return {candidate.schedule for candidate in space.candidates()}

    assert "combined-1f1b" in searched()
    assert "combined-1f1b" not in searched(model="llama3-8b")
    assert "combined-1f1b" not in searched(expert=[1])
    assert "combined-1f1b" not in searched(launcher="torchtitan")
    assert "combined-1f1b" in searched(expert=[1], schedules=["combined-1f1b"])


@pytest.mark.parametrize("pp", [[1], [2], [1, 2, 4]])
@pytest.mark.parametrize("memory", ["66GiB", "120GiB"])
def test_bounds_leave_out_no_pairs_that_are_best(pp: list[int], memory: str) -> None:
    """The results of trying everything, also on one worker, whose pairs hide most."""
    names = ["1f1b", "interleaved-1f1b", "combined-1f1b", "dualpipe-v"]
    given = {**EXPERTS, **FEW, "global_batch": 64, "chunks": [2], "schedules": names}
    request = Request(**given, pp=pp, memory=memory, recompute=["none", "full"])
    everything = Search(Space(request), None, None)
    outcomes = everything.evaluate(everything.space.candidates())
    fitting = [o for o in outcomes if o.peak_bytes <= request.usable_bytes]
    best = sorted((o.step_ps, o.peak_bytes) for o in fitting)
    found = Search(Space(request), None, None).run(5, 3).fitting
    assert len({o.candidate.row for o in found}) >= 5
    assert [(o.step_ps, o.peak_bytes) for o in found] == best[: len(found)]


def test_one_worker_hides_exchanges_of_experts() -> None:
    given = {**EXPERTS, **FEW, "global_batch": 128, "pp": [1], "expert": [8]}
    best, *others = plan(**given, launcher="megatron", memory="120GiB").fitting
    assert best.schedule == "combined-1f1b"
    degrees = best.shape.degrees
    plain = next(o for o in others if o.schedule == "1f1b" and o.shape.degrees == degrees)
    assert best.step_s < plain.step_s
    lines = best.launchers().megatron.lines, plain.launchers().megatron.lines
    assert set(FLAGS) <= set(flags(lines[0] or ()))
    assert lines[1] and not set(FLAGS) & set(flags(lines[1]))
