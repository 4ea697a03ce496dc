"""Times of a worker: its stages divide them exactly, and schedules do the same work."""

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Configuration, Costs, PipeSchedError
from pipesched.command import main
from pipesched.command.verbs.simulate import SLOTS as UNIT_SLOTS
from pipesched.costs.stage_times import divided, entries_of, places_of, stages_per_worker
from pipesched.results.batch import findings
from points import SPREAD
from test_command import Capture, failure_of, rows_of, run_passes

TIMES = "F=10ms,I=12ms,W=8ms,comm=1ms"
POINT = ["simulate", "--pp", "4", "--microbatches", "8", "--times", TIMES, "--schedules"]
SWEEP = ["sweep", "--pp", "4", "--microbatches", "8", "--times", TIMES, "--schedules"]


# The division


def test_every_family_does_the_same_work() -> None:
    """With 7 ps a phase no division by 2 or 3 is even, and the sum is exact."""
    costs = Costs(times={"F": 7, "I": 11, "W": 5, "comm": "1ps"}, times_of="worker")
    for family in {*pipesched.families()} - {*SPREAD}:
        for options in ({}, {"chunks": 3}, {"waves": 2}, {"pairs": 2}):
            if not set(options) <= set(pipesched.families()[family].options):
                continue
            point = Configuration(family, 4, 8, options, costs=costs)  # type: ignore[arg-type]
            busy = point.simulate().execution.busy_ps.tolist()
            assert sum(busy) == 4 * 8 * (7 + 11 + 5), family
            assert point.generate().simulate(costs).execution.busy_ps.tolist() == busy


def test_messages_are_not_divided() -> None:
    v = places_of([[0, 1, 1, 0]])
    assert divided("F=10ms,comm=[1ms,2ms,3ms,4ms],send=3us", v) == (
        "F=5000000000ps,comm=[1ms,2ms,3ms,4ms],send=3us"
    )
    assert divided({"F": 3, "FB": "10ps", "comm": 7}, v) == ("F=[1ps,1ps,2ps,2ps],FB=5ps,comm=7ps")


def test_blocks_and_weights_divide_in_proportion() -> None:
    path = pipesched.Path([0, 1, 1, 0], blocks=[1, 2, 4, 3])
    assert divided("F=12ps", places_of([path])) == "F=[3ps,4ps,8ps,9ps]"
    heavy = pipesched.Path([0, 1, 1, 0], weights=[1, 1, 1, 3])
    assert divided("F=12ps", places_of([heavy])) == "F=[3ps,6ps,6ps,9ps]"


def test_paths_are_no_stages() -> None:
    """A microbatch takes one path of Chimera and of DualPipe, so times are not divided."""
    for family in ("chimera", "dualpipe"):
        places = Configuration(family, 4, 8).places
        assert len(places) == 2 and stages_per_worker(places) == 1
        assert divided("F=7ps", places) == "F=7ps"
    assert stages_per_worker(Configuration("zb-v", 4, 8).places) == 2


def test_what_cannot_be_divided_is_refused() -> None:
    v = places_of([[0, 1, 1, 0]])
    with pytest.raises(PipeSchedError, match="F has 4 times, expected one, or one for each of"):
        divided("F=[1ms,2ms,3ms,4ms]", v)
    with pytest.raises(PipeSchedError, match="different parts of F"):
        divided("F=10ms", places_of([[0, 0, 1], [1, 0, 0]]))
    with pytest.raises(PipeSchedError, match="times_of is about times"):
        Costs(times_of="worker")
    with pytest.raises(PipeSchedError, match="times_of is one of stage, worker"):
        Costs(times=TIMES, times_of="stages")  # type: ignore[arg-type]


