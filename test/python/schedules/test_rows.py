"""Rows, frames and families of one's own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pipesched
import pytest
from pipesched import (
    Configuration,
    Costs,
    PipeSchedError,
    Schedule,
    Simulation,
    families,
    generate,
    problem,
    register_family,
    simulate_batch,
)

SERIAL = '''
def serial(problem, pause=0):
    """One microbatch after the other."""
    idle = [None] * pause
    return [
        [entry for n in range(problem.microbatches) for entry in ((w, "F", n), *idle, (w, "B", n))]
        for w in range(problem.workers)
    ]
'''


def serial(problem: Schedule) -> list[list[tuple[int, str, int]]]:
    """One microbatch after the other."""
    order = [(phase, n) for n in range(problem.microbatches) for phase in "FB"]
    return [[(worker, phase, n) for phase, n in order] for worker in range(problem.workers)]


@pytest.fixture(autouse=True)
def registered() -> None:
    register_family("serial", serial)


# Rows


@pytest.mark.parametrize("family", pipesched.families())
def test_rows_and_frames_of_families(family: str) -> None:
    for after in ("I", "W"):
        try:
            options: dict[str, Any] = {"gradient_after": after, "split_backward": True}
            schedule = generate(family, workers=4, microbatches=8, **options)
        except PipeSchedError:
            schedule = generate(family, workers=4, microbatches=8)
        rows = Schedule.from_rows(
            schedule.rows, paths=schedule.paths, gradient_after=schedule.gradient_after
        )
        assert rows.rows == schedule.rows
        framed = Schedule.from_frame(schedule.to_frame())
        assert framed.rows == schedule.rows
        assert framed.gradient_after == schedule.gradient_after
        assert framed.paths == schedule.paths
        pd.testing.assert_frame_equal(framed.to_frame(), schedule.to_frame())
        makespan = schedule.simulate().execution.makespan_ps
        assert framed.simulate().execution.makespan_ps == makespan


def test_frames_keep_pairs_and_survive_files(tmp_path: Path) -> None:
    schedule = generate("dualpipe", workers=4, microbatches=8)
    frame = schedule.to_frame()
    assert (frame.pair >= 0).any()
    shuffled = frame.sample(frac=1, random_state=0)
    assert Schedule.from_frame(shuffled).rows == schedule.rows
    frame.to_csv(tmp_path / "frame.csv", index=False)
    read = Schedule.from_frame(pd.read_csv(tmp_path / "frame.csv"), paths=schedule.paths)
    assert read.rows == schedule.rows


def test_frames_do_not_lose_joins() -> None:
    schedule = generate("1f1b", workers=4, microbatches=8).transform("pipe-add-offload{memory=2}")
    assert Schedule.from_rows(schedule.rows).rows == schedule.rows
    with pytest.raises(PipeSchedError, match=r"leaves out \d+ joins"):
        Schedule.from_frame(schedule.to_frame())


def test_entries() -> None:
    cell = generate("1f1b", workers=1, microbatches=1).program(0)[0].cell
    rows = [[cell, (0, "F", 1), None, [(0, "B", 0), "0F2"], "0B1", "_3", "0B2"]]
    made = Schedule.from_rows(rows, name="mixed")
    assert made.rows == (("0F0", "0F1", "_", "0B0+0F2", "0B1", "_3", "0B2"),)
    assert Schedule.from_rows({1: "1F0 1B0", 0: "0F0 0B0"}).rows[1] == ("1F0", "1B0")
    with pytest.raises(PipeSchedError, match="worker 0, entry 1: 'x' is no entry"):
        Schedule.from_rows(["0F0 x"])
    with pytest.raises(PipeSchedError, match="occurs twice"):
        Schedule.from_rows(["0F0 0F0 0B0"])
    with pytest.raises(PipeSchedError, match="rows are of workers"):
        Schedule.from_rows({1: "0F0"})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[(-1, "F", 0)]], "expected a stage from 0 to 16777215, found -1"),
        ([[(1 << 24, "F", 0)]], "cell 0: expected a stage from 0 to 16777215, found 16777216"),
        ([[(0, "F", 0), (0, "B", -1)]], "cell 1: expected a number from 0 to 2147483647, found -1"),
        ([[(1 << 64, "F", 0)]], "is no entry of a row"),
        (["_0 0F0 0B0"], "counts 0 idle slots"),
        (["_99999999999 0F0 0B0"], "expected a number of slots from 0 to 2147483647"),
        ([[["0F0+0F1", "0F2"]]], "is in two overlapped pairs"),
        (["0F0+_"], "is no entry of a row"),
        (["0F0+0F1+0F2"], "is no entry of a row"),
        (["\u0663F0"], "is no entry of a row"),
        (["0F" + "9" * 5000], "is no entry of a row"),
        (["_" + "9" * 5000], "is no entry of a row"),
        (["0F0 + 0F1"], "is no entry of a row"),
        (["0F0 1B0"], "stage 1 is out of range"),
        (["0O1"], "path 1 is out of range"),
        (["0d0"], "runs before its offload 0D0"),
    ],
)
def test_wrong_rows(rows: Any, message: str) -> None:
    with pytest.raises(PipeSchedError, match=message):
        Schedule.from_rows(rows, microbatches=4)


def test_rows_say_the_backward() -> None:
    rows = ["0F0 0F1 0R0 0I0 0W0 0R1 0I1 0W1"]
    made = Schedule.from_rows(rows, gradient_after="W", recompute="selective")
    assert (made.gradient_after, made.recompute) == ("W", "selective")
    assert "gradient after W recompute selective" in made.to_text()
    whole = Schedule.from_rows(rows, recompute="full")
    assert (whole.gradient_after, whole.recompute) == ("I", "full")
    with pytest.raises((PipeSchedError, ValueError)):
        Schedule.from_rows(rows, recompute="some")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ['a "b"', "}", "worker 0 runs [0F0]", "pipe.schedule @x {"])
def test_names_do_not_matter_to_rows(name: str) -> None:
    """Rows are read from the schedule, not from its text."""
    made = Schedule.from_rows(["0F0 _2 0B0"], name=name)
    assert (made.name, made.rows) == (name, (("0F0", "_2", "0B0"),))
    asked = problem(workers=1, microbatches=1, name=name)
    assert Schedule.from_rows(made.rows, problem=asked).rows == made.rows
    assert asked.rows == () and made.transform("convert-pipe-to-exec").rows == ()


def test_rows_for_a_problem() -> None:
    asked = problem(workers=2, microbatches=2, paths=[[0, 1, 1, 0]], name="v")
    asked = asked.transform("pipe-attach-profile{times=F=2us}")
    order = "0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1"
    with pytest.raises(PipeSchedError, match="v has 2 workers; got 1 rows"):
        Schedule.from_rows([order], problem=asked)
    made = Schedule.from_rows([order, "1F0 1F1 2F0 2F1 2B0 2B1 1B0 1B1"], problem=asked)
    made.verify()
    assert "F=2us" in made.to_text()
    with pytest.raises(PipeSchedError, match="v has rows already"):
        Schedule.from_rows(made.rows, problem=made)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="phase"), "no column phase"),
        (lambda f: pd.concat([f, f.head(1)]), "two cells with index 0 on worker 0"),
        (lambda f: f.assign(worker=f.worker + 1), "has a worker 2; wanted 0 to 1"),
        (lambda f: f.assign(pair=[1] + [-1] * (len(f) - 1)), "paired with 1, which is not"),
        (lambda f: f.assign(stage=f.stage.where(f.stage > 0)), "has an empty cell"),
    ],
)
def test_wrong_frames(change: Any, message: str) -> None:
    frame = generate("1f1b", workers=2, microbatches=2).to_frame()
    with pytest.raises(PipeSchedError, match=message):
        Schedule.from_frame(change(frame))


# Families


def test_own_families_are_like_others() -> None:
    made = generate("serial", workers=4, microbatches=8)
    assert made.rows == Schedule.from_rows(made.rows).rows
    listed = families()["serial"]
    assert (listed.summary, listed.options) == ("One microbatch after the other.", ())
    point = Configuration("serial", 4, 8, costs=Costs(times="F=1ms,B=2ms,comm=1ms"))
    expected = made.simulate(times="F=1ms,B=2ms,comm=1ms").execution.makespan_ps
    assert point.simulate().execution.makespan_ps == expected
    frame = simulate_batch([Configuration("1f1b", 4, 8), point, made, Configuration("1f1b", 0, 8)])
    assert frame.makespan_ps.tolist()[:2] == [33_000_000, expected]
    assert frame.makespan_ps[2] == made.simulate().execution.makespan_ps
    assert frame.error.notna().tolist() == [False, False, False, True]


def test_own_families_in_sweeps(tmp_path: Path) -> None:
    grid = {"family": ["1f1b", "serial"], "workers": 4, "microbatches": [4, 8]}
    frame = pipesched.sweep(grid, file=tmp_path / "rows.jsonl")
    single = {
        (f, n): Configuration(f, 4, n).simulate().execution.makespan_ps
        for n in (4, 8)
        for f in ("1f1b", "serial")
    }
    found = zip(frame.family, frame.microbatches, frame.makespan_ps, strict=True)
    assert {(f, n): makespan for f, n, makespan in found} == single
    register_family("serial", lambda problem: serial(problem)[::1])
    with pytest.raises(PipeSchedError, match="no point of this grid"):
        pipesched.sweep(grid, file=tmp_path / "rows.jsonl")


def test_own_families_in_other_processes(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SERIAL)
    script = """
