"""Tensor parallelism inside of stages trains as without it: see tensor_cases.py."""

from __future__ import annotations

import importlib.util

import pytest
from case_runs import Cases, run_cases

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="needs PyTorch: pip install 'pipesched[test]'"
)

PRECISION = 1e-9
"""Of gradients and parameters in float64."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    return run_cases(tmp_path_factory.mktemp("tensors"), "tensor_cases.py")


@pytest.mark.parametrize(
    "name", ["parts_of_tensors", "losses_of_parts", "parts_beside", "states_of_parts"]
)
def test_trains_as_the_whole_model(cases: Cases, name: str) -> None:
    for result in cases[name]:
        assert result["text"] == "" and not result["left"]
        found = result["value"]
        worst = max(found.values()) if isinstance(found, dict) else found
        assert worst <= PRECISION, found


def test_an_exception_in_one_part_ends_all(cases: Cases) -> None:
    first, second, third, last = cases["exception_in_a_part"]
    for result in (first, second):
        assert result["text"].startswith("RemoteError: rank 1 of pipeline 1 failed: at "), result
    assert third["text"].startswith("RemoteError: rank 1 failed: at "), third
    assert last["text"].startswith("ValueError: broken"), last
    assert not any(result["left"] for result in cases["exception_in_a_part"])
