"""Options of families of one's own on the command line, and several numbers of chunks."""

import csv
import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched.command import main
from pipesched.command.options.files import is_schedule_file, split_words
from test_command import Capture, failure_of, rows_of, run_passes, text_of

OWN = '''def rows(problem, depth=1, wide=False):
    """Forwards, then backwards; after `depth` forwards a backward, if wide."""
    n = problem.microbatches
    found = []
    for w in range(problem.workers):
        row, done = [], 0
        for i in range(n):
            row.append(f"{w}F{i}")
            if wide and i + 1 >= depth + problem.workers - w:
                row.append(f"{w}B{done}")
                done += 1
        found.append([*row, *(f"{w}B{i}" for i in range(done, n))])
    return found
'''
SIZES = ["--pp", "4", "--microbatches", "8"]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(OWN)
    return "mine.py:rows"


def held(depth: int) -> int:
    options: Any = {"depth": depth, "wide": True}
    made = pipesched.generate("mine.py:rows", workers=4, microbatches=8, **options)
    table = made.simulate().table
    assert table is not None
    return int(table.peak_activations.max())


def test_options_reach_the_function(own: str, capsys: Capture) -> None:
    for depth in (1, 2, 3):
        options = ["--option", f"depth={depth}", "--option", "wide=true"]
        for line in (["simulate", own, "1f1b"], ["simulate", "--schedules", own]):
            rows = json.loads(text_of(capsys, *line, *SIZES, *options, "--format", "json"))
            mine = next(row for row in rows if row["schedule"] in (own, "schedule"))
            found = mine.get("peak_activations", None)
            found = max(mine["table"]["peak_activations"]) if found is None else found
            assert found == held(depth)
        assert json.loads(text_of(capsys, "convert", own, *SIZES, *options, "--to", "cells"))


def test_functions_are_no_files(own: str) -> None:
    """A function named with its folder is a family in every verb, `run` among them."""
    assert not is_schedule_file(own) and not is_schedule_file(f"./{own}")
    assert is_schedule_file("./1f1b") and is_schedule_file("rows.mlir")
    assert split_words([f"./{own}", "gpipe"]) == ([], [f"./{own}", "gpipe"])


def test_options_are_axes(own: str, tmp_path: Path, capsys: Capture) -> None:
    line = ["sweep", "--schedules", f"{own},1f1b", *SIZES]
    line += ["--option", "depth=1,2,3", "--option", "wide=true"]
    rows = rows_of(capsys, *line)
    mine = {row["own_options"]: row for row in rows if row["family"] == own}
    assert list(mine) == [f"depth={depth};wide=true" for depth in (1, 2, 3)]
    for depth in (1, 2, 3):
        assert mine[f"depth={depth};wide=true"]["peak_activations"] == held(depth)
    (other,) = (row for row in rows if row["family"] == "1f1b")
    assert other["own_options"] is None
    assert len({row["key"] for row in rows}) == 4
    assert "depth=2;wide=true" in text_of(capsys, *line, "--top", "4")
    kept = tmp_path / "rows.jsonl"
    assert main([*line, "-o", str(kept)]) == 0
    before = kept.read_bytes()
    assert main([*line, "-o", str(kept)]) == 0 and kept.read_bytes() == before
    capsys.readouterr()
    grid = tmp_path / "grid.json"
    grid.write_text(
        json.dumps(
            {"family": own, "workers": 4, "microbatches": 8, "own_options": ["depth=2", "depth=3"]}
        )
    )
    assert len(rows_of(capsys, "sweep", str(grid), "--allow-code")) == 2


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("dept=2", "the closest is 'depth'"),
        ("depth", "expected an option of a family and its value such as depth=2"),
        ("=2", "expected an option of a family and its value such as depth=2"),
    ],
)
def test_wrong_options(option: str, wanted: str, own: str, capsys: Capture) -> None:
    assert wanted in failure_of(capsys, "simulate", own, *SIZES, "--option", option)
    said = failure_of(capsys, "sweep", "--schedules", own, *SIZES, "--option", option)
    assert "depth" in said
    twice = ["--option", "depth=1", "--option", "depth=2"]
    assert "is given twice" in failure_of(capsys, "simulate", own, *SIZES, *twice)
    assert "none of 1f1b has the options depth" in failure_of(
        capsys, "sweep", "--schedules", "1f1b", *SIZES, "--option", "depth=1"
    )


