"""Training is right for any module, or is refused: see module_cases.py."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
from case_runs import Cases, run_cases

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)

PRECISION = 1e-9
"""Of gradients and parameters in float64."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("modules"), "module_cases.py")


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        value = list(value.values())
    return [float(each) for each in value] if isinstance(value, list) else [float(value)]


TRAINS = [
    "repeated_children",
    "tied_by_the_model",
    "tied_on_one_rank_with_replicas",
    "parameters_that_are_unfrozen",
    "parameters_that_are_added",
    "parameters_of_a_loss",
    "unfrozen_beside",
    "norms",
    "values_between_stages",
    "cut_at_names",
    "training_that_goes_on",
    "sparse_gradients",
]


@pytest.mark.parametrize("name", TRAINS)
def test_trains_as_without_a_pipeline(cases: Cases, name: str) -> None:
    for result in cases[name]:
        assert result["text"] == ""
        assert max(numbers(result["value"])) <= PRECISION, result["value"]


REFUSALS = {
    "one_buffer_on_two_ranks": "'1.calls' is one buffer of the whole model, and a step changed",
    "a_parameter_outside_of_replicas": "a parameter of shape [6] that is in no module of this rank",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_would_train_something_else_is_refused(cases: Cases, name: str) -> None:
    texts = [result["text"] for result in cases[name]]
    assert all(texts) and any(REFUSALS[name] in text for text in texts), texts


def test_norms_after_steps_are_refused(cases: Cases) -> None:
    for result in cases["norms_inside"]:
        assert "have stepped already when step() returns" in result["value"]


def test_overflows_reach_sparse_gradients(cases: Cases) -> None:
    for result in cases["overflow_of_sparse_gradients"]:
        assert result["value"] == [512.0, True], result


def test_memory_is_as_predicted(cases: Cases) -> None:
    """Within 5 % of the storages that are alive, and of a message that is being sent just then."""
    for result in cases["memory_as_predicted"]:
        assert result["text"] == ""
        for name, (alive, predicted, message) in result["value"].items():
            assert predicted / 1.05 <= alive <= 1.05 * predicted + message, (name, result["value"])
    values = [result["value"] for result in cases["memory_as_predicted"]]
    for less, more in (("offloaded", "zb-h1"), ("recomputed", "1f1b"), ("offloaded v", "zb-v")):
        assert min(value[less][0] / value[more][0] for value in values) < 0.7


def test_memory_of_replicas_is_as_predicted(cases: Cases) -> None:
    for result in cases["memory_of_replicas"]:
        assert result["text"] == ""
        for name, (alive, predicted, message) in result["value"].items():
            assert predicted / 1.05 <= alive <= 1.05 * predicted + message, (name, result["value"])


@pytest.mark.parametrize("name", ["memory_of_halves", "memory_of_parts_of_tensors"])
def test_gradients_that_are_set_aside_are_predicted(cases: Cases, name: str) -> None:
    """They are those of steps before, so that a step without such gradients does not tell."""
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
