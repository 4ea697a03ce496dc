"""Plans with optimized rows: rows and numbers agree, and the optimizer helps."""

import json
import re
from pathlib import Path
from typing import Any

import pipesched
import pytest
from pipesched import PipeSchedError, Plan, Proposal, plan
from pipesched.support.units import seconds_of
from test_command import Capture, failure_of, rows_of, run_passes
from test_plan import SMALL, check

TIGHT: dict[str, Any] = {
    "gpus": 8,
    "global_batch": 8,
    "tensor": [2],
    "pp": [4],
    "microbatch_size": [1],
    "schedules": ["1f1b", "zb-h1"],
    "context": [1],
    "sharding": ["optimizer"],
    "memory": "26GiB",
    "reserve": 0,
}


def tight(**changes: Any) -> Plan:
    return plan("llama3-8b", "dgx-h100", **{**TIGHT, "optimize": "1.5s", **changes})


def optimized_of(made: Plan) -> list[Proposal]:
    return [proposal for proposal in made.proposals if proposal.optimized]


def check_optimized(proposal: Proposal) -> None:
    """Checks that rows and numbers agree and that bounds hold."""
    check(proposal)
    made = proposal.optimized
    assert made is not None and proposal.configuration is None
    row = proposal.to_dict()
    found = row["optimized"]
    cells = made.schedule.simulate(transport="delay")
    assert cells.execution.makespan_ps == made.found.objective_ps
    assert found["makespan_s"] == cells.execution.makespan_ps / 1e12
    assert found["lower_bound_s"] <= found["makespan_s"]
    budget = proposal.request.usable_bytes * proposal.shape.worker
    made.schedule.verify(memory=f"{budget}B", transport="delay")
    assert (found["status"] == "optimal") == (found["gap"] == 0)
    free, phases = found["freedoms"], set(made.schedule.to_frame().phase)
    assert free["offload"] or "D" not in phases
    assert free["recompute"] != "none" or "R" not in phases
    assert (found["offloads"] > 0) == ("D" in phases)
    assert (found["recomputes"] > 0) == ("R" in phases)
    assert row["launcher"]["megatron"] is None
    assert (row["launcher"]["torchtitan"] is None) == bool({"D", "R"} & phases)


def test_optimized_rows_are_ranked_under_disturbances() -> None:
    made = tight(slow_workers={1: 1.3}, memory="28GiB")
    rows = optimized_of(made)
    assert rows
    for each in rows:
        assert each.optimized is not None
        slow = each.optimized.step.simulate(disturbance="worker1=1.3")
        assert each.disturbed_step_s == slow.execution.makespan_ps / 1e12 > each.step_s
    steps = [each.ranked_s for each in made.fitting[1:]]
    assert steps == sorted(steps)


def test_optimizing_helps_where_memory_is_tight() -> None:
    made = tight()
    by_rule = plan("llama3-8b", "dgx-h100", **TIGHT)
    found = optimized_of(made)
    assert found
    for proposal in found:
        check_optimized(proposal)
    steps = [proposal.step_s for proposal in made.fitting[1:]]
    assert steps == sorted(steps)
    assert made.fitting[0].optimized
    assert made.fitting[0].step_s < 0.95 * by_rule.fitting[0].step_s
    families = {p.candidate: p for p in made.fitting if not p.optimized}
    same = [p for p in (*by_rule.fitting, by_rule.fastest) if p and p.candidate in families]
    for theirs in same:
        mine = families[theirs.candidate].to_dict()
        assert {**mine, "rank": 0, "name": ""} == {**theirs.to_dict(), "rank": 0, "name": ""}
    assert len(same) == len(families) > 0
    sentences = [s for s in made.why() if s.startswith("optimized on 4 workers")]
    assert len(sentences) >= len(found)
    assert any("offloads" in sentence or "recomputes" in sentence for sentence in sentences)


