"""Schedules that nobody could write out."""

import json
from typing import Any

import pipesched as ps
import pytest


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


def test_a_report_has_all_but_cells() -> None:
    point = ps.Configuration("1f1b", 64, 8_000_000)
    found = point.simulate()
    assert found.microbatches == 8_000_000
    assert found.execution.messages == 2 * 63 * 8_000_000
    assert found.execution.critical_path is None
    assert found.execution.critical_path_messages is None
    assert found.table is not None
    assert found.table.slot_lengths is None
    assert json.loads(found.to_json())["execution"]["critical_path"] is None


@pytest.mark.parametrize("draw", ["to_frame", "to_svg", "to_chrome_trace", "to_html"])
def test_a_picture_is_refused(draw: str) -> None:
    found = ps.Configuration("zb-h1", 64, 8_000_000).simulate()
    with pytest.raises(ps.PipeSchedError, match="8000000 microbatches has more cells"):
        getattr(found, draw)()


def test_families_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    from pipesched.command import main

    sizes = ["--pp", "64", "--microbatches", "8000000"]
    assert main(["simulate", *sizes, "--schedules", "zb-h1,1f1b,gpipe", "--format", "json"]) == 0
    rows = {row["schedule"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["1f1b"]["step_s"] == pytest.approx(3e-6 * (8_000_000 + 63))
    assert [rows[name]["rank"] for name in ("zb-h1", "1f1b", "gpipe")] == [1, 2, None]
    assert "do not repeat themselves" in rows["gpipe"]["error"]


def test_a_step_has_its_end() -> None:
    """Every worker steps its one stage, which takes a slot of 1 us."""
    found = [
        ps.Configuration("1f1b", 64, 8_000_000, optimizer_step=step).simulate()
        for step in ("none", "exposed")
    ]
    makespans = [one.execution.makespan_ps for one in found]
    assert makespans == [3_000_000 * 8_000_063, 3_000_000 * 8_000_063 + 1_000_000]


def test_a_schedule_is_still_refused() -> None:
    with pytest.raises(ps.PipeSchedError, match="has 1024000000 cells: a table may have 268435456"):
        ps.generate("1f1b", workers=64, microbatches=8_000_000)
