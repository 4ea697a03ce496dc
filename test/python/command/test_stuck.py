"""`pipesched show` of schedules that deadlock."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pipesched
import pytest
from pipesched import PipeSchedError, Schedule
from pipesched.command import main
from pipesched.command.verbs.show import draw_deadlock as draw
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


@pytest.mark.parametrize("verb", ["simulate", "check"])
def test_a_program_that_reads_early_is_refused(verb: str, tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "early.mlir"
    file.write_text(
        "exec.program @early {\n"
        "  worker 0 {\n    %f0 = compute 0F0\n    %s0 = send 0F0 to 1 after %f0\n  }\n"
        "  worker 1 {\n    %act0 = recv 0F0 from 0\n    %f0 = compute 1F0\n  }\n}\n"
    )
    assert main([verb, str(file)]) == 1
    err = capsys.readouterr().err
    assert f"{file}:8:11: error: 'exec.compute' op of cell 1F0 does not wait for the message" in err
    assert f"{file}:7:13: note: which is here" in err


BROADCAST = """pipe.schedule @late workers 2 microbatches 2 {
  path on [0, 1]
  worker 0 runs [0F0 0X0 0S0 0F1 0X1 0S1 0Y0 0Y1 0T0 0T1 0B0 0B1]
  worker 1 runs [1F1 1F0 1X0 1X1 1S0 1S1 1Y0 1Y1 1T0 1T1 1B0 1B1]
}
"""


def test_a_broadcast_that_closes_the_cycle_is_drawn(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "late.mlir"
    file.write_text(BROADCAST)
    assert main(["show", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "the rows deadlock: 0S0 waits for itself in a cycle of 4" in err
    assert out == (
        "late: 2 of 24 cells run in 2 slots, then 0S0, 1X0, 1F1, 0F1 wait for each other\n"
        "  worker 0  0F0 0X0 | <0S0> <0F1> 0X1 0S1 0Y0 0Y1 0T0 0T1 0B0 0B1\n"
        "  worker 1  ... ... | <1F1> 1F0 <1X0> 1X1 1S0 1S1 1Y0 1Y1 1T0 1T1 1B0 1B1\n"
    )


def test_a_long_cycle_is_named_in_part() -> None:
    paths = "".join(f"  path on [{k}, {(k + 1) % 6}] takes [{k}]\n" for k in range(6))
    rows = "".join(
        f"  worker {k} runs [1F{(k + 5) % 6} 0F{k} 1B{(k + 5) % 6} 0B{k}]\n" for k in range(6)
    )
    text = f"pipe.schedule @ring workers 6 microbatches 6 {{\n{paths}{rows}}}\n"
    picture = draw(Schedule.from_text(text))
    assert picture is not None
    assert "0 of 24 cells run in 0 slots" in picture and "and 4 more wait for each other" in picture
    assert picture.count("<") == 12


@pytest.mark.parametrize("family", ["1f1b", "zb-v", "dualpipe-v", "chimera", "interlaced-1f1b"])
def test_what_deadlocks_is_drawn(family: str) -> None:
    """Two cells of a row change places: there is a picture exactly if the proof says deadlock, and
    it shows the first cell of each row that waits, and a cycle."""
    made = pipesched.generate(family, workers=4, microbatches=8)
    assert draw(made) is None
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
                picture = draw(other)
                assert picture is not None and picture.count("<") >= 2
                found += 1
                continue
            assert draw(other) is None
    assert found
