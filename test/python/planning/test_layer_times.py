"""Times of layers: added up exactly over stages, and divided again for any number of them."""

import json
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Configuration, Costs, PipeSchedError
from pipesched.costs.division import counts_text
from points import SPREAD
from test_command import Capture, failure_of, rows_of, run_passes, text_of

PLAIN: dict[str, Any] = {"count": 94, "F": "1ms", "I": "1.2ms", "W": "0.8ms"}
HEAD = {"F": "3ms", "I": "3ms", "W": "3ms"}
TIMES: dict[str, Any] = {
    "layers": PLAIN,
    "embedding": {"F": "0.1ms", "I": 0, "W": "0.2ms"},
    "head": HEAD,
    "comm": "0.1ms",
}
WHOLE = 94 * 3_000_000_000 + 300_000_000 + 9_000_000_000
"""A microbatch through all layers, in ps."""
EIGHT = "F=[1ms,1ms,1ms,1ms,1ms,1ms,1ms,2ms],B=[2ms,2ms,2ms,2ms,2ms,2ms,2ms,4ms]"


def busy(point: Configuration) -> list[int]:
    return [int(ps) for ps in point.simulate().execution.busy_ps]


# Adding up


@pytest.mark.parametrize("family", [f for f in pipesched.families() if f not in SPREAD])
def test_every_family_does_all_layers(family: str) -> None:
    """94 layers divide evenly only among 2 stages; the sum is exact, and IR says the same."""
    costs = Costs(times=TIMES)
    assert costs.times_of == "layer"
    point = Configuration(family, 4, 16, costs=costs)
    assert sum(busy(point)) == 16 * WHOLE
    assert sum(sum(counts) for _, counts in point.places if counts) == 94 * len(point.places)
    made = point.generate()
    assert [path.blocks for path in made.paths] == [counts for _, counts in point.places]
    assert made.simulate(costs).to_json() == Configuration(family, 4, 16, costs=costs).generate(
        family
    ).simulate(costs).to_json().replace(f'"{family}"', '"schedule"', 1)
    assert made.simulate(costs).execution.busy_ps.tolist() == busy(point)


def test_a_stage_is_the_sum_of_its_layers() -> None:
    times: dict[str, Any] = {
        "layers": {"F": [1, 2, 3, 4], "B": [10, 20, 30, 40], "O": 5},
        "embedding": {"F": 100, "B": 200},
        "head": {"F": 1000, "B": 2000, "O": 7},
        "comm": "1ps",
    }
    places = (((0, 1), (1, 3)),)
    found = Costs(times=times)._for(places).times
    assert found == "F=[101ps,1009ps],B=[210ps,2090ps],O=[5ps,22ps],comm=1ps"
    weighted = Configuration("1f1b", 2, 4, paths=[pipesched.Path([0, 1], weights=[3, 9])])
    assert Costs(times=times)._for(weighted.places).times == found


def test_pairs_of_ends_take_both() -> None:
    """FB of an end that does not give it is F + B."""
    times: dict[str, Any] = {"layers": {"F": [1, 1], "B": 2, "FB": 2}, "head": {"F": 10, "B": 20}}
    found = Costs(times=times)._for((((0, 1), None),)).times
    assert found == "F=[1ps,11ps],B=[2ps,22ps],FB=[2ps,32ps]"


