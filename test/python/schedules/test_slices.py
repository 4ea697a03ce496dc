"""Schedules over slices of microbatches: rows, frames, costs and comparisons."""

import json
from typing import Any

import pipesched
import pytest
from pipesched import Costs, PipeSchedError, Schedule, generate, problem
from pipesched.command import main

Capture = pytest.CaptureFixture[str]
LONG: dict[str, Any] = {
    "model": "llama3-8b",
    "system": "h100-sxm",
    "sequence": 131072,
    "microbatch_size": 1,
    "accelerators": 8,
}


def test_rows_name_slices() -> None:
    schedule = generate("seq1f1b", workers=2, microbatches=2, slices=2)
    assert schedule.slices == 2
    assert schedule.rows[1][:4] == ("1F0.0", "1F0.1", "1B0.1", "1F1.0")
    again = Schedule.from_rows(schedule.rows)
    assert (again.slices, again.microbatches, again.rows) == (2, 2, schedule.rows)
    given = Schedule.from_rows(schedule.rows, problem=problem(workers=2, microbatches=2, slices=2))
    assert given.rows == schedule.rows


def test_frames_have_a_column_of_slices() -> None:
    schedule = generate("zb-v", workers=2, microbatches=3, slices=2)
    frame = schedule.to_frame()
    assert set(frame.slice) == {0, 1}
    assert Schedule.from_frame(frame).rows == schedule.rows
    assert "slice" not in generate("zb-v", workers=2, microbatches=3).to_frame()
    timed = schedule.simulate().to_frame()
    assert {"slice", "start_ps"} <= {*timed.columns}


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["0F0.0 0F0.1 0B0.0 0B0.1"], "backwards of a microbatch run from its last slice"),
        (["0F0.1 0F0.0 0B0.1 0B0.0"], "forwards of a microbatch run from its first slice"),
        (["0F0.0 0F0.1 0B0.1"], "0B0.0 is missing"),
        (["0F0.x"], "no entry of a row"),
    ],
)
def test_wrong_orders_are_named(rows: list[str], said: str) -> None:
    with pytest.raises(PipeSchedError, match=said):
        Schedule.from_rows(rows).verify()


def test_slices_of_rows_are_checked() -> None:
    with pytest.raises(PipeSchedError, match="expected a slice from 0 to 1, found 2"):
        Schedule.from_rows(["0F0.2"], slices=2)


def test_slices_cost_what_a_microbatch_does() -> None:
    """Given times are of microbatches, so slices shorten only the bubble."""
    times = Costs(times="F=8ms,B=16ms")
    whole = generate("1f1b", workers=4, microbatches=4).simulate(times)
    for slices in (2, 4, 8):
        sliced = generate("seq1f1b", workers=4, microbatches=4, slices=slices).simulate(times)
        assert sliced.execution.busy_ps.tolist() == whole.execution.busy_ps.tolist()
        work, bubble = 4 * 24e9, 3 * 24e9 / slices
        assert sliced.execution.makespan_ps == work + bubble
        assert sliced.formula is not None
        assert sliced.formula.bubble_ratio == pytest.approx(sliced.execution.idle_ratio)


def test_long_sequences_gain() -> None:
    """At 131,072 tokens slices are faster and need less memory; at 512 they gain nothing."""

    def simulated(family: str, sequence: int, **options: Any) -> Any:
        costs = Costs(**{**LONG, "sequence": sequence, "slice_cut": "work"})
        return generate(family, workers=8, microbatches=8, **options).simulate(costs)

    def peak(simulation: Any) -> int:
        return int(simulation.memory.peak_activation_bytes.max())

    whole, sliced = simulated("1f1b", 131072), simulated("seq1f1b", 131072, slices=8)
    assert sliced.execution.makespan_ps < 0.7 * whole.execution.makespan_ps
    assert peak(sliced) < 0.35 * peak(whole)
    short, cut = simulated("1f1b", 512), simulated("seq1f1b", 512, slices=8)
    assert cut.execution.makespan_ps > 0.95 * short.execution.makespan_ps


def test_comparisons_take_several_numbers(capsys: Capture) -> None:
    line = ["simulate", "1f1b", "seq1f1b", "--pp", "8", "--microbatches", "8"]
    line += ["--slices", "1,2,4,8", "--model", "llama3-8b", "--system", "h100-sxm"]
    line += ["--sequence", "131072", "--microbatch-size", "1", "--set", "accelerators=8"]
    line += ["--set", "slice-cut=work"]
    assert main([*line, "--format", "json"]) == 0
    rows = {row["schedule"]: row for row in json.loads(capsys.readouterr().out)}
    steps = [rows[f"seq1f1b-{count}-slices"]["step_s"] for count in (1, 2, 4, 8)]
    assert steps == sorted(steps, reverse=True)
    assert rows["1f1b"]["step_s"] == pytest.approx(steps[0])
    held = [rows[f"seq1f1b-{count}-slices"]["activations"] for count in (1, 2, 4, 8)]
    assert held == [8, 9 / 2, 11 / 4, 15 / 8]