import pipesched, mine
from pipesched import register_family
if __name__ == "__main__":
    register_family("plain", mine.serial)
    grid = {"family": ["mine:serial", "plain"], "workers": [64, 65], "microbatches": 8192}
    frame = pipesched.sweep(grid, processes=2)
    assert frame.error.isna().all(), frame.error.tolist()
    assert frame.makespan_ps.nunique() == 2
    register_family("local", lambda problem: mine.serial(problem))
    try:
        pipesched.sweep({**grid, "family": "local"}, processes=2)
    except pipesched.PipeSchedError as error:
        print(error)
"""
    (tmp_path / "main.py").write_text(script)
    run = [sys.executable, "main.py"]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "family 'local' cannot be sent to other processes" in done.stdout


def test_own_families_by_file(tmp_path: Path) -> None:
    file = tmp_path / "my ladder.py"
    file.write_text(SERIAL)
    name = f"{file}:serial"
    made: Schedule = generate(name, workers=2, microbatches=2, pause=1)  # type: ignore[call-arg]
    assert made.rows[0] == ("0F0", "_", "0B0", "0F1", "_", "0B1")
    code = "import sys; from pipesched.command import main; sys.exit(main())"
    sizes = ["--pp", "2", "--microbatches", "4"]
    command = [sys.executable, "-c", code, "simulate", *sizes, "--schedules", f"1f1b,{name}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=os.sep)
    assert done.returncode == 0, done.stderr
    assert "my ladder.py:serial" in done.stdout


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda problem: [["0F0 0B0"]], "entry 0: '0F0 0B0' is no entry"),
        (lambda problem: ["0F0 0B0"], "has 2 workers; got 1 rows"),
        (lambda problem: generate("1f1b", workers=3, microbatches=2), "3 workers; wanted 2"),
    ],
)
def test_wrong_functions(function: Any, message: str) -> None:
    register_family("wrong", function)
    with pytest.raises(PipeSchedError, match=message):
        generate("wrong", workers=2, microbatches=2)


def test_what_a_function_raises_is_raised() -> None:
    def broken(problem: Schedule) -> list[str]:
        raise ZeroDivisionError

    register_family("broken", broken)
    with pytest.raises(ZeroDivisionError) as raised:
        generate("broken", workers=2, microbatches=2)
    assert raised.value.__notes__ == ["in the function of family 'broken'"]


def test_wrong_registrations() -> None:
    for name in ("1f1b", "VPP", "GPipe", "zb_v", "ZBV", "Schedule1F1B"):
        with pytest.raises(PipeSchedError, match="is a family that ships"):
            register_family(name, serial)
    with pytest.raises(PipeSchedError, match="has no option 'chunks'"):
        generate("serial", workers=2, microbatches=2, chunks=2)
    with pytest.raises(PipeSchedError, match="cannot import 'no_such_module'"):
        generate("no_such_module:serial", workers=2, microbatches=2)
    with pytest.raises(PipeSchedError, match="has no function 'nothing'"):
        generate("pipesched:nothing", workers=2, microbatches=2)


def test_own_families_end_a_step() -> None:
    point = Configuration(
        "serial", 2, 2, optimizer_step="exposed", costs=Costs(times="F=1ms,B=2ms,O=1ms")
    )
    assert set(point.simulate().to_frame().phase) == {"F", "B", "O"}
    peers = Costs(times="F=1ms,B=2ms,O=1ms,G=1ms")
    with pytest.raises(PipeSchedError, match="does not know where its all-reduces"):
        Configuration("serial", 2, 2, optimizer_step="exposed", costs=peers).simulate()


# Metrics


def cells(simulation: Simulation) -> int:
    return len(simulation.to_frame())


def test_metrics_are_columns() -> None:
    sizes = [("1f1b", 4), ("1f1b", 0), ("zb-h1", 4)]
    points = [Configuration(family, workers, 8) for family, workers in sizes]
    frame = simulate_batch(points, metrics={"cells": cells, "family name": lambda s: s.family})
    assert frame.cells.tolist()[::2] == [64, 96]
    assert pd.isna(frame.cells[1])
    assert frame["family name"].tolist()[::2] == ["1f1b", "zb-h1"]
    plain = simulate_batch(points)
    pd.testing.assert_frame_equal(frame[plain.columns], plain)
    with pytest.raises(PipeSchedError, match="'makespan_ps' has the name of a column"):
        simulate_batch(points, metrics={"makespan_ps": cells})
    with pytest.raises(ZeroDivisionError) as raised:
        pipesched.compare([points[0]], metrics={"bad": lambda _: 1 / 0})
    assert raised.value.__notes__ == ["in the metric 'bad' of 1f1b"]