def test_three_ways_to_say_it(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(json.dumps(TIMES))
    text = (
        "F=1ms,I=1.2ms,W=0.8ms,layers=94,comm=0.1ms,embedding.F=0.1ms,embedding.I=0ps,"
        "embedding.W=0.2ms,head.F=3ms,head.I=3ms,head.W=3ms"
    )
    flat: dict[str, Any] = {k: v for k, v in PLAIN.items() if k != "count"}
    flat |= {"layers": 94, "comm": "0.1ms"}
    reports = {
        Configuration("zb-v", 4, 8, costs=costs).simulate().to_json()
        for costs in (
            Costs(times=TIMES),
            Costs(times=str(file)),
            Costs(times=text),
            Costs(times={**flat, "head": HEAD, "embedding": TIMES["embedding"]}, times_of="layer"),
        )
    }
    assert len(reports) == 1


def test_balanced_by_these_times() -> None:
    """The head is three layers long, so that its stage has three fewer of 13 + 3."""
    times: dict[str, Any] = {"layers": {"count": 13, "F": 1, "B": 2}, "head": {"F": 3, "B": 6}}
    point = Configuration("1f1b", 4, 8, costs=Costs(times=times))
    assert point.places == (((0, 1, 2, 3), (4, 4, 4, 1)),)
    assert busy(point) == [8 * 12] * 4
    slow: dict[str, Any] = {"layers": {"F": [1, 1, 1, 5], "B": [1, 1, 1, 5]}}
    point = Configuration("1f1b", 2, 8, costs=Costs(times=slow, balance="cost"))
    assert point.places == (((0, 1), (3, 1)),)
    even = Configuration("1f1b", 2, 8, costs=Costs(times=slow))
    assert even.places == (((0, 1), None),) and busy(even) == [8 * 4, 8 * 12]


def test_files_keep_their_rows() -> None:
    """A schedule that has rows gets its layers without new rows."""
    costs = Costs(times=TIMES)
    made = pipesched.generate("1f1b", workers=8, microbatches=16)
    found = made.simulate(costs)
    assert found.execution.busy_ps.sum() == 16 * WHOLE
    assert made.paths[0].blocks is None
    placed = made.transform("pipe-place-blocks{counts=12,12,12,12,12,12,12,10}")
    assert placed.to_frame().equals(made.to_frame())
    assert found.to_json() == placed.simulate(costs).to_json()


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"layers": {"F": "1ms", "B": "1ms"}}, "it is not said how many layers there are"),
        ({"layers": {"count": 3, "F": ["1ms"] * 4}}, "the numbers of layers differ: their number"),
        ({"layers": {"F": ["1ms"] * 4, "B": ["1ms"] * 5}}, "F has 4 times, B has 5 times"),
        ({"layers": {"count": 4, "B": "1ms"}}, "the layers give no F"),
        ({"layers": {"count": 4, "F": "1"}}, "times of layers, layers: F: expected a unit (ps, ns"),
        ({"layers": {"count": 4, "FF": "1ms"}}, "times of layers, layers: unknown"),
        ({"layers": {"count": "x", "F": "1ms"}}, "a positive number of layers, found 'x'"),
        ({"layers": {"count": 4, "F": "1ms"}, "F": "2ms"}, "F of layers is given twice"),
        ({"layers": {"count": 4, "F": "1ms"}, "head": "2ms"}, "expected head to have times by"),
        ({"layers": {"count": 4, "F": "1ms"}, "head": {"B": "2ms"}}, "head gives B, which the"),
        (
            {"layers": {"count": 4, "F": 1, "I": 1, "W": 1}, "head": {"F": 2, "I": 2}},
            "head gives no W, which the layers give",
        ),
        ({"layers": {"count": 4, "F": 1}, "head": {"F": [1, 2]}}, "head has a list for F"),
    ],
)
def test_errors_name_the_part(times: dict[str, Any], said: str) -> None:
    with pytest.raises(PipeSchedError) as raised:
        Costs(times=times)
    assert said in str(raised.value)


def test_what_does_not_go() -> None:
    with pytest.raises(PipeSchedError, match="given as 94, the model has 80"):
        Costs(times=TIMES, model="llama3-70b", system="dgx-h100", microbatch_size=1)
    with pytest.raises(PipeSchedError, match="name layers, so that they are not of a worker"):
        Costs(times=TIMES, times_of="worker")
    with pytest.raises(PipeSchedError, match="8 stages do not divide 94 layers; let stages differ"):
        Configuration("1f1b", 8, 8, costs=Costs(times=TIMES, balance="exact")).simulate()
    with pytest.raises(PipeSchedError, match="96 stages do not divide 94 layers"):
        Configuration("1f1b", 96, 96, costs=Costs(times=TIMES)).simulate()
    with pytest.raises(PipeSchedError, match="there are 94 layers; the blocks"):
        paths = [pipesched.Path([0, 1], blocks=[3, 4])]
        Configuration("1f1b", 2, 8, paths=paths, costs=Costs(times=TIMES)).simulate()


# Times of stages, divided again


