"""The order of vocab-1f1b follows the time of B relative to F."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from heavy_head import heavy_head
from pipesched import Configuration, Costs, PipeSchedError
from pipesched.command import main
from test_command import Capture, rows_of, run_passes

SIZES: Any = {"workers": 8, "microbatches": 48}


def times(backward: int) -> Costs:
    """A forward of 100 us; steps of the head are short."""
    head = "S=6us,T=9us,X=2us,Y=1us,Z=2us,comm=1us"
    return Costs(times=f"F=100us,B={backward}us,{head}")


def step(backward: int, made_for: int | None = None, receives: Any = "consumer") -> float:
    """The step relative to one in which no worker waits except in the ramps of 1F1B."""
    given: Any = {"costs": times(backward), "receive_placement": receives}
    options: Any = {} if made_for is None else {"backward": made_for}
    point = Configuration("vocab-1f1b", **SIZES, options=options, **given)
    cells: int = SIZES["microbatches"] + SIZES["workers"] - 1
    makespan: int = point.simulate().execution.makespan_ps
    return float(makespan) / 1e6 / ((100 + backward + 15) * cells)


@pytest.mark.parametrize("backward", [120, 150, 180, 200, 220, 300])
def test_no_worker_waits_in_its_intervals(backward: int) -> None:
    assert step(backward) == pytest.approx(1, abs=0.01)
    assert step(backward, made_for=backward) == step(backward)
    assert step(backward) <= step(backward, made_for=200) + 0.005


def test_an_order_for_another_backward_waits() -> None:
    assert step(150, made_for=200) > 1.1
    assert step(300, made_for=120) > 1.05


@pytest.mark.parametrize(("backward", "most"), [(150, 1.01), (200, 1.01), (300, 1.03)])
def test_messages_do_not_overtake_each_other_at_arrival(backward: int, most: float) -> None:
    assert step(backward, receives="arrival") < most
    assert step(backward, made_for=200, receives="arrival") > 1.1


def test_costs_say_the_backward() -> None:
    point = Configuration("vocab-1f1b", **SIZES, costs=times(160))
    made = point.generate()
    assert point.made_options == {"backward": 160} and point.options == {}
    assert "backward = 160" in made.to_text()
    assert made.rows == pipesched.generate("vocab-1f1b", **SIZES, backward=160).rows
    assert made.rows != pipesched.generate("vocab-1f1b", **SIZES).rows
    assert pipesched.generate("vocab-1f1b", **SIZES, backward=200).rows == (
        pipesched.generate("vocab-1f1b", **SIZES).rows
    )
    found = made.simulate(times(160)).execution.makespan_ps
    assert point.simulate().execution.makespan_ps == found


def test_what_is_given_stays() -> None:
    point = Configuration("vocab-1f1b", **SIZES, options={"backward": 300}, costs=times(160))
    assert point.made_options == {"backward": 300}
    assert Configuration("1f1b", **SIZES, costs=times(160)).made_options == {}
    assert Configuration("vocab-1f1b", **SIZES).made_options == {}
    halves = Costs(times="F=100us,I=90us,W=60us,S=6us,T=9us")
    assert Configuration("Vocab-1F1B", **SIZES, costs=halves).made_options == {"backward": 150}
    nothing = Costs(times="F=0us,B=100us,S=6us,T=9us")
    assert Configuration("vocab-1f1b", **SIZES, costs=nothing).made_options == {}


@pytest.mark.parametrize("kind", ["vocab-1", "vocab-2"])
def test_memory_stays(kind: Any) -> None:
    barriers = 2 if kind == "vocab-1" else 1
    for backward in (100, 150, 200, 350):
        made = pipesched.generate("vocab-1f1b", **SIZES, vocabulary=kind, backward=backward)
        table = made.simulate().table
        assert table is not None
        assert table.peak_activations.tolist() == [8 - r + barriers for r in range(8)]


@pytest.mark.parametrize("backward", [-3, 10001])
def test_what_is_no_backward(backward: int) -> None:
    why = f"time of B in percent of the time of F, expected 1 to 10000, found {backward}"
    with pytest.raises(PipeSchedError, match=why):
        pipesched.generate("vocab-1f1b", **SIZES, backward=backward)


def test_passes_make_the_same(tmp_path: Path, capsys: Capture) -> None:
    model = ["--model", heavy_head(tmp_path, 65536), "--system", "dgx-h100"]
    sizes = ["--pp", "8", "--microbatches", "32", "--microbatch-size", "2"]
    line = ["vocab-1f1b", *sizes, *model]
    (row,) = rows_of(capsys, "simulate", *line)
    (forced,) = rows_of(capsys, "simulate", *line, "--option", "backward=200")
    assert row["step_s"] < forced["step_s"]
    for verb in (["simulate", *line], ["simulate", "--schedule", *line]):
        assert "backward=1" in passes_of(capsys, *verb)
        assert f'"makespan_ps": {round(row["step_s"] * 1e12)}' in run_passes(capsys, *verb)


def test_what_is_assumed_is_said(capsys: Capture) -> None:
    sizes = ["vocab-1f1b", "--pp", "8", "--microbatches", "8"]
    costs = ["--times", "F=100us,B=160us,S=6us,T=9us"]
    for given, said in ((costs, "backward 160 % of F"), ([], "backward 200 % of F")):
        for verb in (["simulate", *sizes], ["simulate", "--schedule", *sizes]):
            assert main([*verb, *given]) == 0
            printed = capsys.readouterr()
            assert said in printed.out + printed.err


def passes_of(capsys: Capture, *line: str) -> str:
    assert main([*line, "--show-passes"]) == 0
    return capsys.readouterr().out


def test_plans_are_made_for_it(tmp_path: Path, capsys: Capture) -> None:
    line = ["plan", "--model", heavy_head(tmp_path, 131072), "--system", "dgx-h100"]
    line += ["--gpus", "8", "--global-batch", "32", "--tp", "1", "--pp", "8", "--top", "1"]
    line += ["--schedules", "vocab-1f1b"]
    saved = tmp_path / "saved"
    assert main([*line, "--set", "vocabulary=vocab-1", "--save", str(saved)]) == 0
    capsys.readouterr()
    (file,) = saved.glob("01-vocab-1f1b.mlir")
    (plan,) = saved.glob("01-vocab-1f1b.json")
    (row,) = rows_of(capsys, "simulate", str(file))
    (said,) = json.loads(plan.read_text())
    assert row["execution"]["makespan_ps"] == round(said["step_s"] * 1e12)
    assert main([*line, "--set", "vocabulary=vocab-1", "--show-passes"]) == 0
    assert "family=vocab-1f1b options=" in (passes := capsys.readouterr().out)
    assert "backward=1" in passes