def test_functions_that_take_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.py").write_text(
        "def rows(workers, microbatches): return []\ndef needs(problem, depth): return []\n"
    )
    for name, missing in (("rows", "microbatches"), ("needs", "depth")):
        said = failure_of(capsys, "convert", f"other.py:{name}", *SIZES)
        assert f"other.py:{name}" in said and f"missing a required argument: '{missing}'" in said
    found = rows_of(capsys, "simulate", "other.py:rows", "1f1b", *SIZES)
    rows = {row["schedule"]: row for row in found}
    assert "missing a required" in rows["other.py:rows"]["error"] and rows["1f1b"]["rank"] == 1


def test_they_are_cited_by_their_place(own: str, capsys: Capture) -> None:
    assert f"note = {{{own}}}" in text_of(capsys, "simulate", own, *SIZES, "--format", "bibtex")


def test_the_optimizer_starts_from_them(own: str, capsys: Capture) -> None:
    line = ["optimize", "--pp", "2", "--microbatches", "4", "--times", "F=1ms,I=1ms,W=1ms"]
    line += ["--time", "5s", "--max-evaluations", "1", "--format", "json"]
    for depth in (1, 3):
        options: Any = {"depth": depth, "wide": True}
        made = pipesched.generate(own, workers=2, microbatches=4, **options)
        step = made.simulate(times="F=1ms,I=1ms,W=1ms", transport="delay").execution.makespan_ps
        given = ["--option", f"depth={depth}", "--option", "wide=true"]
        found = json.loads(text_of(capsys, *line, "--schedule", own, *given))
        found = found[0] if isinstance(found, list) else found
        assert found["before_s"] == step / 1e12, depth
    assert main([*line, "--schedule", "VPP", "--option", "chunks=3", "--show-passes"]) == 0
    assert "family=interleaved-1f1b options=chunks=3" in capsys.readouterr().out
    said = failure_of(capsys, *line, "--option", "depth=2", status=2)
    assert "--option is about the family to start from" in said
    assert "has no option 'dept'" in failure_of(
        capsys, *line, "--schedule", own, "--option", "dept=2"
    )


def test_simulate_shows_their_formula(own: str, capsys: Capture) -> None:
    formula = "\nrows.formula = lambda workers, microbatches, depth=1: depth / microbatches\n"
    Path("with_formula.py").write_text(OWN + formula)
    line = ["with_formula.py:rows", *SIZES, "--option", "depth=2", "--format", "csv"]
    (row,) = csv.DictReader(text_of(capsys, "simulate", *line).splitlines())
    assert row["formula_bubble_ratio"] == "0.25"
    ended = [*line, "--optimizer-step", "exposed"]
    for others in (["simulate", own, *SIZES, "--format", "csv"], ["simulate", *ended]):
        (row,) = csv.DictReader(text_of(capsys, *others).splitlines())
        assert row.get("formula_bubble_ratio", "") == ""


# Chunks


def test_several_chunks(capsys: Capture) -> None:
    line = ["simulate", "1f1b", "VPP", "looped-bfs", *SIZES]
    both = {row["schedule"]: row for row in rows_of(capsys, *line, "--vpp", "2,4")}
    assert set(both) == {
        "1f1b",
        *(f"{f}-{c}-chunks" for f in ("interleaved-1f1b", "looped-bfs") for c in (2, 4)),
    }
    for chunks in (2, 4):
        for row in rows_of(capsys, *line, "--vpp", str(chunks)):
            name = row["schedule"]
            same = both[name if name == "1f1b" else f"{name}-{chunks}-chunks"]
            for key in ("step_s", "formula_bubble_ratio", "table_bubble_ratio", "family"):
                assert same[key] == row[key], (name, key)


def test_passes_of_several_chunks(capsys: Capture) -> None:
    line = ["simulate", "VPP", *SIZES, "--vpp", "2,4", "--times", "F=4us,B=8us"]
    line += ["--set", "times-of=worker"]
    rows = {row["schedule"]: row["step_s"] for row in rows_of(capsys, *line)}
    reports = json.loads(run_passes(capsys, *line))
    steps = {r["schedule"]: r["execution"]["makespan_ps"] / 1e12 for r in reports}
    assert steps == {f"{name}-8": step for name, step in rows.items()}
