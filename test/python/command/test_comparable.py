"""Columns that can be compared among schedules: activations of equal parts of the model, and
formulas beside the measure that they are about.
"""

import pytest
from pipesched import Configuration
from pipesched.command import main
from test_command import Capture, rows_of

SLOTS = ["--workers", "8", "--times", "F=1us,I=1us,W=1us", "--times-of", "worker"]
FAMILIES = "1f1b,interleaved-1f1b,zb-h2,zb-v,v-half,v-min,dualpipe,hanayo"


def compared(capsys: Capture, microbatches: int = 24) -> dict[str, dict[str, object]]:
    line = ["compare", *SLOTS, "--microbatches", str(microbatches), "--schedules", FAMILIES]
    return {str(row["schedule"]): row for row in rows_of(capsys, *line)}


def test_activations_are_those_of_papers(capsys: Capture) -> None:
    """V-half holds half of 1F1B's activations and V-min a third of them, and a little more (Qi et
    al. 2024); ZB-H2 twice as many (Qi et al. 2023), and DualPipe one more than there are workers
    (DeepSeek-V3).
    """
    found = {name: row["activations"] for name, row in compared(capsys).items()}
    assert found["1f1b"] == found["zb-v"] == 8
    assert found["v-half"] == 5 and found["v-min"] == 4
    assert found["zb-h2"] == 15 and found["dualpipe"] == 9
    assert found["interleaved-1f1b"] == 11.5
    stages = {name: row["peak_activations"] for name, row in compared(capsys).items()}
    assert stages["v-half"] == 10 and stages["interleaved-1f1b"] == 23


def test_tables_show_them(capsys: Capture) -> None:
    line = [*SLOTS, "--microbatches", "24", "--columns", "schedule,activations,formula"]
    assert main(["compare", *line, "--schedules", "v-half,zb-v,1f1b"]) == 0
    printed = [each.split() for each in capsys.readouterr().out.splitlines()]
    assert ["v-half", "5", "16.28", "%"] in printed or ["v-half", "5", "12.73", "%"] in printed
    assert ["zb-v", "8", "0.00", "%", "of", "span"] in printed
    assert ["1f1b", "8", "22.58", "%"] in printed


@pytest.mark.parametrize("family", ["zb-v", "zb-h2"])
@pytest.mark.parametrize("workers", [2, 3, 5])
def test_formulas_of_the_span(family: str, workers: int, capsys: Capture) -> None:
    """They are the measured span from the number of microbatches on that they take, and are left
    out below it, where the span has idle time.
    """
    for count in range(1, 3 * workers):
        made = Configuration(family, workers, count, costs=None).simulate()
        assert made.formula is not None and made.formula.of == "span"
        line = ["--workers", str(workers), "--microbatches", str(count), "--times"]
        line += ["F=1us,I=1us,W=1us,B=2us"]
        (row,) = rows_of(capsys, "compare", family, *line)
        if count >= 2 * workers - 1:
            assert row["formula_of"] == "span"
            assert row["formula_bubble_ratio"] == row["span_bubble_ratio"] == 0
        else:
            assert row["formula_of"] is None and row["formula_bubble_ratio"] is None


def test_formulas_of_the_step(capsys: Capture) -> None:
    rows = compared(capsys)
    assert rows["1f1b"]["formula_of"] == "step"
    assert rows["1f1b"]["formula_bubble_ratio"] == rows["1f1b"]["table_bubble_ratio"]


@pytest.mark.parametrize("microbatches", [8, 24])
def test_sweeps_have_the_same(microbatches: int, capsys: Capture) -> None:
    rows = compared(capsys, microbatches)
    line = ["sweep", *SLOTS, "--microbatches", str(microbatches), "--schedules", FAMILIES]
    for row in rows_of(capsys, *line):
        for key in ("activations", "peak_activations", "formula_of", "formula_bubble_ratio"):
            if row.get("error") is None:
                assert row[key] == rows[row["family"]][key], (row["family"], key)


def test_sweeps_rank_by_activations(capsys: Capture) -> None:
    line = ["sweep", *SLOTS, "--microbatches", "24", "--schedules", "1f1b,v-half,v-min"]
    rows = rows_of(capsys, *line, "--rank-by", "activations")
    ranked = sorted(rows, key=lambda row: row["activations"])
    assert [row["family"] for row in ranked] == ["v-min", "v-half", "1f1b"]
    assert main([*line, "--rank-by", "activations", "--top", "1"]) == 0
    assert "v-min" in capsys.readouterr().out
