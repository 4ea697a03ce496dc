"""`pipesched show` of schedules that deadlock."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pipesched
import pytest
from pipesched import PipeSchedError, Schedule
from pipesched.command import main
from pipesched.command.stuck import _starts, drawn
from test_command import Capture

DEAD = """pipe.schedule @dead workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0B0 0F1 0B1]
  worker 1 runs [1F0 1F1 1B0 1B1]
}
"""


def test_it_is_drawn_up_to_the_cycle(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "dead.mlir"
    file.write_text(DEAD)
    assert main(["show", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == (
        "dead: 2 of 8 cells run in 2 slots, then 0B0, 1B0, 1F1, 0F1 wait for each other\n"
        "  worker 0  0F0 ... | <0B0> <0F1> 0B1\n"
        "  worker 1  ... 1F0 | <1F1> <1B0> 1B1\n"
    )
    assert f"{file}:3:22: error: 'pipe.worker' op the rows deadlock: 0B0 waits for" in err
    assert f"{file}:4:26: note: 1B0 on worker 1 runs after 1F1 in its row" in err
    written = tmp_path / "out.txt"
    assert main(["show", str(file), "-o", str(written)]) == 1
    assert written.read_text() == out


def test_other_errors_have_no_picture(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "short.mlir"
    file.write_text(DEAD.replace(" 0F1 0B1", ""))
    assert main(["show", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and "error" in err


@pytest.mark.parametrize("family", ["1f1b", "zb-v", "dualpipe-v", "chimera", "interleaved"])
def test_what_runs_is_what_runs(family: str) -> None:
    """Rows that do not deadlock run to their end. Where two cells of rows change places, the walk
    gets to its end exactly if the proof says that there is no deadlock."""
    made = pipesched.generate(family, workers=4, microbatches=8)
    assert list(map(len, _starts(made))) == list(map(len, made.rows))
    chance, found = random.Random(family), 0
    text = made.to_text()
    for _ in range(60):
        worker = chance.randrange(4)
        row = made.rows[worker]
        first = chance.randrange(len(row) - 3)
        for second in itertools.islice(range(first + 1, len(row)), 3):
            changed = list(row)
            changed[first], changed[second] = row[second], row[first]
            try:
                other = Schedule.from_text(text.replace(" ".join(row), " ".join(changed)))
                other.verify()
            except PipeSchedError as error:
                if "deadlock" not in error.diagnostics[0].message:
                    continue
                picture = drawn(other, error)
                assert picture is not None and picture.count("<") >= 2
                found += 1
                continue
            assert list(map(len, _starts(other))) == list(map(len, other.rows))
    assert found or family == "interleaved"
