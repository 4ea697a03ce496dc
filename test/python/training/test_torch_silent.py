"""What would train something else without a word trains right, or is refused: silent_cases.py."""

from __future__ import annotations

import importlib.util

import pytest
from case_runs import Cases, run_cases

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)

PRECISION = 1e-9
"""Of gradients and parameters in float64."""
TRAINS = [
    "repeated_parts",
    "tied_in_a_mapping",
    "halves_of_a_tensor",
    "recomputed_from_a_changed_input",
    "recomputed_by_other_generators",
    "unfrozen_and_added_to_its_optimizer",
    "tables_with_a_largest_norm",
    "compiled_stages",
    "parameters_in_a_row",
    "gradients_that_add_up",
    "gradients_in_recomputed_forwards",
    "buffers_of_a_recomputed_loss",
    "frozen_when_the_optimizer_was_made",
    "negatives_and_conjugates",
    "stepped_inside_without_zero_grad",
]
REFUSALS = {
    "parameters_of_one_memory": "'block 0: 0.weight' and 'block 1: 2.weight' share memory but are",
    "stages_of_one_memory": "and ranks [0, 1] hold only one of them",
    "a_buffer_of_the_memory_of_a_parameter": "0.inner.weight' and 'block 1: 3.table' share memory",
    "one_tensor_as_two": "changes tensor 0 of its input in place, which has memory in common with",
    "one_tensor_as_two_here": "in place, which has memory in common with tensor 1, 2 of it",
    "unfrozen_after_its_optimizer": "are trained now that no optimizer of its O cells has",
    "recomputed_by_a_counter": "0R0 does not give what its F gave",
    "a_penalty_of_all_weights": "of block 0, which other ranks train: they would not get that",
    "a_layer_of_another_rank": "of path 0, stage 0, which other ranks train: they would not get",
    "inputs_that_want_a_gradient": "a tensor of inputs requires a gradient, which a pipeline does",
    "a_child_that_was_replaced": "child '2' of the model was replaced, added or removed after the",
    "a_lazy_model": "'block 0: 0.weight' has no shape yet, as those of lazy modules before their",
    "optimizers_in_hooks": "was changed inside of a step, as by an optimizer in a hook",
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("silent"), "silent_cases.py")


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


def test_losses_left_on_modules_are_warned_of(cases: Cases) -> None:
    first, last = (result["value"] for result in cases["losses_left_on_modules"])
    assert len(first) == 1 and "keeps a tensor of its graph beyond its forward, in '0.left'" in (
        first[0].replace("0.0.left", "0.left")
    )
    assert last == []
