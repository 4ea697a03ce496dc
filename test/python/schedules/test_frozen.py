"""Schedules of stages that do not train: evaluations and frozen stages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pipesched import Costs, Path, PipeSchedError, Schedule, generate, load, loads, problem
from pipesched.command import main
from pipesched.schedule.program import programs_of

TIMES = {"F": "10ms", "B": "20ms"}


def makespan_ms(schedule: Schedule, **options: Any) -> float:
    report = schedule.simulate(times=TIMES, **options)
    return report.execution.makespan_ps / 1e9


def test_forwards_alone_take_the_closed_form() -> None:
    chain = generate("1f1b", workers=4, microbatches=8, forward_only=True)
    assert chain.rows == generate("gpipe", workers=4, microbatches=8, forward_only=True).rows
    assert list(chain.rows[3]) == [f"3F{m}" for m in range(8)]
    assert chain.paths == (Path((0, 1, 2, 3), forward_only=True),)
    assert makespan_ms(chain) == (8 + 4 - 1) * 10
    chunks = generate("VPP", workers=4, microbatches=8, chunks=2, forward_only=True)
    assert makespan_ms(chunks) == 8 * 20 + (4 - 1) * 10
    report = chunks.simulate(times=TIMES)
    assert report.formula is not None and report.table is not None
    assert report.formula.bubble_ratio == pytest.approx(3 / 19)
    assert report.table.bubble_ratio == pytest.approx(3 / 19)
    assert max(report.table.peak_activations) == 1


def test_slices_of_an_evaluation() -> None:
    sliced = generate("terapipe", workers=3, microbatches=2, slices=4, forward_only=True)
    assert makespan_ms(sliced) == (2 * 4 + 3 - 1) * 10 / 4  # Times are of microbatches.


@pytest.mark.parametrize("family", ["gpipe", "1f1b"])
def test_frozen_stages_in_front(family: str) -> None:
    path = Path([0, 1, 2, 3], frozen=[0, 1])
    schedule = generate(family, workers=4, microbatches=6, paths=[path])
    assert list(schedule.rows[1]) == [f"1F{m}" for m in range(6)]
    assert makespan_ms(schedule) == 2 * 10 + (6 + 4 - 2 - 1) * 30


def test_a_frozen_stage_after_one_that_trains_has_the_gradient_of_its_input() -> None:
    path = Path([0, 1], frozen=[1])
    schedule = generate("gpipe", workers=2, microbatches=1, paths=[path])
    assert [list(row) for row in schedule.rows] == [["0F0", "0B0"], ["1F0", "1I0"]]


def test_files_and_frames_keep_what_does_not_train(tmp_path: Any) -> None:
    path = Path((0, 1, 2), frozen=(0, 2))
    schedule = generate("1f1b", workers=3, microbatches=4, paths=[path])
    assert schedule.paths == (path,)
    assert "path on [0, 1, 2] frozen [0, 2]" in schedule.to_text()
    assert loads(schedule.to_text())[0].paths == (path,)
    schedule.save(tmp_path / "frozen.mlirbc")
    assert load(tmp_path / "frozen.mlirbc")[0].rows == schedule.rows
    assert Schedule.from_frame(schedule.to_frame()).paths == (path,)


def test_memory_of_frozen_stages_is_that_of_their_weights() -> None:
    costs = Costs(model="llama3-8b", system="dgx-h100")
    path = Path([0, 1, 2, 3], frozen=[0, 1])
    frozen = generate("gpipe", workers=4, microbatches=4, paths=[path])
    trained = generate("gpipe", workers=4, microbatches=4)
    memory, trained_memory = frozen.simulate(costs).memory, trained.simulate(costs).memory
    assert memory is not None and trained_memory is not None
    one, other = memory.composition, trained_memory.composition
    assert list(one.weight_bytes) == list(other.weight_bytes)
    for held, trained_held in (
        (one.gradient_bytes, other.gradient_bytes),
        (one.optimizer_bytes, other.optimizer_bytes),
    ):
        assert list(held[:2]) == [0, 0]
        assert list(held[2:]) == list(trained_held[2:])
        assert min(trained_held) > 0
    assert list(one.activation_bytes[:2] * 4) == list(other.activation_bytes[:2])
    assert list(one.activation_bytes[2:]) == list(other.activation_bytes[2:])


def test_what_takes_only_stages_that_train_says_so() -> None:
    schedule = generate("1f1b", workers=2, microbatches=2, forward_only=True)
    reason = "only stages that all train: path 0 is forward only"
    for passes in ("pipe-add-recompute", "pipe-add-offload", "pipe-spread-vocabulary"):
        with pytest.raises(PipeSchedError, match=reason):
            schedule.transform(passes)
    with pytest.raises(PipeSchedError, match=f"an export takes {reason}"):
        schedule.to_csv()
    assert {cell.phase for each in schedule.program(0) for cell in each.cells} == {"F"}
    with pytest.raises(PipeSchedError, match="without weight gradients; JAX trains all stages"):
        programs_of(schedule, "FBIW", "JAX")
    paths = [Path([0, 1], forward_only=True)]
    with pytest.raises(PipeSchedError, match=f"the optimizer takes {reason}"):
        problem(workers=2, microbatches=2, paths=paths).transform(
            'pipe-attach-profile{times="F=1ms,I=1ms,W=1ms"},pipe-optimize'
        )


def test_evaluations_are_ranked_with_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--pp", "4", "--microbatches", "8", "--times", "F=10ms,comm=1ms"]
    option = ["--option", "forward-only=true", "--set", "times-of=worker"]
    assert main(["simulate", "gpipe", "VPP", *given, *option, "--format", "json"]) == 0
    rows = {row["schedule"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["gpipe"]["step_s"] == pytest.approx((8 + 3) * 10e-3 + 3 * 1e-3)
    assert rows["interleaved-1f1b"]["rank"] == 1
    assert main(["simulate", "gpipe", "zb-h1", *given, *option]) == 2
    assert "zb-h1 has no option forward-only" in capsys.readouterr().err