def test_eight_stages_for_two_chunks() -> None:
    costs = Costs(times=EIGHT)
    assert busy(Configuration("1f1b", 8, 16, costs=costs)) == [48 * 10**9] * 7 + [96 * 10**9]
    both = busy(Configuration("interleaved-1f1b", 8, 16, costs=costs))
    assert both == [48 * 10**9] * 6 + [72 * 10**9] * 2
    assert busy(Configuration("1f1b", 4, 16, costs=costs)) == [96 * 10**9] * 3 + [144 * 10**9]
    with pytest.raises(PipeSchedError, match="times of 8 stages cannot be divided for 3 stages"):
        Configuration("1f1b", 3, 6, costs=costs).simulate()


def test_stages_divide_exactly() -> None:
    costs = Costs(times={"F": [7, 9], "B": 5, "comm": 1})
    found = costs._for((((0, 1, 0, 1), None),)).times
    assert found == "F=[3ps,4ps,4ps,5ps],B=[2ps,3ps,2ps,3ps],comm=1ps"
    with pytest.raises(PipeSchedError, match="comm has 2 times, and there are 4 stages"):
        Costs(times="F=[1ms,2ms],comm=[1us,2us]")._for((((0, 1, 0, 1), None),))


def test_known_layers_divide_stages_for_any_number() -> None:
    """With a model of 32 layers, 8 stages hold 4 each, and 3 stages 10 or 11."""
    model: dict[str, Any] = {"model": "llama3-8b", "system": "dgx-h100", "microbatch_size": 1}
    point = Configuration("1f1b", 3, 6, costs=Costs(times=EIGHT, **model))
    ((_, counts),) = point.places
    assert counts is not None and sum(counts) == 32
    assert sum(busy(point)) == 6 * 27 * 10**9


def test_a_list_has_a_time_for_each_worker() -> None:
    costs = Costs(times=EIGHT, times_of="worker")
    for family in ("1f1b", "interleaved-1f1b", "zb-v"):
        if family != "zb-v":
            point = Configuration(family, 8, 16, costs=costs)
            assert busy(point) == [48 * 10**9] * 7 + [96 * 10**9]


# Models whose layers do not divide


QWEN: dict[str, Any] = {"model": "qwen3-235b-a22b", "system": "dgx-h100", "microbatch_size": 1}


def test_models_are_balanced_as_plans_are() -> None:
    costs = Costs(**QWEN)
    point = Configuration("1f1b", 8, 16, costs=costs)
    ((workers, counts),) = point.places
    assert counts is not None and sum(counts) == 94
    assert list(counts) == pipesched._core.balance_layers(costs._raw, 16, list(workers))
    report = point.simulate()
    made = pipesched.generate("1f1b", workers=8, microbatches=16, name="1f1b")
    assert made.simulate(costs).to_json() == report.to_json()
    (row,) = pipesched.simulate_batch([point]).itertuples()
    assert row.error is None and row.makespan_ps == report.execution.makespan_ps
    grid = {"family": "1f1b", "workers": 8, "microbatches": 16, **QWEN}
    assert pipesched.sweep(grid).makespan_ps.tolist() == [report.execution.makespan_ps]
    with pytest.raises(PipeSchedError, match="or let stages differ"):
        Configuration("1f1b", 8, 16, costs=Costs(**QWEN, balance="exact")).simulate()


def test_even_layers_stay_even() -> None:
    costs: dict[str, Any] = {"model": "llama3-70b", "system": "h100-sxm", "microbatch_size": 1}
    even = Configuration("1f1b", 8, 16, costs=Costs(**costs))
    assert even.places == ((tuple(range(8)), None),) and even.generate().paths[0].blocks is None
    by_cost = Configuration("1f1b", 8, 16, costs=Costs(**costs, balance="cost"))
    ((_, counts),) = by_cost.places
    assert counts is not None and counts[-1] < 10
    assert by_cost.simulate().execution.makespan_ps < even.simulate().execution.makespan_ps


def test_errors_of_costs_are_rows() -> None:
    """A schedule that cannot be divided fails by itself, not the batch."""
    points = [Configuration("1f1b", n, 96, costs=Costs(times=TIMES)) for n in (2, 96)]
    frame = pipesched.simulate_batch(points)
    assert frame.error[0] is None and "96 stages do not divide 94 layers" in frame.error[1]


