"""Slow workers, slow stages and jitter: their effect on steps, and the tables of the verbs."""

import json
import re
from itertools import product
from operator import sub
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import Configuration, Costs, PipeSchedError, Plan, plan, sensitivity
from pipesched.planning import Request
from pipesched.planning.search.disturbances import Slow
from pipesched.planning.search.search import Search
from pipesched.planning.space.space import Space
from test_command import Capture, failure_of, rows_of, run_passes, text_of

TIMES = "F=10ms,I=12ms,W=8ms,comm=1ms"
COSTS = Costs(times=TIMES)


def test_sensitivity_by_hand() -> None:
    """1F1B under unit slots: 33 slots on 4 workers with 8 microbatches. The last worker computes 24
    of them without a gap; 1.5 times as slow, it takes 36, plus 9 of fill and drain.
    """
    (found,) = sensitivity(Configuration("1f1b", 4, 8), slow_workers={3: 1.5})
    assert (found.step_ps, found.disturbed_ps) == (33_000_000, (45_000_000,))
    assert found.ratio == 45 / 33
    assert found.per_unit == pytest.approx((45 / 33 - 1) / 0.5)


def test_jitter_by_seed() -> None:
    point = Configuration("zb-h1", 4, 8, costs=COSTS)
    alone = sensitivity(point, jitter="5%", seeds=6)
    (found,) = alone
    assert len(set(found.disturbed_ps)) == 6
    assert alone == sensitivity(point, jitter=0.05, seeds=6)
    assert found.worst_ratio >= found.ratio > 1
    few = sensitivity(point, jitter="5%", seeds=2)[0]
    assert few.disturbed_ps == found.disturbed_ps[:2]
    both = sensitivity(point, slow_workers={0: 1.1}, jitter="5%", seeds=6)
    assert [each.disturbance for each in both] == ["worker 0 x 1.1", "jitter 5%", "all together"]
    assert both[2].per_unit is None and both[2].ratio > both[1].ratio


def test_what_is_not_there_is_refused() -> None:
    point = Configuration("1f1b", 4, 8)
    with pytest.raises(PipeSchedError, match="there is no worker 4 to slow down; there are 4"):
        sensitivity(point, slow_workers={4: 1.5})
    with pytest.raises(PipeSchedError, match="there is no stage 9"):
        sensitivity(point, slow_stages={9: 1.5})
    with pytest.raises(PipeSchedError, match="expected a factor such as 1.3"):
        sensitivity(point, slow_workers={1: "fast"})
    with pytest.raises(PipeSchedError, match="expected a factor from 0.001 to 1000"):
        sensitivity(point, slow_workers={1: 0})
    with pytest.raises(PipeSchedError, match="expected a part such as 5%"):
        sensitivity(point, jitter="5")
    with pytest.raises(PipeSchedError, match="expected worker<number>"):
        pipesched.generate("1f1b", workers=4, microbatches=8).simulate(disturbance="gpu1=2")


# The verbs


def test_compare_has_a_table(capsys: Capture) -> None:
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--times", TIMES]
    line += ["--schedules", "1f1b,zb-h1", "--disturbance", "worker3=1.3,stage1=1.2"]
    printed = text_of(capsys, *line)
    assert "\nsensitivity\n" in printed
    assert re.search(r"8 +worker 3 x 1.3 +1 +zb-h1 ", printed)
    rows = rows_of(capsys, *line)
    costs = Costs(times=TIMES)
    for row in rows:
        point = Configuration(row["schedule"], 4, 8, costs=costs)
        found = sensitivity(point, slow_workers={3: 1.3}, slow_stages={1: 1.2})
        assert [each["ratio"] for each in row["sensitivity"]] == [each.ratio for each in found]
        assert row["step_s"] == found[0].step_ps / 1e12
    assert "sensitivity" in text_of(capsys, *line, "--format", "csv").splitlines()[0]


def test_seeds_are_said(capsys: Capture) -> None:
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--schedules", "1f1b"]
    for given, said in (
        ("jitter=5%", "; under jitter the mean and the worst of 20 draws, seeds 1 to 20"),
        ("jitter=5%,seeds=1", "; under jitter that of seed 1"),
        ("worker1=2", " slows down as they do"),
    ):
        assert text_of(capsys, *line, "--disturbance", given).endswith(said + "\n")


def test_files_and_families_are_disturbed_alike(tmp_path: Path, capsys: Capture) -> None:
    file = str(tmp_path / "own.mlir")
    pipesched.generate("zb-v", workers=4, microbatches=8, name="own").save(file)
    line = ["simulate", file, "--schedules", "zb-v", "--times", TIMES]
    given = ["--disturbance", "worker1=1.3,jitter=5%,seeds=3"]
    first, second = rows_of(capsys, *line, *given)
    ranks = [[each.pop("rank") for each in row["sensitivity"]] for row in (first, second)]
    assert ranks == [[1, 1, 1], [1, 1, 1]]
    assert first["sensitivity"] == second["sensitivity"]
    reports = rows_of(capsys, "simulate", file, "--times", TIMES, *given)
    found = [each["ratio"] for each in reports[0]["sensitivity"]]
    assert found == [each["ratio"] for each in first["sensitivity"]]


