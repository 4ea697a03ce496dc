"""How much microbatches and injected gradients weigh: weight_cases.py."""

from __future__ import annotations

import importlib.util

import pytest
from case_runs import Cases, run_cases

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)

PRECISION = 1e-12
"""Of losses, gradients and parameters in float64."""
WEIGHS = [
    "injected_gradients",
    "injected_gradients_of_wrapped_stages",
    "injected_gradients_of_tied_stages",
    "injected_gradients_as_in_pytorch",
    "injected_gradients_of_slices",
    "means_over_tokens",
    "means_over_tokens_of_pipelines",
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("weights"), "weight_cases.py")


@pytest.mark.parametrize("name", WEIGHS)
def test_weighs_as_it_should(cases: Cases, name: str) -> None:
    for result in cases[name]:
        assert result["text"] == "" and not result["left"], result
        found = result["value"]
        worst = max(found.values()) if isinstance(found, dict) else found
        assert worst <= PRECISION, found


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
