"""Trains any model in real processes as without a pipeline, or refuses it.

Each case has its expected result: the error of the pipeline relative to the model without one, or
the text of its refusal.

    tie_cases       one parameter of the model stays one
    silent_cases    modules that would silently train something else
    tensor_cases    tensor parallelism inside of stages
    weight_cases    how much microbatches and injected gradients weigh
    module_cases    any module
    memory_cases    memory of ranks in bytes
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import memory_cases
import module_cases
import silent_cases
import tensor_cases
import tie_cases
import weight_cases
from case_runs import Cases, check, expected, run_cases

MODULES = [
    each.__name__
    for each in (
        *(tie_cases, silent_cases, tensor_cases),
        *(weight_cases, module_cases, memory_cases),
    )
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("cases"), *MODULES)


@pytest.mark.parametrize("name", expected(*MODULES))
def test_trains_as_without_a_pipeline_or_is_refused(cases: Cases, name: str) -> None:
    check(cases, name)


def test_stages_of_one_seed_are_warned_of(cases: Cases) -> None:
    for result in cases["stages_of_one_seed"]:
        said, unsaid = result["value"]
        assert "(0, 0, 'inner.weight') and (0, 1, 'inner.weight') of ranks that do not see" in said
        assert unsaid == ""


def test_values_of_a_rule_are_no_copies(cases: Cases) -> None:
    for result in cases["stages_of_one_rule"]:
        assert result["text"] == ""


def test_losses_left_on_modules_are_warned_of(cases: Cases) -> None:
    first, last = (result["value"] for result in cases["losses_left_on_modules"])
    assert len(first) == 1 and "keeps a tensor of its graph beyond its forward, in '0.left'" in (
        first[0].replace("0.0.left", "0.left")
    )
    assert last == []


def test_an_exception_in_one_part_ends_all(cases: Cases) -> None:
    first, second, third, last = cases["exception_in_a_part"]
    for result in (first, second):
        assert result["text"].startswith("RemoteError: rank 1 of pipeline 1 failed: at "), result
    assert third["text"].startswith("RemoteError: rank 1 failed: at "), third
    assert last["text"].startswith("ValueError: broken"), last
    assert not any(result["left"] for result in cases["exception_in_a_part"])


def test_tokens_that_weigh_differently_are_warned_of(cases: Cases) -> None:
    first, last = (result["value"] for result in cases["warnings_of_tokens"])
    assert not any(first.values())
    begin = "a token of one microbatch weighs"
    for name, text in last.items():
        wanted = {"ignored": 6, "padded": 6, "divided": 2, "own sum": 6, "of sizes": 3}.get(name)
        assert text.startswith(f"{begin} {wanted} times that of another") if wanted else not text


def test_a_count_that_is_none_is_refused(cases: Cases) -> None:
    texts = [result["text"] for result in cases["a_count_that_is_none"]]
    assert any("for microbatch 0; wanted a number of tokens" in text for text in texts), texts


def test_norms_after_steps_are_refused(cases: Cases) -> None:
    for result in cases["norms_inside"]:
        assert "have stepped already when step() returns" in result["value"]


def test_overflows_reach_sparse_gradients(cases: Cases) -> None:
    for result in cases["overflow_of_sparse_gradients"]:
        assert result["value"] == [512.0, True], result


@pytest.mark.parametrize("name", ["memory_as_predicted", "memory_of_replicas"])
def test_memory_is_as_predicted(cases: Cases, name: str) -> None:
    """Within 5 % of the storages that are alive, and of a message that is being sent just then."""
    for result in cases[name]:
        assert result["text"] == ""
        for key, (alive, predicted, message) in result["value"].items():
            assert predicted / 1.05 <= alive <= 1.05 * predicted + message, (key, result["value"])
    values = [result["value"] for result in cases["memory_as_predicted"]]
    for less, more in (("offloaded", "zb-h1"), ("recomputed", "1f1b"), ("offloaded v", "zb-v")):
        assert min(value[less][0] / value[more][0] for value in values) < 0.7


@pytest.mark.parametrize("name", ["memory_of_halves", "memory_of_parts_of_tensors"])
def test_gradients_that_are_set_aside_are_predicted(cases: Cases, name: str) -> None:
    """They come from earlier steps, so that a step without such gradients does not show them."""
    for result in cases[name]:
        assert result["text"] == ""
        for key, (alive, predicted, message, fresh) in result["value"].items():
            assert predicted / 1.05 <= alive <= 1.05 * predicted + message, (key, result["value"])
            assert 1.2 * fresh < predicted, (key, result["value"])


def test_a_budget_of_bytes_is_held_or_raises(cases: Cases) -> None:
    for result in cases["budget_of_all_bytes"]:
        assert result["text"] == ""
    first, last = (result["value"] for result in cases["budget_of_all_bytes"])
    assert first == ["", "RemoteError"] and last == ["", "MemoryBudgetError"]