def test_passes_of_stragglers(capsys: Capture) -> None:
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--times", TIMES]
    line += ["--schedules", "1f1b", "--disturbance", "worker3=1.3,jitter=2%,seeds=2"]
    (row,) = rows_of(capsys, *line)
    reports = json.loads(run_passes(capsys, *line).replace("]\n[", ","))
    steps = [report["execution"]["makespan_ps"] / 1e12 for report in reports]
    plain, slow, *jittered = steps
    assert plain == row["step_s"]
    assert slow == row["sensitivity"][0]["disturbed_step_s"]
    assert sum(jittered[:2]) / 2 == pytest.approx(row["sensitivity"][1]["disturbed_step_s"])
    assert reports[1]["execution"]["disturbance"] == "worker3=1.3"


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["--disturbance", "worker4=2"], 1, "1f1b: there is no worker 4 to slow down"),
        (["--disturbance", "seeds=3"], 2, "seeds are draws of jitter; none is given"),
        (["--disturbance", "jitter=5"], 1, "expected a part such as 5%"),
        (["--disturbance", "jitter=100%"], 1, "expected a part below 100 %"),
    ],
)
def test_mistakes(given: list[str], status: int, said: str, capsys: Capture) -> None:
    line = ["simulate", "--pp", "4", "--microbatches", "8", "--schedules", "1f1b"]
    assert said in failure_of(capsys, *line, *given, status=status)


# Sweeps

SWEPT = ["--schedules", "1f1b,zb-h1", "--pp", "4", "--microbatches", "8"]
SWEPT += ["--times", "F=1ms,I=1ms,W=1ms,comm=0.1ms"]
SLOW = "worker3=1.5,jitter=5%,seed=7"


def test_disturbances_are_an_axis() -> None:
    grid = {"family": ["1f1b", "zb-h1"], "workers": 4, "microbatches": 8}
    texts = ["", "worker1=1.5", SLOW, "worker4=2"]
    frame = pipesched.sweep({**grid, "disturbance": texts})
    assert frame.disturbance.tolist() == [text for text in texts for _ in range(2)]
    made = frame[frame.error.isna()]
    given = zip(made.family, made.disturbance, made.makespan_ps, strict=True)
    for family, text, makespan_ps in given:
        point = Configuration(family, 4, 8, disturbance=text)
        assert point.simulate().execution.makespan_ps == makespan_ps
    assert len(set(frame.makespan_ps.dropna())) == 6
    assert frame.error[6].startswith("there is no worker 4 to slow down")


def test_schedules_are_ranked_for_each_disturbance(capsys: Capture) -> None:
    given = ["--disturbance", "none", "--disturbance", SLOW]
    rows = rows_of(capsys, "sweep", *SWEPT, *given)
    assert [row["disturbance"] for row in rows] == ["", "", SLOW, SLOW]
    assert len({row["makespan_ps"] for row in rows}) == 4
    lines = text_of(capsys, "sweep", *SWEPT, *given).splitlines()
    ranks = [line.split()[:2] for line in lines if line.lstrip().startswith(("none", SLOW))]
    assert ranks == [["none", "1"], ["none", "2"], [SLOW, "1"], [SLOW, "2"]]
    for row in rows:
        report = json.loads(run_passes(capsys, "sweep", *SWEPT, *given, "--point", row["key"]))
        assert report[0]["execution"]["makespan_ps"] == row["makespan_ps"]
    refused = failure_of(capsys, "sweep", *SWEPT, "--disturbance", "gpu1=2")
    assert refused.startswith("error: disturbance: expected worker<number>, stage<number>")


def test_own_rows_are_disturbed() -> None:
    """Own schedules and families lose as much as the family with the same rows."""
    known = Configuration("1f1b", 4, 8, costs=COSTS)

    @pipesched.register_family("rows of 1f1b")
    def rows(problem: pipesched.Schedule) -> pipesched.Schedule:
        return problem.transform("pipe-schedule-1f1b")

    wanted = sensitivity(known, slow_workers={3: 1.3}, jitter="5%", seeds=3)
    own = Configuration("rows of 1f1b", 4, 8, costs=COSTS)
    assert sensitivity(own, slow_workers={3: 1.3}, jitter="5%", seeds=3) == wanted
    named = known.generate().transform(f'pipe-attach-profile{{times="{TIMES}"}}')
    assert sensitivity(named, slow_workers={3: 1.3}, jitter="5%", seeds=3) == wanted


# Plans


SLOW_PLANS: list[dict[str, Any]] = [
    {"slow_workers": {1: 1.5}},
    {"slow_nodes": {0: 1.4}, "slow_workers": {0: "0.9"}},
    {"slow_stages": {0: 1.3}, "jitter": "5%"},
]


def plan_of(**given: Any) -> Plan:
    return plan("llama3-8b", "dgx-h100", gpus=16, global_batch=16, vpp=[2], **given)