def test_runtimes_and_exports_refuse_slices() -> None:
    schedule = generate("seq1f1b", workers=2, microbatches=2)
    with pytest.raises(PipeSchedError, match="what a runtime reads takes whole microbatches only"):
        schedule.program(0)
    with pytest.raises(PipeSchedError, match="an export takes whole microbatches only"):
        schedule.to_csv()


TIMES = "F=2ms,I=2ms,W=1ms,D=1ms,U=1ms,R=2ms,comm=100us"


@pytest.mark.parametrize("memory", [5, None])
def test_searches_take_slices(memory: int | None) -> None:
    """They are no worse than the family, and their bounds hold for it."""
    start = generate("seq1f1b", workers=4, microbatches=4, slices=2)
    attached = start.transform(f'pipe-attach-profile{{times="{TIMES}"}}')
    before = attached.simulate(transport="delay").execution.makespan_ps
    options: dict[str, Any] = {"max_evaluations": 3000, "threads": 1, "explain": False}
    if memory is not None:
        options["memory"] = memory
    found = attached.optimize(**options)
    assert found.schedule.slices == 2 and found.schedule.microbatches == 4
    found.schedule.verify(memory=memory)
    assert "2F3.1" in str(found.schedule.rows)
    timed = found.schedule.simulate(transport="delay").execution.makespan_ps
    assert timed == found.objective_ps < before
    assert found.lower_bound_ps <= timed
    if memory is not None:
        report = found.schedule.simulate()
        assert report.table is not None
        assert report.table.peak_activations.max() <= memory


def test_searches_use_costs_of_slices() -> None:
    """Later slices see more tokens, and gradients of keys and values take memory: the found
    schedule has the times of a simulation and keeps the budget in bytes.
    """
    attached = problem(workers=2, microbatches=3, slices=4).transform(
        "pipe-attach-model{name=llama3-8b sequence=32768 microbatch-size=1},"
        "pipe-attach-system{name=h100-sxm accelerators=8 slice-cut=work}"
    )
    report = attached.transform("pipe-schedule-seq1f1b").simulate()
    assert report.memory is not None
    budget = f"{int(report.memory.peak_bytes.max())}B"
    for recompute in ("none", "full"):
        options: dict[str, Any] = {} if recompute == "none" else {"recompute": recompute}
        found = attached.optimize(memory=budget, max_evaluations=2000, threads=1, **options)
        timed = found.schedule.simulate(transport="delay")
        assert timed.execution.makespan_ps == found.objective_ps
        assert found.lower_bound_ps <= found.objective_ps
        found.schedule.verify(memory=budget)


