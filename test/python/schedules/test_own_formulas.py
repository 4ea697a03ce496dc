"""Formulas of registered families: in rows, and checked against tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError
from test_command import Capture, rows_of


def gpipe(problem: pipesched.Schedule, turns: int = 1) -> Any:
    """GPipe, with idle slots in front in each of several turns."""
    made = pipesched.generate("gpipe", workers=problem.workers, microbatches=problem.microbatches)
    idle = [f"_{turns - 1}"] if turns > 1 else []
    return [[*idle, *row] for row in made.rows]


def bubble(workers: int, microbatches: int) -> float:
    return (workers - 1) / (microbatches + workers - 1)


def wrong(workers: int, microbatches: int) -> float:
    return bubble(workers, microbatches) if (workers, microbatches) != (4, 8) else 0.5


@pytest.fixture(autouse=True)
def registered() -> None:
    pipesched.register_family("own-gpipe", gpipe, formula=bubble, source="Doe 2031")


def test_it_is_that_of_tables() -> None:
    assert pipesched.check_formula("own-gpipe") == 5 * 7
    pipesched.register_family("own-wrong", gpipe, formula=wrong)
    said = (
        r"the formula of family 'own-wrong' says 0\.5 for 4 workers and 8 microbatches; its table "
        r"has 0\.272727 idle"
    )
    with pytest.raises(PipeSchedError, match=said):
        pipesched.check_formula("own-wrong")
    assert pipesched.check_formula("own-wrong", workers=[2, 3]) == 14
    with pytest.raises(PipeSchedError, match="holds for none of these sizes"):
        pipesched.check_formula("own-gpipe", workers=[])


def test_options_reach_formulas_that_take_them() -> None:
    seen = []

    def formula(workers: int, microbatches: int, turns: int = 1) -> float | None:
        seen.append(turns)
        return None if turns > 1 else bubble(workers, microbatches)

    pipesched.register_family("own-turns", gpipe, formula=formula)
    pipesched.check_formula("own-turns", workers=[2], microbatches=[2], turns=1)
    assert seen == [1]
    with pytest.raises(PipeSchedError, match="holds for none"):
        pipesched.check_formula("own-turns", workers=[2], microbatches=[2], turns=3)


def test_rows_have_it(capsys: Capture) -> None:
    sizes = ("--pp", "4", "--microbatches", "8")
    rows = rows_of(capsys, "simulate", "own-gpipe", "gpipe", *sizes)
    rows += rows_of(capsys, "sweep", "--schedules", "own-gpipe,gpipe", *sizes)
    assert [row["formula_bubble_ratio"] for row in rows] == pytest.approx([bubble(4, 8)] * 4)
    assert {row["formula_of"] for row in rows} == {"step"}
    stepped = rows_of(capsys, "simulate", "own-gpipe", *sizes, "--optimizer-step", "overlapped")
    assert stepped[0]["formula_bubble_ratio"] is None  # which has no end of a step


def test_other_processes_have_it() -> None:
    grid = {"family": "own-gpipe", "workers": [2, 4], "microbatches": [4, 8]}
    here = pipesched.sweep(grid, processes=1)
    there = pipesched.sweep(grid, processes=2)
    assert here.equals(there) and here["formula_bubble_ratio"].notna().all()


def test_it_is_part_of_the_key() -> None:
    """Another formula does not continue the rows of a file."""
    grid = {"family": "own-gpipe", "workers": 4, "microbatches": 8}
    (before,) = pipesched.Grid(grid).points()
    pipesched.register_family("own-gpipe", gpipe, formula=wrong)
    (after,) = pipesched.Grid(grid).points()
    assert before.key != after.key


def test_a_function_in_a_file_has_it_as_an_attribute(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import pipesched\n"
        "def rows(problem):\n"
        "    sizes = dict(workers=problem.workers, microbatches=problem.microbatches)\n"
        "    return pipesched.generate('gpipe', **sizes).rows\n"
        "rows.formula = lambda workers, microbatches: 1 - microbatches / (microbatches + workers"
        " - 1)\n"
        "rows.source = 'Roe 2032, arXiv 3202.00002'\n"
    )
    line = ("simulate", f"{file}:rows", "--pp", "4", "--microbatches", "8")
    (row,) = rows_of(capsys, *line)
    assert row["formula_bubble_ratio"] == pytest.approx(bubble(4, 8))
    assert pipesched.families()[f"{file}:rows"].source.startswith("Roe 2032")


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), "half", True])
def test_what_is_no_ratio_is_refused(value: Any) -> None:
    pipesched.register_family("own-odd", gpipe, formula=lambda workers, microbatches: value)
    with pytest.raises(PipeSchedError, match="wanted the part of all slots that is idle, from 0"):
        pipesched.check_formula("own-odd")


def test_what_has_no_formula() -> None:
    pipesched.register_family("own-none", gpipe)
    with pytest.raises(PipeSchedError, match="has no formula; register_family takes one"):
        pipesched.check_formula("own-none")
    with pytest.raises(PipeSchedError, match="'1f1b' is no registered family"):
        pipesched.check_formula("1f1b")
    bad: Any = 0.5
    with pytest.raises(TypeError, match="the formula of family 'own-none' is a function"):
        pipesched.register_family("own-none", gpipe, formula=bad)
