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
