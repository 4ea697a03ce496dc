"""Megatron's combined 1F1B, and what of the exchanges of experts schedules of pairs hide."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipesched import PipeSchedError, combined_1f1b, overlap
from pipesched._combined import hidden_in, plain
from test_command import Capture, failure_of, rows_of
from test_overlap import LAYER, TOY

SIZES = [(1, 1, 1, None), (1, 5, 3, None), (2, 4, 2, None), (4, 8, 2, 8), (3, 9, 4, None)]


def rows_in(schedule: Any) -> list[str]:
    text = str(schedule).split("runs [")[1:]
    return [row.split("]")[0] for row in text]


def test_rows() -> None:
    """One more forward than interleaved 1F1B, then pairs."""
    assert rows_in(combined_1f1b(2, 4, 2)) == [
        "0F0 0F1 2F0 2F1 0F2 0F3+2B0 2F2+2B1 2F3+0B0 0B1 2B2 2B3 0B2 0B3",
        "1F0 1F1 3F0 3F1+3B0 1F2+3B1 1F3+1B0 3F2+1B1 3F3+3B2 3B3 1B2 1B3",
    ]


@pytest.mark.parametrize("sizes", SIZES)
def test_tables_are_complete(sizes: tuple[int, int, int, int | None]) -> None:
    workers, microbatches, chunks, group = sizes
    made = combined_1f1b(workers, microbatches, chunks, group=group)
    made.verify()
    for worker, row in enumerate(rows_in(made)):
        warm_up = (chunks - 1) * (group or workers) + 2 * (workers - 1 - worker) + 1
        assert row.count("+") == max(0, chunks * microbatches - warm_up)


def test_refusals() -> None:
    for sizes, said in (
        ((2, 4, 1), "takes chunks, at least 2"),
        ((4, 6, 2), "groups of at least 4 that divide the microbatches"),
        ((0, 4, 1), "workers"),
    ):
        with pytest.raises(PipeSchedError, match=said):
            combined_1f1b(*sizes)
    with pytest.raises(PipeSchedError, match="found groups of 2 and 8"):
        combined_1f1b(4, 8, 2, group=2)


def test_one_worker_by_hand() -> None:
    """A forward, four pairs and a backward: 16 + 4 * 28 + 21."""
    pair = overlap(TOY)
    found = hidden_in(combined_1f1b(1, 5), pair)
    assert found.makespan_ps == 16 + 4 * 28 + 21
    assert found.exchange_ps == {"warm_up": 6, "steady": 4 * 12, "drain": 6}
    # The backward by itself hides dispatch.I behind mlp.W.
    assert found.hidden_ps == {"warm_up": 0, "steady": 4 * 12, "drain": 3}
    assert found.seen_ps == 6 + 3
    without = plain(pair, 1, 5, 1, None)
    assert without.makespan_ps == 5 * 40
    assert without.seen_ps == 5 * 12 and without.share() == 0


def test_more_chunks_and_whole_backwards() -> None:
    pair = overlap(TOY, whole_backward=True)
    found = hidden_in(combined_1f1b(2, 8, 2), pair)
    assert found.hidden_ps["drain"] == found.hidden_ps["warm_up"] == 0
    assert found.share("steady") == pair.hidden
    assert sum(found.exchange_ps.values()) == 2 * 2 * 8 * 12
    assert found.makespan_ps < plain(pair, 2, 8, 2, None).makespan_ps


def test_rows_of_the_verb(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "segments.json"
    file.write_text(json.dumps({"layers": [{**LAYER, "count": 2}]}))
    sizes = ["--workers", "2", "--microbatches", "8", "--chunks", "2"]
    rows = rows_of(capsys, "overlap", str(file), *sizes)
    names = ["interleaved-1f1b", "combined-1f1b", "dualpipe-v"]
    assert [row["schedule"] for row in rows] == names
    assert rows[0]["hidden"] == 0 and rows[1]["step_s"] < rows[0]["step_s"]
    assert rows[1]["hidden_steady"] == 1 and rows[1]["hidden_warm_up"] == 0
    for line, said in (
        (["--chunks", "2"], "give --workers"),
        ([*sizes, "--forward", "1", "--backward", "2"], "stages of a schedule hold the same"),
    ):
        assert said in failure_of(capsys, "overlap", str(file), *line, status=2)
