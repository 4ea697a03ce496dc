"""Sweeps over schedules that nobody could write out."""

from typing import Any

import pytest

import pipesched as ps


def sweep_one(family: str) -> dict[Any, Any]:
    point = {"family": family, "workers": 64, "microbatches": 8_000_000}
    [row] = ps.sweep([point]).to_dict("records")
    return row


def test_a_billion_cells_have_numbers() -> None:
    row = sweep_one("1f1b")
    assert row["error"] is None
    assert row["slots"] == (8_000_000 + 63) * 3
    assert row["messages"] == 2 * 63 * 8_000_000
    assert row["table_bubble_ratio"] == pytest.approx(63 / 8_000_063)
    assert row["table_bubble_ratio"] == pytest.approx(row["formula_bubble_ratio"])


def test_what_does_not_repeat_says_so() -> None:
    assert "shorter tables of it do not repeat themselves" in sweep_one("gpipe")["error"]


def test_a_schedule_is_still_refused() -> None:
    with pytest.raises(ps.PipeSchedError, match="has 1024000000 cells: a table may have 268435456"):
        ps.generate("1f1b", workers=64, microbatches=8_000_000)
