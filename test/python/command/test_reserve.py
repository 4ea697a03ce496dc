"""The reserve of a memory, in all verbs that check whether it fits."""

from __future__ import annotations

import json
from pathlib import Path

import pipesched
import pytest
from pipesched import Grid, PipeSchedError
from test_command import Capture, failure_of, rows_of, text_of
from test_naming import flags_of


def test_who_says_what_fits_takes_a_reserve() -> None:
    for verb in ("simulate", "plan", "sweep", "whatif"):
        assert "--reserve" in flags_of(verb)


LINE = ("--schedules", "1f1b", "--pp", "8", "--microbatches", "16", "--model", "llama3-8b",
        "--system", "dgx-h100", "--microbatch-size", "1")  # fmt: skip


@pytest.mark.parametrize("accelerators", ["1", "4"])
def test_a_reserve_of_a_sweep_is_that_of_compare(capsys: Capture, accelerators: str) -> None:
    """The reserve is per accelerator, in bytes and in parts of its memory."""
    line = (*LINE, "--set", f"accelerators={accelerators}")
    (row,) = rows_of(capsys, "simulate", *line)
    free = 80 * 2**30 - row["peak_bytes_per_gpu"]
    for reserve in ("0", f"{free // 2}B", f"{free + 2**30}B", "1GiB+5%", "99%"):
        (one,) = rows_of(capsys, "simulate", *line, "--reserve", reserve)
        (other,) = rows_of(capsys, "sweep", *line, "--reserve", reserve)
        assert one["fits"] is other["fits"] and other["reserve"] == reserve
    many = rows_of(capsys, "sweep", *line, "--reserve", "0,99%")
    assert [row["fits"] for row in many] == [True, False]
    assert len({row["key"] for row in many}) == 2


def test_a_reserve_is_kept_with_its_rows(tmp_path: Path, capsys: Capture) -> None:
    """Another reserve does not continue the rows of a file, and the default has old keys."""
    grid = {"family": "1f1b", "workers": 8, "microbatches": 16, "model": "llama3-8b",
            "system": "dgx-h100", "microbatch_size": 1}  # fmt: skip
    (plain,) = Grid(grid).points()
    (same,) = Grid({**grid, "reserve": "parts"}).points()
    (other,) = Grid({**grid, "reserve": 0}).points()
    assert plain.key == same.key != other.key
    file = tmp_path / "rows.jsonl"
    pipesched.sweep({**grid, "reserve": ["0", "99%"]}, file=file, processes=1)
    assert [json.loads(line)["fits"] for line in file.read_text().splitlines()] == [True, False]


def test_what_is_no_reserve_is_refused(capsys: Capture) -> None:
    said = failure_of(capsys, "sweep", *LINE, "--reserve", "some", status=2)
    assert "reserve is a number of bytes, such as 80GiB" in said
    with pytest.raises(PipeSchedError, match="reserve is a number of bytes"):
        Grid({"family": "1f1b", "workers": 4, "microbatches": 8, "reserve": "x"})
    assert "reserve CUDA" not in text_of(capsys, "sweep", *LINE, "--reserve", "20%")
