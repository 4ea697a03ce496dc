"""The verbs that time schedules have the same options, but for those that say why not."""

from __future__ import annotations

import json
from pathlib import Path

import pipesched
import pytest
from pipesched import Grid, PipeSchedError
from pipesched.command import main
from test_command import Capture, rows_of
from test_naming import flags_of

TIMED = ("simulate", "compare", "optimize", "plan", "sweep")

FOUND = "it finds them itself"
OWN_ROWS = "it makes rows of its own"
NOT_JUDGED = "it does not say what fits"
AXIS = "it has an axis for it"
MISSING: dict[str, dict[str, str]] = {
    **dict.fromkeys(("accelerators", "data", "data-parallel", "microbatches"), {"plan": FOUND}),
    **dict.fromkeys(("balance", "rank-order", "used-per-node"), {"plan": FOUND}),
    **dict.fromkeys(("waves", "split-backward", "option"), {"plan": FOUND}),
    **dict.fromkeys(
        ("construction", "gradient-after", "group", "pairs"),
        {"optimize": OWN_ROWS, "plan": FOUND},
    ),
    **dict.fromkeys(("no-split-backward",), {"plan": FOUND, "sweep": AXIS}),
    **dict.fromkeys(("no-sequence-parallel",), {"plan": FOUND, "sweep": AXIS}),
    **dict.fromkeys(
        ("receive-placement", "runtime"),
        {"optimize": "its order holds for all of them", "plan": "the framework decides it"},
    ),
    "optimizer-step": {
        "optimize": "simulate ends what it has found",
        "plan": "its steps end with optimizer steps",
    },
    "transport": {"optimize": "its order holds for all of them"},
    "set": {"sweep": "files of systems are its axis"},
    **dict.fromkeys(
        ("slow-worker", "slow-stage", "slow-node", "jitter", "seeds"),
        {"optimize": "simulate times what it has found", "sweep": "it has --disturbance"},
    ),
    "html": {"optimize": "simulate draws what it has found", "sweep": "it draws no schedules"},
    "columns": {"optimize": "its table has no columns that can be left out"},
    "name": {"plan": "it reads no schedules", "sweep": "it reads no schedules"},
    "slices": {"plan": FOUND},
    "vocabulary": {"optimize": "a search takes whole heads"},
    "backward": {"optimize": "a search takes whole heads", "plan": "it is that of the costs"},
    "embedding": {
        "optimize": "a search takes whole heads",
        "plan": "its shards look up rows in S and T",
    },
    "reserve": {"simulate": NOT_JUDGED, "optimize": "--memory is the budget"},
}


def test_what_some_have_all_have() -> None:
    """An option that three of the verbs have is missing in another one for a reason alone."""
    flags = {verb: set(flags_of(verb)) for verb in TIMED}
    every = set.union(*flags.values())
    found = {}
    for flag in sorted(flag for flag in every if flag.startswith("--")):
        without = {verb for verb in TIMED if flag not in flags[verb]}
        if 0 < len(without) <= 2:
            found[flag.removeprefix("--")] = without
    assert found == {name: set(why) for name, why in MISSING.items()}


def test_who_says_what_fits_takes_a_reserve() -> None:
    for verb in ("compare", "plan", "sweep", "whatif"):
        assert "--reserve" in flags_of(verb)


LINE = ("--schedules", "1f1b", "--workers", "8", "--microbatches", "16", "--model", "llama3-8b",
        "--system", "dgx-h100", "--microbatch-size", "1")  # fmt: skip


@pytest.mark.parametrize("accelerators", ["1", "4"])
def test_a_reserve_of_a_sweep_is_that_of_compare(capsys: Capture, accelerators: str) -> None:
    """Of an accelerator, in bytes and in parts of its memory."""
    line = (*LINE, "--accelerators", accelerators)
    (row,) = rows_of(capsys, "compare", *line)
    free = 80 * 2**30 - row["peak_bytes_per_gpu"]
    for reserve in ("0", f"{free // 2}B", f"{free + 2**30}B", "1GiB+5%", "99%"):
        (one,) = rows_of(capsys, "compare", *line, "--reserve", reserve)
        (other,) = rows_of(capsys, "sweep", *line, "--reserve", reserve)
        assert one["fits"] is other["fits"] and other["reserve"] == reserve
    many = rows_of(capsys, "sweep", *line, "--reserve", "0,99%")
    assert [row["fits"] for row in many] == [True, False]
    assert len({row["key"] for row in many}) == 2


def test_a_reserve_is_kept_with_its_rows(tmp_path: Path, capsys: Capture) -> None:
    """Another reserve does not go on with the rows of a file, and the default has old keys."""
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
    with pytest.raises(SystemExit):
        main(["sweep", *LINE, "--reserve", "some"])
    assert "reserve is a number of bytes, such as 80GiB" in capsys.readouterr().err
    with pytest.raises(PipeSchedError, match="reserve is a number of bytes"):
        Grid({"family": "1f1b", "workers": 4, "microbatches": 8, "reserve": "x"})
    assert main(["sweep", *LINE, "--reserve", "20%"]) == 0
    assert "reserve CUDA" not in capsys.readouterr().out