def test_freedoms_are_those_of_request_and_system() -> None:
    """Without a host link and recomputation, the optimizer may only order cells."""
    system = {k: v for k, v in pipesched.systems()["dgx-h100"].items() if k != "host"}
    system.pop("sources")
    model = pipesched.models()["llama3-8b"]
    limits = {**TIGHT, "recompute": ["none"], "memory": "60GiB"}
    made = plan(model, system, optimize=1, **limits)
    (found,) = optimized_of(made)
    check_optimized(found)
    assert found.to_dict()["optimized"]["freedoms"] == {
        "split_backward": True,
        "offload": False,
        "recompute": "none",
    }
    again = pipesched.Schedule.from_csv(found.generate().to_csv())
    assert again.microbatches == found.shape.microbatches
    full = tight(recompute=["full"])
    freedoms = [p.to_dict()["optimized"]["freedoms"]["recompute"] for p in optimized_of(full)]
    assert set(freedoms) == {"none"}


def test_what_cannot_be_optimized_is_said() -> None:
    made = tight(memory="9GiB")
    assert not made.fitting
    assert not optimized_of(made)
    reasons = [s for s in made.why() if "was not found: " in s]
    assert reasons and "nothing is left for activations" in reasons[0]
    assert not tight(tensor=[8], pp=[1], memory="80GiB").attempts


def test_command_optimizes(tmp_path: Path, capsys: Capture) -> None:
    sizes = ["--gpus", "8", "--global-batch", "8", "--tp", "2", "--pp", "4"]
    choices = ["--schedules", "1f1b,zb-h1", "--microbatch-size", "1"]
    choices += ["--memory", "26GiB", "--reserve", "0", "--cp", "1"]
    line = ["plan", *SMALL[:4], *sizes, *choices, "--top", "2", "--optimize", "1.5s"]
    rows = rows_of(capsys, *line, "--save", str(tmp_path))
    best = rows[0]
    assert best["schedule"] == "optimized" and best["fits"]
    saved = pipesched.Schedule.from_file(tmp_path / f"{best['name']}.mlir")
    assert saved.simulate().execution.makespan_ps / 1e12 == best["step_s"]
    printed = run_passes(capsys, *line)
    reports = [json.loads(text)[0] for text in re.findall(r"(?ms)^\[\n.*?^\]$", printed)]
    first = reports[0]["execution"]["makespan_ps"] / 1e12
    assert first == pytest.approx(best["step_s"], rel=0.05)


@pytest.mark.parametrize("time", ["0s", "-1s", "soon", "30 days", "1001h", "nan"])
def test_times(time: str, capsys: Capture) -> None:
    said = failure_of(capsys, "plan", *SMALL, f"--optimize={time}")
    assert "optimize is a time from above 0 to 1000h, such as 30s" in said
    assert f"got {time!r}" in said
    for number in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(PipeSchedError, match="optimize is a time"):
            seconds_of("optimize", number)


def test_rows_are_for_the_framework() -> None:
    """torchtitan runs no cells that offload or recompute single activations, Megatron-LM only its
    own rows, and neither is ranked among the schedules that they run.
    """
    made = tight(launcher="torchtitan", optimize="1s")
    assert made.attempts
    for proposal in optimized_of(made):
        assert not proposal.optimized or not (proposal.optimized.offloads)
        assert proposal.to_dict()["launcher"]["torchtitan"]
    for _, optimized in (each for attempt in made.attempts for each in attempt.results):
        assert optimized.to_dict()["freedoms"] == {
            "split_backward": True,
            "offload": False,
            "recompute": "none",
        }
    megatron = tight(launcher="megatron", schedules=["1f1b"], optimize="1s")
    assert megatron.attempts and not optimized_of(megatron)
    assert "was not found: Megatron-LM has 1F1B and interleaved 1F1B" in "".join(megatron.why())


def test_what_is_new_is_told() -> None:
    """Rows with only a new order recompute as the family does."""
    made = tight(recompute=["none", "full"], optimize="1.5s")
    assert made.attempts
    for attempt in made.attempts:
        for outcome, found in attempt.results:
            if not (found.offloads or found.recomputes):
                assert outcome.candidate.shape.recompute == attempt.candidate.shape.recompute
    for sentence in made.why():
        assert "nothing but the order" not in sentence or "its backwards are split" not in sentence