@pytest.mark.parametrize("slow", SLOW_PLANS)
def test_plans_search_for_the_disturbed_step(slow: dict[str, Any]) -> None:
    """The order and the best equal the results of trying everything under all disturbances."""
    names: dict[str, Any] = {"schedules": ["1f1b", "zb-h1", "interleaved-1f1b"]}
    names |= {"pp": [2, 4], "tensor": [1, 2]}
    made = plan_of(**names, **slow, seeds=3, top=5)
    expected = [each.expected_disturbed_s or 0 for each in made.fitting]
    assert 0 not in expected and expected[1:] == sorted(expected[1:])
    fastest = min(each.ranked_s for each in (*made.fitting, made.fastest) if each)
    assert expected[0] <= 1.02 * min(expected)
    for each in made.proposals:
        assert each.configuration is not None
        found = sensitivity(each.configuration, **slow, seeds=3)[-1]
        assert found.step_ps / 1e12 == each.step_s
        assert each.disturbed_step_s == pytest.approx(found.mean_ps / 1e12)
    request = Request(
        model="llama3-8b", system="dgx-h100", gpus=16, global_batch=16, chunks=[2], **names
    )
    everything = Search(Space(request), None, None, slow_of(slow), 3)
    outcomes = everything.evaluate(everything.space.candidates())
    best = min(o.step_ps for o in outcomes if o.peak_bytes <= request.usable_bytes)
    assert fastest <= best / 1e12
    plain = plan_of(**names, top=1).fitting[0]
    assert plain.disturbed_step_s is None
    assert plain.configuration is not None
    assert fastest <= sensitivity(plain.configuration, **slow, seeds=3)[-1].mean_ps / 1e12


def slow_of(given: dict[str, Any]) -> Slow:
    workers, stages, nodes = (given.get(f"slow_{w}s", {}) for w in ("worker", "stage", "node"))
    return Slow(workers, stages, nodes, given.get("jitter"))


def test_a_slow_worker_changes_the_plan(capsys: Capture) -> None:
    """The first row, its lines and the sentence on the best are for the disturbed step."""
    line = ["plan", "--model", "llama3-8b", "--system", "dgx-h100", "--gpus", "16"]
    line += ["--global-batch", "32", "--pp", "4", "--tp", "1", "--cp", "1"]
    line += ["--schedules", "1f1b,zb-h1,interleaved-1f1b", "--vpp", "2", "--top", "3"]
    slow = ["--disturbance", "worker1=1.5"]
    plain, disturbed = rows_of(capsys, *line), rows_of(capsys, *line, *slow)
    fitting = [row for row in disturbed if row["fits"]]
    steps = [row["disturbed_step_s"] for row in fitting]
    assert steps[1:] == sorted(steps[1:]) and steps[0] <= 1.02 * min(steps)
    assert [row["sensitivity"][-1]["disturbed_step_s"] for row in fitting] == steps
    assert (fitting[0]["layers"], fitting[0]["schedule"]) != (
        plain[0]["layers"],
        plain[0]["schedule"],
    )
    assert fitting[0]["step_s"] > plain[0]["step_s"]
    printed = text_of(capsys, *line, *slow)
    assert "steps are compared under worker 1 x 1.5, with which its step takes" in printed
    assert f"layers {fitting[0]['layers']}" in next(
        text for text in printed.splitlines() if text.startswith("- best: ")
    )


@pytest.mark.parametrize(
    ("slow", "stage"),
    [({"slow_workers": {1: 2}}, 1), ({"slow_nodes": {1: 1.7}}, 2), ({"slow_stages": {2: 1.6}}, 2)],
)
def test_layers_are_divided_by_speed(slow: dict[str, Any], stage: int) -> None:
    """No division by hand of the best is faster, and the slow stage has fewer layers."""
    given: dict[str, Any] = {"pp": [4], "tp": [4], "cp": [1], "schedules": ["1f1b"]}
    made = plan_of(**given, **slow, recompute=["none"], microbatch_size=[1])
    best = made.fitting[0]
    (layers,) = best.candidate.layers
    assert layers[stage] <= 0.7 * layers[0]
    search = Search(Space(made.request), None, None, slow_of(slow))
    divisions = [(a, b, c, 32 - a - b - c) for a, b, c in product(range(3, 12), repeat=3)]
    near = [each for each in divisions if sum(map(abs, map(sub, each, layers))) <= 4]
    others = [best.candidate._replace(layers=(each,)) for each in near]
    assert best.disturbed_step_s is not None
    fastest = min(o.step_ps for o in search.evaluate(others)) / 1e12
    assert best.disturbed_step_s <= 1.02 * fastest
    said = next(text for text in made.why() if text.startswith("steps are compared under"))
    bound = float(said.rpartition("at least ")[2].removesuffix(" s"))
    assert 0.7 * best.disturbed_step_s < bound / best.middle <= best.disturbed_step_s


def test_pipelines_without_a_slow_worker_are_left_out() -> None:
    made = plan_of(schedules=["1f1b"], slow_workers={3: 1.2}, context=[1])
    assert {each.shape.pipeline for each in made.proposals} <= {4, 8, 16}
    with pytest.raises(PipeSchedError, match="there is no worker 3 to slow down"):
        plan_of(schedules=["1f1b"], pp=[2], slow_workers={3: 1.2})
