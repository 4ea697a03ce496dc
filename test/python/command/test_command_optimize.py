"""`pipesched optimize`: its answers, files, mistakes, and Ctrl-C."""

import json
import os
from pathlib import Path

import pipesched
import pytest
from test_command import Capture, failure_of, interrupted, rows_of, run_passes, text_of

TIMES = ["--times", "F=10ms,I=12ms,W=8ms,D=14ms,U=14ms,comm=1ms"]
SMALL = ["optimize", "--pp", "2", "--microbatches", "4", "--time", "20s"]


def test_answer_and_file(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "best.mlir"
    times = ["--times", "F=10ms,I=12ms,W=8ms,D=14ms,U=14ms"]
    given = [*SMALL, *times, "--activations", "2", "--offload", "-o", str(file)]
    (row,) = rows_of(capsys, *given)
    assert row["status"] == "optimal" and row["gap"] == 0
    assert row["makespan_s"] == row["lower_bound_s"]
    assert set(row["without_s"]) == {"split_backward", "offload"}
    saved = pipesched.Schedule.from_file(file)
    saved.verify(memory=2)
    assert saved.simulate(transport="delay").execution.makespan_ps / 1e12 == row["makespan_s"]
    printed = text_of(capsys, *given)
    assert printed.startswith("2 workers, 4 microbatches, memory 2, transport delay\n")
    assert "- without split backward: " in printed


def test_weight_gradients_may_take_no_time(tmp_path: Path, capsys: Capture) -> None:
    """The step has whole backwards, also from rows that split them."""
    file = str(tmp_path / "best.mlir")
    sizes = ["--pp", "2", "--microbatches", "4", "--activations", "2", "--time", "20s"]
    whole = [*sizes, "--times", "F=10ms,B=12ms", "--set", "split-backward=false"]
    free = [*sizes, "--times", "F=10ms,I=12ms,W=0ms"]
    (wanted,) = rows_of(capsys, "optimize", *whole)
    for start in ([], ["zb-h1"]):
        (row,) = rows_of(capsys, "optimize", *start, *free, "-o", file)
        assert row["status"] == "optimal" and row["makespan_s"] == wanted["makespan_s"]
    (timed,) = rows_of(capsys, "simulate", file, "--times", "F=10ms,I=12ms,W=0ms")
    assert timed["step_s"] == wanted["makespan_s"]


def test_starts_from_a_file(tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "gpipe.mlir")
    pipesched.generate("gpipe", workers=4, microbatches=8, split_backward=True).save(file)
    (row,) = rows_of(capsys, "optimize", file, *TIMES, "--time", "1s")
    assert row["makespan_s"] < row["before_s"]
    (row,) = rows_of(
        capsys,
        *("optimize", "--schedule", "zb-v", "--pp", "2", "--microbatches", "4"),
        *(*TIMES, "--set", "times-of=worker", "--time", "1s"),
    )
    assert row["before_s"] >= row["makespan_s"] >= row["lower_bound_s"] >= 4 * 0.03


def test_alternatives(capsys: Capture) -> None:
    costs = ["--model", "toy", "--system", "toy", "--microbatch-size", "2"]
    given = [*SMALL, *costs, "--memory", "500000B", "--placements", "linear,v"]
    given += ["--microbatch-sizes", "1,2,4", "--max-evaluations", "500", "--threads", "1"]
    (row,) = rows_of(capsys, *given)
    assert len(row["others"]) == 5
    assert "- with linear, microbatches of 4: " in text_of(capsys, *given)


LAYERS = "F=1ms,I=1ms,W=1ms,layers=10,head.F=2ms,head.I=2ms,head.W=2ms,comm=0.1ms"


def test_placements_divide_the_same_layers(tmp_path: Path, capsys: Capture) -> None:
    """Under times of layers each placement has its own stages and as much work as the others."""
    kinds = ["linear", "v", "interleaved", "wave"]
    found: dict[str, float] = {}
    given = [*SMALL, "--times", LAYERS, "--max-evaluations", "400", "--threads", "1"]
    file = tmp_path / "best.mlir"
    (row,) = rows_of(capsys, *given, "--placements", ",".join(kinds), "-o", str(file))
    for kind in kinds:
        (alone,) = rows_of(capsys, *given, "--placements", kind, "--max-evaluations", "100")
        assert alone["placement"] == kind and alone["others"] == []
        found[kind] = alone["makespan_s"]
        assert alone["lower_bound_s"] >= row["lower_bound_s"]
    assert row["makespan_s"] == min(found.values()) == found[row["placement"]]
    assert row["makespan_s"] >= row["lower_bound_s"] >= 4 * 3 * 12e-3 / 2
    others = {other["placement"]: other["objective_s"] for other in row["others"]}
    assert {**others, row["placement"]: row["makespan_s"]} == found
    busy = pipesched.Schedule.from_file(file).simulate(transport="delay").execution.busy_ps
    assert sum(busy) == 4 * 3 * 12 * 10**9
    printed = run_passes(capsys, *given, "--placements", "v")
    again = pipesched.Schedule.from_text(printed).simulate(transport="delay")
    assert again.execution.makespan_ps / 1e12 == found["v"]


def test_placements_without_a_schedule_are_said(capsys: Capture) -> None:
    """On a V a microbatch needs two activations of the first worker."""
    given = [*SMALL, "--times", LAYERS, "--activations", "1", "--placements", "linear,v"]
    (row,) = rows_of(capsys, *given)
    (other,) = row["others"]
    assert (row["placement"], other["placement"], other["objective_s"]) == ("linear", "v", None)
    assert other["reason"].startswith("worker 0 has a capacity of 1, which holds no schedule")
    line = [*SMALL, "--times", LAYERS, "--activations", "1", "--placements", "v"]
    message = failure_of(capsys, *line)
    assert other["reason"] in message


def test_passes(capsys: Capture) -> None:
    given = [*SMALL, *TIMES, "--activations", "2", "--set", "times-of=worker"]
    (row,) = rows_of(capsys, *given)
    printed = pipesched.Schedule.from_text(run_passes(capsys, *given))
    assert printed.simulate(transport="delay").execution.makespan_ps / 1e12 == row["makespan_s"]


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["optimize"], 2, "give a file, or --pp and --microbatches"),
        ([*SMALL, "-o", "best"], 1, "cannot tell from 'best' what to write"),
        ([*SMALL, *TIMES, "--memory", "lots"], 1, "lots"),
        ([*SMALL, *TIMES, "--memory", "80GB"], 1, "has no model"),
        ([*SMALL, "--placements", "w"], 2, "expected some of linear, interleaved, v, wave"),
        ([*SMALL, *TIMES, "--placements", "linear,v"], 2, "different amounts of work"),
        (
            [*SMALL, "--times", LAYERS, "--schedule", "1f1b", "--placements", "linear,v"],
            2,
            "the schedule has rows, which another placement would move; give --pp",
        ),
        ([*SMALL[:-1], "soon"], 1, "time is a time from above 0 to 1000h"),
    ],
)
def test_mistakes(given: list[str], status: int, said: str, capsys: Capture) -> None:
    assert said in failure_of(capsys, *given, status=status)


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_keeps_the_best_so_far(tmp_path: Path) -> None:
    file = tmp_path / "best.mlir"
    hard = ["optimize", "--pp", "8", "--microbatches", "24", *TIMES, "--activations", "3"]
    hard += ["--offload", "--recompute", "full", "--threads", "1", "--time", "10min"]
    status, out, err = interrupted([*hard, "-o", str(file), "--format", "json"], after=5)
    assert status == 130, err
    assert "interrupted; this is the best so far" in err
    (row,) = json.loads(out)
    assert row["status"] == "interrupted"
    saved = pipesched.Schedule.from_file(file)
    saved.verify(memory=3)
    assert saved.simulate(transport="delay").execution.makespan_ps / 1e12 == row["makespan_s"]