def test_the_verb_takes_slices(capsys: Capture) -> None:
    line = ["optimize", "--pp", "2", "--microbatches", "2", "--times", "F=1ms,I=1ms,W=1ms"]
    line += ["--max-evaluations", "2000", "--threads", "1"]
    steps = []
    four = ["--slices", "4"]
    for more in ([], ["--slices", "2"], four, ["--schedule", "seq1f1b", *four]):
        assert main([*line, *more, "--format", "json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        assert row["lower_bound_s"] <= row["makespan_s"]
        steps.append(row["makespan_s"])
    assert steps[3] == steps[2] < steps[1] < steps[0]
    assert main([*line, "--slices", "4", "--show-passes"]) == 0
    assert "microbatches=2 slices=4}" in capsys.readouterr().out
    assert main(["optimize", "file.mlir", "--slices", "4"]) == 2
    assert "give either a file or --slices" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["zb-h1", "zb-h2", "zb-v", "seq1f1b", "slimpipe", "terapipe"])
def test_row_transforms_take_slices(family: str) -> None:
    schedule = generate(family, workers=3, microbatches=4, slices=3)
    passes = ["pipe-add-recompute", "pipe-add-offload", "pipe-add-optimizer"]
    if "B" in str(schedule.rows):
        passes.append("pipe-split-backward")
    for one in passes:
        changed = schedule.transform(one)
        changed.verify()
        assert changed.slices == 3


def test_families_without_slices_refuse_them() -> None:
    with pytest.raises(PipeSchedError, match="1f1b has no option 'slices'"):
        generate("1f1b", workers=2, microbatches=2, slices=2)
    taking = {name for name, family in pipesched.families().items() if "slices" in family.options}
    assert taking == {*("seq1f1b", "slimpipe", "terapipe", "zb-h1", "zb-h2", "zb-v", "greedy")}


def stepped(family: str, **costs: Any) -> tuple[int, int]:
    """Step and peak of a family with four slices at 16,384 tokens."""
    given = Costs(**{**LONG, "sequence": 16384, "accelerators": 2, **costs})
    simulation = generate(family, workers=4, microbatches=6, slices=4).simulate(given)
    assert simulation.memory is not None
    return int(simulation.execution.makespan_ps), int(simulation.memory.peak_bytes.max())


def test_sizes_are_given_as_numbers_or_text() -> None:
    equal = stepped("seq1f1b")
    assert stepped("seq1f1b", slice_cut=[4096] * 4) == equal
    assert stepped("seq1f1b", slice_cut="4096, 4096,4096,4096") == equal
    assert stepped("seq1f1b", slice_cut=(4930, 4238, 3776, 3440))[0] < equal[0]


def test_wrong_sizes_say_what_is_wanted() -> None:
    for cut, said in (
        ([8192, 8192], "slice-cut gives the tokens of 2 slices, and microbatches have 4"),
        ([4096, 4096, 4096, 4098], "4 slices of together 16386 tokens, and sequences have 16384"),
        ([4095, 4097, 4096, 4096], "slice 0 of 4 4095 tokens, but the ranks need a multiple of 2"),
    ):
        with pytest.raises(PipeSchedError, match=said):
            stepped("seq1f1b", slice_cut=cut)
    wrong: Any
    for wrong in ("even", [], [1.5], 4096, [4096, -1], "4096,"):
        with pytest.raises(PipeSchedError, match="slice_cut"):
            Costs(**LONG, slice_cut=wrong)
    with pytest.raises(PipeSchedError, match="found 0 for slice 1 of 2|slice_cut is an integer"):
        Costs(**LONG, slice_cut="131072,0")


def test_verbs_take_sizes(capsys: Capture) -> None:
    size = ["--pp", "4", "--microbatches", "6"]
    model = ["--model", "llama3-8b", "--system", "h100-sxm", "--sequence", "16384"]
    model += ["--microbatch-size", "1", "--set", "accelerators=2"]
    cut = ["--set", "slice-cut=4930,4238,3776,3440"]

    def rows(*line: str) -> list[dict[str, Any]]:
        assert main([*line, *size, *model, "--format", "json"]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
        return found

    wanted = stepped("seq1f1b", slice_cut=[4930, 4238, 3776, 3440])[0] / 1e12
    (row,) = rows("simulate", "seq1f1b", *cut)
    assert row["step_s"] == pytest.approx(wanted) and row["slices"] == 4
    assert row["slice_cut"] == "4930,4238,3776,3440"
    (swept,) = rows("sweep", "--schedules", "seq1f1b", *cut)
    assert swept["step_s"] == pytest.approx(wanted)
    three = rows("sweep", "--schedules", "seq1f1b", "--set", "slice-cut=tokens,work", *cut)
    assert len({row["step_s"] for row in three}) == 3
    assert main(["simulate", "seq1f1b", "1f1b", *cut, *size, *model, "--show-passes"]) == 0
    assert "slice-cut=4930,4238,3776,3440" in capsys.readouterr().out
    assert main(["simulate", "1f1b", "seq1f1b", *cut, *size, *model]) == 0
    printed = capsys.readouterr().out
    assert "slice cut" not in printed.splitlines()[1]
    assert "slices gain" in printed
    with pytest.raises(SystemExit):
        main(["simulate", "seq1f1b", *size, *model, "--set", "slice-cut=4930,0,3776"])
    assert "argument --set: slice-cut: " in capsys.readouterr().err


def test_exchanges_even_out_attention(capsys: Capture) -> None:
    """SlimPipe with equal tokens waits for the slices that see most unless workers even out their
    attention; other families are refused, since their workers are at other slices.
    """
    sheet: dict[str, Any] = {"rates": "data-sheet", "framework": "none"}
    long: dict[str, Any] = {"sequence": 131072, **sheet}
    plain, evened = stepped("slimpipe", **long), stepped("slimpipe", **long, slice_exchange="pairs")
    assert evened[0] < 0.9 * plain[0] and evened[1] == plain[1]
    costs = Costs(**{**LONG, **sheet, "accelerators": 2}, slice_exchange="pairs")
    schedule = generate("slimpipe", workers=4, microbatches=6, slices=8)
    execution = schedule.simulate(costs).execution
    idle = 1 - execution.busy_ps.max() / execution.makespan_ps
    assert idle == pytest.approx(3 / (6 * 8 + 3), abs=0.01)
    with pytest.raises(PipeSchedError, match="successive slices at the same time, as in slimpipe"):
        stepped("seq1f1b", slice_exchange="pairs")
    whole = Costs(**LONG, slice_exchange="pairs")
    same = Costs(**LONG)
    schedule = generate("1f1b", workers=4, microbatches=4)
    steps = [schedule.simulate(costs).execution.makespan_ps for costs in (whole, same)]
    assert steps[0] == steps[1]
    with pytest.raises(PipeSchedError, match="a search orders them freely"):
        generate("slimpipe", workers=4, microbatches=2).transform(
            "pipe-attach-model{name=llama3-8b sequence=32768 microbatch-size=1},"
            "pipe-attach-system{name=h100-sxm accelerators=8 slice-exchange=pairs}"
        ).optimize(max_evaluations=100)