def test_counts_are_short() -> None:
    assert counts_text([(1, 1, 1)]) == "1x3"


# Verbs

GIVEN = ["--model", "qwen3-235b-a22b", "--system", "dgx-h100", "--microbatch-size", "1"]


def test_verbs_balance_and_say_it(capsys: Capture) -> None:
    line = ["simulate", "--pp", "8", "--microbatches", "16", "--schedules", "1f1b,VPP", *GIVEN]
    printed = text_of(capsys, *line)
    assert "layers balanced by cost (94 on 8 or 16 stages)" in printed
    rows = rows_of(capsys, *line)
    assert all(row["layers"].count("+") for row in rows) and rows[0]["step_s"]
    reports = json.loads(run_passes(capsys, *line).replace("]\n[", ","))
    steps = sorted(row["step_s"] for row in rows)
    assert steps == sorted(r["execution"]["makespan_ps"] / 1e12 for r in reports)
    simulate = ["simulate", "--schedule", "1f1b", "--pp", "8", "--microbatches", "16", *GIVEN]
    (report,) = rows_of(capsys, *simulate)
    assert report["execution"]["makespan_ps"] / 1e12 in steps
    (passed,) = json.loads(run_passes(capsys, *simulate))
    assert passed["execution"]["makespan_ps"] == report["execution"]["makespan_ps"]
    sweep = ["sweep", "--schedules", "1f1b", "--pp", "8", "--microbatches", "16", *GIVEN]
    (swept,) = rows_of(capsys, *sweep)
    assert swept["step_s"] in steps
    assert "let stages differ" in failure_of(capsys, *simulate, "--set", "balance=exact")


def test_files_are_balanced(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "own.mlir"
    pipesched.generate("1f1b", workers=8, microbatches=16, name="own").save(file)
    rows = rows_of(capsys, "simulate", str(file), *GIVEN)
    assert rows[0]["layers"].count("+")
    passed = json.loads(run_passes(capsys, "simulate", str(file), *GIVEN))
    assert passed[0]["execution"]["makespan_ps"] / 1e12 == rows[0]["step_s"]
    step = [*GIVEN, "--optimizer-step", "exposed"]
    ended = rows_of(capsys, "simulate", str(file), *step)
    assert ended[0]["step_s"] > rows[0]["step_s"]


def test_times_of_layers_in_verbs(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "times.json"
    file.write_text(json.dumps(TIMES))
    line = ["--microbatches", "16", "--schedules", "1f1b,VPP,zb-v", "--times", str(file)]
    printed = text_of(capsys, "simulate", "--pp", "8", *line).splitlines()
    assert printed[1] == "times are those of 94 layers, which stages add up"
    rows = rows_of(capsys, "simulate", "--pp", "8", *line)
    reports = json.loads(run_passes(capsys, "simulate", "--pp", "8", *line).replace("]\n[", ","))
    steps = sorted(row["step_s"] for row in rows)
    assert steps == sorted(r["execution"]["makespan_ps"] / 1e12 for r in reports)
    swept = rows_of(capsys, "sweep", "--pp", "8", *line)
    assert sorted(row["step_s"] for row in swept) == steps
    said = failure_of(capsys, "simulate", "--pp", "8", *line, "--set", "times-of=stage", status=2)
    assert "--times names layers; give --set times-of=layer" in said


def test_lists_of_stages_in_verbs(capsys: Capture) -> None:
    """Times of eight stages are divided for two chunks, so that equal work is ranked."""
    line = ["simulate", "--pp", "8", "--microbatches", "16", "--schedules", "1f1b,VPP"]
    second = text_of(capsys, *line, "--times", EIGHT).splitlines()[1]
    assert second == (
        "times are those of 8 stages, which other numbers of stages divide: stages per worker 2 in"
        " interleaved-1f1b"
    )
    rows = rows_of(capsys, *line, "--times", EIGHT)
    reports = json.loads(run_passes(capsys, *line, "--times", EIGHT).replace("]\n[", ","))
    found = sorted(r["execution"]["makespan_ps"] / 1e12 for r in reports)
    assert found == sorted(row["step_s"] for row in rows)
