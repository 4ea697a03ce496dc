"""Steps if nobody balances rows of experts: the number, and the output of verbs."""

import json
from typing import Any

import pytest
from pipesched.costs.costs import NATURAL_BALANCE
from test_command import Capture, text_of

MODEL: dict[str, Any] = {
    "name": "small",
    "description": "experts",
    "hidden": 4096,
    "sequence": 8192,
    "layers": 8,
    "attention_heads": 32,
    "experts": {"count": 16, "per_token": 4, "feedforward": 4096},
    "vocabulary": 1024,
    "activation": "swiglu",
    "norm": "rms",
}
COSTS = ("--system", "h100-sxm-load", "--data-parallel", "8", "--microbatch-size", "1")
SIZES = ("--pp", "2", "--microbatches", "4")


@pytest.fixture
def model(tmp_path: Any) -> str:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(MODEL))
    return str(path)


def said(capsys: Capture, *arguments: str) -> str:
    return text_of(capsys, *arguments)


def rows(capsys: Capture, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(capsys, *arguments, "--format", "json"))
    return found


def test_the_step_is_that_of_the_balance(capsys: Capture, model: str) -> None:
    line = ("simulate", "1f1b", "gpipe", *SIZES, *COSTS, "--model", model)
    even = rows(capsys, *line, "--expert-parallel", "8")
    given = rows(
        capsys, *line, "--expert-parallel", "8", "--expert-balance", f"{NATURAL_BALANCE:g}"
    )
    steps = {row["schedule"]: row["step_s"] for row in given}
    for row in even:
        assert row["natural_step_s"] == pytest.approx(steps[row["schedule"]], rel=1e-9)
        assert row["natural_step_s"] > row["step_s"]
    assert all(row["natural_step_s"] is None for row in given)
    assert all(row["natural_step_s"] is None for row in rows(capsys, *line))


def test_verbs_say_it_beside_the_answer(capsys: Capture, model: str) -> None:
    costs = (*COSTS, "--model", model)
    line = ("simulate", "1f1b", *SIZES, *costs)
    text = said(capsys, *line, "--expert-parallel", "8")
    (found,) = (each for each in text.splitlines() if each.startswith("routing: "))
    assert f"gets {NATURAL_BALANCE:g} times the mean" in found and "longer" in found
    assert "routing: " not in said(capsys, *line)
    balanced = ("--expert-parallel", "8", "--set", "expert-balance=1.2")
    assert "routing: " not in said(capsys, *line, *balanced)


def test_plans_have_it_for_each_row(capsys: Capture, model: str) -> None:
    line = (
        "plan", "--model", model, "--system", "h100-sxm-load", "--gpus", "8",
        "--global-batch", "16",
        "--tp", "1", "--cp", "1", "--pp", "1,2", "--microbatch-size", "1",
        "--sharding", "optimizer", "--recompute", "none", "--schedules", "1f1b", "--top", "2",
    )  # fmt: skip
    found = rows(capsys, *line)
    assert {row["expert"] > 1 for row in found} >= {True}
    for row in found:
        assert (row["natural_step_s"] is None) == (row["expert"] == 1)
        assert row["natural_step_s"] is None or row["natural_step_s"] > row["step_s"]
    assert ("routing: " in said(capsys, *line)) == any(row["natural_step_s"] for row in found)