def test_files_of_times(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(json.dumps({"F": "10ms", "B": "20ms", "comm": ["1ms", "2ms"]}))
    assert entries_of(str(file)) == {"F": "10ms", "B": "20ms", "comm": ["1ms", "2ms"]}
    assert divided(str(file), places_of([[0, 1, 1, 0]])).startswith("F=5000000000ps,B=")


# The verbs


def test_differing_work_is_refused(capsys: Capture) -> None:
    for line in (POINT, SWEEP):
        said = failure_of(capsys, *line, "1f1b,VPP", status=2)
        assert "stages per worker differ (2 in interleaved-1f1b, 1 in 1f1b)" in said
        for way in ("--set times-of=worker", "--set times-of=stage", "--model and --system"):
            assert way in said
        assert main([*line, "1f1b,zb-h1,chimera,dualpipe"]) == 0
        assert "work differs" not in capsys.readouterr().out
        assert main([*line, "VPP,zb-v"]) == 0
        capsys.readouterr()


def test_times_of_messages_alone_are_no_obstacle(capsys: Capture) -> None:
    given = ["--model", "llama3-8b", "--system", "dgx-h100", "--times", "comm=1ms"]
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--schedules", "1f1b,VPP"]
    assert main([*line, *given, "--microbatch-size", "1"]) == 0
    assert "work differs" not in capsys.readouterr().out


@pytest.mark.parametrize("step", ["exposed", "overlapped"])
def test_all_reduces_take_slots_beside_divided_ones(step: str, capsys: Capture) -> None:
    """Both paths of Chimera and of DualPipe sum the gradients of their stages in any comparison."""
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--optimizer-step", step]
    whole = rows_of(capsys, *line, "--schedules", "1f1b,chimera,dualpipe")
    beside = rows_of(capsys, *line, "--schedules", "1f1b,chimera,dualpipe,zb-v")
    found = {row["schedule"]: row["step_s"] for row in beside}
    assert {row["schedule"]: row["step_s"] for row in whole}.items() <= found.items()
    steps = run_passes(capsys, *line, "--schedules", "chimera,zb-v")
    spans = [each["execution"]["makespan_ps"] for each in json.loads(steps)]
    assert spans == [round(found[name] * 1e12) for name in ("chimera", "zb-v")]


def test_all_reduces_are_divided(tmp_path: Path, capsys: Capture) -> None:
    """Half of the layers have half of the gradients."""
    file = str(tmp_path / "two.mlir")
    problem = pipesched.problem(
        workers=2,
        microbatches=4,
        name="two",
        paths=[
            pipesched.Path([0, 1, 1, 0], takes=[range(0, 4, 2)]),
            pipesched.Path([1, 0, 0, 1], takes=[range(1, 4, 2)]),
        ],
    )
    made = problem.transform("pipe-schedule-greedy")
    made.save(file)
    slots = "F=500ns,I=500ns,W=500ns,O=500ns,G=500ns"
    for step, place in (("none", None), ("exposed", "end"), ("overlapped", "eager")):
        line = ["simulate", file, "--schedules", "1f1b", "--optimizer-step", step]
        (row,) = (each for each in rows_of(capsys, *line) if each["schedule"] == "two")
        ended = made.transform(f"pipe-add-optimizer{{all-reduce={place}}}") if place else made
        times = ended.simulate(times=slots).execution
        assert row["step_s"] == times.makespan_ps / 1e12
        if place:
            ended.save(file.replace("two", place))
            rows = rows_of(capsys, "simulate", file.replace("two", place), "--schedules", "1f1b")
            assert row["step_s"] in [each["step_s"] for each in rows]


@pytest.mark.parametrize("line", [POINT, SWEEP])
def test_it_is_said_first(line: list[str], capsys: Capture) -> None:
    assert main([*line, "1f1b,VPP", "--set", "times-of=stage"]) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert second.startswith("work differs: times are those of one stage")
    assert main([*line, "1f1b,VPP", "--set", "times-of=worker"]) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert second.startswith("times are those of a worker, which its stages divide")
    assert rows_of(capsys, *line, "1f1b,VPP", "--set", "times-of=stage")


SLOTS = ["--microbatches", "8", "--schedules", "1f1b,zb-v,VPP"]


def test_unit_slots_are_divided(capsys: Capture) -> None:
    """Two stages of a worker take a slot together, so that all do the same work."""
    line = ["simulate", "--pp", "4", *SLOTS]
    rows = rows_of(capsys, *line)
    assert [row["schedule"] for row in rows] == ["zb-v", "interleaved-1f1b", "1f1b"]
    assert [row["step_s"] for row in rows] == [25.5e-6, 28.5e-6, 33e-6]
    assert [row["stages"] for row in rows] == [8, 8, 4]
    assert main(line) == 0
    printed = capsys.readouterr().out
    title, second, *_ = printed.splitlines()
    assert title == "4 workers, unit slots of 1 us"
    assert second.startswith("slots are those of a worker, which its stages divide: stages per ")
    assert "fastest: zb-v, 11.76 % ahead of interleaved-1f1b" in printed


def test_times_that_equal_unit_slots_are_times(capsys: Capture) -> None:
    line = ["simulate", "--pp", "4", *SLOTS, "--times", UNIT_SLOTS, "--set", "times-of=worker"]
    assert main(line) == 0
    title, second, *_ = capsys.readouterr().out.splitlines()
    assert title == f"4 workers, {UNIT_SLOTS}"
    assert second.startswith("times are those of a worker")


def test_unit_slots_of_equal_work_stay(capsys: Capture) -> None:
    for family in pipesched.families():
        for step in ("none", "overlapped"):
            line = ["simulate", "--pp", "4", "--microbatches", "8", "--schedules", family]
            (row,) = rows_of(capsys, *line, "--optimizer-step", step)
            point = Configuration(family, 4, 8, optimizer_step=step)
            whole = point.simulate().execution.makespan_ps
            assert row["step_s"] == whole / 1e12
            other = "zb-v" if row["stages_per_worker"] == 1 else "1f1b"
            both = rows_of(capsys, *line[:-1], f"{family},{other}", "--optimizer-step", step)
            found = {each["schedule"]: each["step_s"] for each in both}
            assert found[family] == pytest.approx(row["step_s"] / row["stages_per_worker"])


def test_sweeps_rank_unit_slots_by_stage(capsys: Capture) -> None:
    line = ["sweep", "--pp", "4", *SLOTS]
    assert main(line) == 0
    printed = capsys.readouterr().out
    second, *_ = printed.splitlines()[1:]
    assert second.startswith("work differs: slots are those of one stage")
    assert second.endswith("ranked by the step per stage of a worker")
    ranked = [text.split()[1:4] for text in printed.splitlines() if text.startswith("   ")]
    assert ranked == [
        ["zb-v", "25.5", "us"],
        ["interleaved-1f1b", "28.5", "us"],
        ["1f1b", "33", "us"],
    ]


def test_steps_of_other_work_are_said(capsys: Capture) -> None:
    line = ["sweep", "--pp", "4", "--microbatches", "4,8", "--schedules", "1f1b,zb-h1"]
    assert main([*line, "--times", TIMES, "--group-by", "workers"]) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert second.startswith("work differs: steps with microbatches 4, 8 are ranked")
    for more in (["--group-by", "microbatches"], ["--group-by", "workers", "--rank-by", "idle"]):
        assert main([*line, "--times", TIMES, *more]) == 0
        assert "work differs" not in capsys.readouterr().out
    model = ["--model", "llama3-8b", "--system", "dgx-h100", "--global-batch", "64"]
    assert main([*line, *model, "--group-by", "workers"]) == 0
    assert "work differs" not in capsys.readouterr().out


def test_rankings_by_what_no_row_has_are_refused(capsys: Capture) -> None:
    said = failure_of(capsys, *SWEEP, "1f1b", "--rank-by", "tokens")
    assert "--rank-by tokens: no point has such a value" in said
    assert "the points have step, idle, span, table, activations" in said


def steps(rows: list[dict[str, Any]]) -> list[float]:
    return sorted(row["step_s"] for row in rows)


@pytest.mark.parametrize("line", [POINT, SWEEP])
@pytest.mark.parametrize("of", ["stage", "worker"])
def test_passes_do_the_same(line: list[str], of: str, capsys: Capture) -> None:
    given = [*line, "1f1b,VPP,hanayo", "--set", f"times-of={of}"]
    rows = rows_of(capsys, *given)
    printed = run_passes(capsys, *given)
    reports = json.loads(printed.replace("]\n[", ","))
    assert steps(rows) == sorted(r["execution"]["makespan_ps"] / 1e12 for r in reports)


def test_times_of_needs_times(capsys: Capture) -> None:
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--set", "times-of=worker"]
    assert "--set times-of is about --times" in failure_of(capsys, *line, status=2)


def test_findings_say_it_first() -> None:
    made = [
        pipesched.generate(family, workers=4, microbatches=8, name=family)
        for family in ("1f1b", "zb-v")
    ]
    found = findings([schedule.simulate(times=TIMES) for schedule in made])
    assert found[0].kind == "work" and "2 in zb-v and 1 in 1f1b" in found[0].text
    assert pipesched.explain(made, times=TIMES).startswith("work differs: ")
    alike = [schedule.simulate(times=TIMES, times_of="worker") for schedule in made]
    assert findings(alike)[0].kind != "work"
    costs = Costs(model="llama3-8b", system="dgx-h100", microbatch_size=1)
    assert findings([s.simulate(costs) for s in made])[0].kind != "work"
