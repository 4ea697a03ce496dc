"""Columns that can be compared among schedules: activations of equal parts of the model, formulas
alongside the measure that they are about, and MFU by the data sheet.
"""

import json
import re
from pathlib import Path

import pytest
from pipesched import Configuration, PipeSchedError, Schedule, generate, systems
from pipesched.command import main
from test_command import Capture, rows_of, text_of

SLOTS = ["--pp", "8", "--times", "F=1us,I=1us,W=1us", "--set", "times-of=worker"]
FAMILIES = "1f1b,interleaved-1f1b,zb-h2,zb-v,v-half,v-min,dualpipe,hanayo"


def compared(capsys: Capture, microbatches: int = 24) -> dict[str, dict[str, object]]:
    line = ["simulate", *SLOTS, "--microbatches", str(microbatches), "--schedules", FAMILIES]
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
    assert main(["simulate", *line, "--schedules", "v-half,zb-v,1f1b"]) == 0
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
        line = ["--pp", str(workers), "--microbatches", str(count), "--times"]
        line += ["F=1us,I=1us,W=1us,B=2us"]
        (row,) = rows_of(capsys, "simulate", family, *line)
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
    assert "v-min" in text_of(capsys, *line, "--rank-by", "activations", "--top", "1")


@pytest.mark.parametrize("slices", [2, 4])
def test_slices_are_parts_of_activations(slices: int, capsys: Capture) -> None:
    sizes = ["--pp", "4", "--microbatches", "8", "--slices", str(slices), "--times"]
    line = ["--schedules", "seq1f1b,1f1b", *sizes, "F=1us,B=2us"]
    swept = {row["family"]: row for row in rows_of(capsys, "sweep", *line)}
    for row in rows_of(capsys, "simulate", *line):
        same = swept[row["family"]]
        assert same["activations"] == row["activations"]
        assert same["peak_activations"] == row["peak_activations"]
    assert swept["seq1f1b"]["activations"] == swept["seq1f1b"]["peak_activations"] / slices


@pytest.mark.parametrize("times", ["", "F=1us,B=2us,D=1us,U=1us", "F=1us,B=2us,D=2us,U=2us"])
def test_offloaded_activations_are_on_the_host(times: str) -> None:
    """Activations are counted as in a memory budget at the same times."""
    rows = generate("gpipe", workers=2, microbatches=8)
    if times:
        rows = rows.transform(f"pipe-attach-profile{{times={times}}}")
    moved = rows.transform("pipe-add-offload{keep=3}")
    whole, table = rows.simulate().table, moved.simulate().table
    assert whole is not None and whole.peak_activations.max() == 8
    assert table is not None
    held = int(table.peak_activations.max())
    assert held < 8
    moved.verify(memory=held, memory_times="given")
    with pytest.raises(PipeSchedError, match=f"budget of {held - 1} activation"):
        moved.verify(memory=held - 1, memory_times="given")


# MFU

MODEL = ["--model", "llama3-8b", "--microbatch-size", "1", "--pp", "4", "--microbatches", "8"]
COSTS = (
    "pipe-attach-system{{name=h100-sxm rates={}}},"
    "pipe-attach-model{{name=llama3-8b microbatch-size=1}}"
)


def system_file(tmp_path: Path, **fields: object) -> str:
    """An H100 with other fields."""
    text = (Path(__file__).parents[3] / "systems" / "h100-sxm.json").read_text()
    file = tmp_path / f"{'-'.join(fields)}.json"
    file.write_text(json.dumps({**json.loads(text), "name": "own", "aliases": [], **fields}))
    return str(file)


@pytest.mark.parametrize("command", ["simulate", "sweep", "plan"])
def test_a_slower_cluster_has_a_lower_mfu(command: str, tmp_path: Path, capsys: Capture) -> None:
    """The products of its step are the same, and so is the peak of the data sheet."""
    slow = system_file(tmp_path, load={**systems()["h100-sxm"]["load"], "sustained": 0.5})
    few = system_file(tmp_path, multiprocessors={"count": 132, "communication": 66})
    line = ["1f1b", *MODEL]
    if command == "sweep":
        line = ["--schedules", *line]
    if command == "plan":
        line = ["--model", "llama3-8b", "--gpus", "8", "--global-batch", "16", "--top", "1"]
    found = [rows_of(capsys, command, *line, "--system", each)[0] for each in ("h100-sxm", slow)]
    found.append(rows_of(capsys, command, *line, "--system", few)[0])
    fast = found[0]
    for row in found[1:]:
        assert row["step_s"] > fast["step_s"] and row["mfu"] < fast["mfu"]
        assert row["mfu"] * row["step_s"] == pytest.approx(fast["mfu"] * fast["step_s"], rel=1e-5)


@pytest.mark.parametrize("rates", ["data-sheet", "load"])
def test_files_have_the_mfu_of_their_costs(rates: str, tmp_path: Path, capsys: Capture) -> None:
    """Passes have no habits, and files no band, so that their steps are as computed."""
    costs = ["--system", "h100-sxm", "--rates", rates, "--for", "none"]
    (wanted,) = rows_of(capsys, "simulate", "1f1b", *MODEL, *costs)
    rows = generate("1f1b", workers=4, microbatches=8).transform(COSTS.format(rates))
    for name, each in {"rows": rows, "program": rows.transform("convert-pipe-to-exec")}.items():
        file = tmp_path / f"{name}.mlir"
        each.save(file)
        (row,) = rows_of(capsys, "simulate", str(file))
        assert row["expected_s"] == row["step_s"] == wanted["step_s"]
        assert row["mfu"] * row["step_s"] == pytest.approx(wanted["mfu"] * wanted["expected_s"])


def test_mfu_counts_what_a_program_computes(tmp_path: Path, capsys: Capture) -> None:
    """A program of forwards multiplies a third of a step; FLOPs that it states count."""
    rows = generate("1f1b", workers=2, microbatches=4).transform(COSTS.format("auto"))
    text = rows.transform("convert-pipe-to-exec").to_text()
    forwards = re.sub(r"(?m)^.* (compute|send|recv) \d+B\d+.*\n", "", text)
    stated = re.sub(r"(?m)(compute 0F\d+)", r"\1 flops 0", forwards)
    work = []
    for name, each in {"all": text, "forwards": forwards, "stated": stated}.items():
        file = tmp_path / f"{name}.mlir"
        file.write_text(each)
        (row,) = rows_of(capsys, "simulate", str(file))
        assert 0 < row["mfu"] < 1
        work.append(row["mfu"] * row["step_s"])
        assert Schedule.from_text(each).kind == "program"
    assert work[1] == pytest.approx(work[0] / 3)
    assert work[2] < 0.7 * work[1]
