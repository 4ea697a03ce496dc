"""What is one parameter in the model stays one, or is refused: tie_cases.py."""

from __future__ import annotations

import importlib.util

import pytest
from case_runs import Cases, run_cases

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)

PRECISION = 1e-12
"""Of gradients, norms and parameters in float64."""
TRAINS = [
    "ties_of_wrapped_stages",
    "ties_of_sharded_stages",
    "ties_that_are_named",
    "ties_of_the_loss",
    "a_tie_of_the_loss_with_steps_inside",
]
REFUSALS = {
    "ties_that_nothing_shows": "(0, 0, '0.0.table') and (0, 1, '1.5.table') of ranks that do not",
    "ties_of_own_modules": "name it, tied=[[(0, 0, '0.table'), (0, 1, '2.table')]], or give the",
    "a_tie_of_the_loss_that_nothing_shows": "tied=[[('loss', 'table'), (0, 0, '0.table')]]",
    "a_loss_in_the_memory_of_a_stage": "0.0.table' and 'the loss: table' share memory but are not",
    "a_loss_function_with_a_weight_of_a_stage": "uses 0.table of block 0, which other ranks train",
    "a_tie_of_a_sharded_stage_and_a_whole_loss": "'table' of the loss and '0.table' of block 0",
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("ties"), "tie_cases.py")


@pytest.mark.parametrize("name", TRAINS)
def test_trains_as_without_a_pipeline(cases: Cases, name: str) -> None:
    for result in cases[name]:
        assert result["text"] == "" and not result["left"], result
        found = result["value"]
        worst = max(found.values()) if isinstance(found, dict) else found
        assert worst <= PRECISION, found


@pytest.mark.parametrize("name", REFUSALS)
def test_is_refused(cases: Cases, name: str) -> None:
    texts = [result["text"] for result in cases[name]]
    assert all(texts) and any(REFUSALS[name] in text for text in texts), texts


def test_stages_of_one_seed_are_warned_of(cases: Cases) -> None:
    for result in cases["stages_of_one_seed"]:
        said, unsaid = result["value"]
        assert "(0, 0, 'inner.weight') and (0, 1, 'inner.weight') of ranks that do not see" in said
        assert unsaid == ""


def test_values_of_a_rule_are_no_copies(cases: Cases) -> None:
    for result in cases["stages_of_one_rule"]:
        assert result["text"] == ""
