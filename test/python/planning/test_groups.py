"""Systems with groups of nodes: costs by group, layers by speed, plans, their bound, refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pipesched
import pytest
from pipesched import Configuration, Costs, PipeSchedError, plan
from pipesched import Path as Stages
from pipesched.command import main
from pipesched.planning.request import Request
from pipesched.planning.search.search import Search
from pipesched.planning.space.space import Space
from test_command import Capture

ROOT = Path(__file__).parents[3]
MIXED = ROOT / "examples" / "groups" / "h100-a100.json"
SPINE = {"bandwidth_gb_per_s": 50, "latency_us": 20, "efficiency": 0.9}
"""As the network of h100-sxm."""

SLOW_SPINE = {**SPINE, "bandwidth_gb_per_s": 25}

LAYERS = "layers.F=1ms,layers.B=2ms,embedding.F=0ms,head.F=1ms,head.B=2ms"
"""Times of layers."""

LAYOUT: dict[str, Any] = {"data_parallel": 4, "accelerators": 2, "microbatch_size": 1}
HELD: dict[str, Any] = {**LAYOUT, "framework": "none", "attention": "fused"}
"""The same for all systems: habits follow the chip."""


def grouped(*groups: tuple[str, int], **fields: Any) -> dict[str, Any]:
    listed = [{"system": name, "accelerators": count} for name, count in groups]
    return {"name": "g", "description": "d", "groups": listed, "spine": SPINE, **fields}


def step_of(system: Any, layers: tuple[int, ...] | None = (8, 8, 8, 8), **given: Any) -> Any:
    costs = Costs(model="llama3-8b", system=system, **{**HELD, **given})
    paths = None if layers is None else [Stages((0, 1, 2, 3), blocks=layers)]
    return Configuration(
        "1f1b", 4, 8, paths=paths, costs=costs, optimizer_step="overlapped"
    ).simulate()


def test_equal_groups_are_one_system() -> None:
    alone = {**pipesched.systems()["h100-sxm"], "network": SPINE}
    halves = grouped(("h100-sxm", 16), ("h100-sxm", 16))
    for group in halves["groups"]:
        group["system"] = alone
    mixed, whole = step_of(halves), step_of(alone)
    assert mixed.execution.makespan_ps == whole.execution.makespan_ps
    assert mixed.memory == whole.memory


def test_workers_have_the_costs_of_their_group() -> None:
    """Cells, reductions and optimizer; a group that no worker ends in costs nothing."""
    mixed = step_of(MIXED).to_frame()
    for system, workers in (("h100-sxm", (0, 1)), ("a100-sxm-80gb", (2, 3))):
        alone = step_of(system).to_frame()
        for worker in workers:
            took = [(f.end_ps - f.start_ps)[f.worker == worker].to_numpy() for f in (mixed, alone)]
            assert took[0].size and np.array_equal(took[0], took[1])
    # Eight replicas of four workers need more accelerators than there are.
    with pytest.raises(
        PipeSchedError, match="have 32 accelerators, too few for worker 2 of 2 in 8"
    ):
        step_of(MIXED, data_parallel=8)


def test_messages_of_edges_have_the_costs_of_their_group() -> None:
    """Workers 4 and 5 are on one node, and wait only for the large tensor of the edge."""
    rows = "".join(
        f"worker {worker} runs [{stage}F0 {stage}B0]\n"
        for worker, stage in enumerate((0, 1, 2, 3, 4, 6, 5, 7))
    )
    text = f"""pipe.schedule @s workers 8 microbatches 1 {{
  path on [0, 1, 2, 3, 4, 6, 5, 7] blocks [4, 4, 4, 4, 4, 4, 4, 4]
  edge 4 -> 6 "skip" bytes 100000000000
  {rows}}}"""

    def waits(system: Any) -> list[int]:
        costs: dict[str, Any] = {"model": "llama3-8b", "system": system, **HELD}
        frame: Any = pipesched.loads(text)[0].simulate(**{**costs, "data_parallel": 2}).to_frame()
        cells = {(f.worker, f.phase): f for f in frame.itertuples()}
        return [
            cells[5, "F"].start_ps - cells[4, "F"].end_ps,
            cells[4, "B"].start_ps - cells[5, "B"].end_ps,
        ]

    assert waits(MIXED) == waits("a100-sxm-80gb") != waits("h100-sxm")


def test_replicas_on_two_groups_wait_for_the_slower() -> None:
    """The second of three workers with ten replicas is on both groups."""
    system = grouped(("h100-sxm", 16), ("a100-sxm-80gb", 16))
    costs = Costs(model="llama3-8b", system=system, **{**HELD, "accelerators": 1})
    slow = costs.with_(system="a100-sxm-80gb", data_parallel=10)
    costs = costs.with_(data_parallel=10)
    paths = [Stages((0, 1, 2), blocks=(10, 11, 11))]
    frames = [
        Configuration("1f1b", 3, 3, paths=paths, costs=each).simulate().to_frame()
        for each in (costs, slow)
    ]
    took = [(f.end_ps - f.start_ps)[f.worker == 1].to_numpy() for f in frames]
    assert np.array_equal(took[0], took[1])


def test_groups_are_joined_by_the_spine() -> None:
    slow = {**SPINE, "bandwidth_gb_per_s": 1}
    fast, late = (step_of(grouped(("h100", 16), ("a100", 16), spine=s)) for s in (SPINE, slow))
    assert late.execution.makespan_ps > fast.execution.makespan_ps
    unequal = [grouped(("h100", 24), ("a100", 8), spine=s) for s in (SPINE, slow)]
    # Workers 0 to 2 are on one network; messages between them do not take the spine.
    fast, late = map(step_of, unequal)
    starts = [each.to_frame().query("worker == 2").start_ps.min() for each in (fast, late)]
    assert starts[0] == starts[1]
    assert late.execution.makespan_ps > fast.execution.makespan_ps


def test_layers_follow_speed() -> None:
    by_speed, even = step_of(MIXED, None), step_of(MIXED)
    assert by_speed.execution.makespan_ps < 0.8 * even.execution.makespan_ps
    times = by_speed.execution.cells_ps
    assert max(times) < 1.3 * min(times)


@pytest.mark.parametrize("counts", [(8, 8), (16, 8)])
def test_no_plan_on_groups_is_lost(counts: tuple[int, int]) -> None:
    """All candidates of a small request, and the least step that any could take."""
    system = grouped(("h100-sxm", counts[0]), ("a100-sxm-80gb", counts[1]))
    given: dict[str, Any] = {"gpus": sum(counts), "global_batch": 48, "tensor": [2], "chunks": [2]}
    request = Request(
        model="llama3-8b", system=system, schedules=("1f1b", "zb-v"), context=[1, 2], **given
    )
    search = Search(Space(request), None, None)
    fitting = [
        o
        for o in search.evaluate(search.space.candidates())
        if o.peak_bytes <= request.usable_bytes
    ]
    made = plan("llama3-8b", system, schedules=["1f1b", "zb-v"], cp=[1, 2], top=3, **given)
    best = min(o.step_ps for o in fitting)
    assert min(each.step_s for each in made.fitting) <= best / 1e12
    assert made.groups is not None and 0 < made.groups.least_s <= best / 1e12
    assert made.to_dicts()[0]["groups"]["least_s"] == made.groups.least_s
    uneven = made.fitting[0].candidate.layers[0]
    assert made.fitting[0].shape.pipeline == 1 or uneven[0] > uneven[-1] or len(uneven) == 4


def test_what_plans_on_groups_refuse(capsys: Capture) -> None:
    line = ["plan", "--model", "llama3-8b", "--system", str(MIXED), "--global-batch", "64"]
    assert main([*line, "--gpus", "24"]) == 1
    assert "have 32 accelerators in all; found gpus 24" in capsys.readouterr().err
    once = ["--tp", "2", "--microbatch-size", "1", "--times", LAYERS]
    assert main([*line, "--gpus", "32", *once]) == 1
    assert "times are those of one kind of accelerator" in capsys.readouterr().err
    with pytest.raises(
        PipeSchedError, match="tensor and context parallelism does not divide the 8"
    ):
        Costs(model="llama3-8b", system=grouped(("h100", 16), ("a100", 8)), accelerators=16)
    with pytest.raises(PipeSchedError, match="as the rank order 'data' has them; found 'pipeline'"):
        step_of(MIXED, rank_order="pipeline")
    simulate = ["simulate", "1f1b", "--pp", "4", "--microbatches", "4", "--model", "llama3-8b"]
    assert main([*simulate, "--system", str(MIXED), "--show-passes"]) == 1
    assert "no form for" in capsys.readouterr().err


def test_power_is_the_mean_of_the_groups() -> None:
    made = plan(
        "llama3-8b",
        MIXED,
        gpus=32,
        global_batch=64,
        tp=[2],
        pp=[2],
        cp=[1],
        top=1,
        schedules=["1f1b"],
        tokens="1T",
    )
    row = made.to_dicts()[0]
    hours = 1e12 / row["tokens_per_s_per_gpu"] / 3600
    watts = [
        (each["watts"] * each["busy_share"], each["watts"] * each["idle_share"])
        for each in (pipesched.systems()[n]["power"] for n in ("h100-sxm", "a100-sxm-80gb"))
    ]
    busy, idle = np.mean(watts, axis=0)
    mean = busy * (1 - row["idle_ratio"]) + idle * row["idle_ratio"]
    assert row["energy_kwh"] == pytest.approx(hours * mean / 1000)


def test_pipelines_within_groups_take_microbatches_by_speed() -> None:
    """The slower group has the step, and no other share of the batch is shorter."""
    given: dict[str, Any] = {"gpus": 32, "global_batch": 96, "tp": [2], "pp": [2], "cp": [1]}
    given |= {"microbatch_size": [1], "recompute": ["none"], "schedules": ["1f1b"]}
    made = plan("llama3-8b", MIXED, top=1, **given)
    assert made.groups is not None and made.groups.within is not None
    within = made.groups.within
    assert within.pipelines == (4, 4) and sum(within.microbatches) == 24
    assert within.microbatches[0] > 2 * within.microbatches[1]

    def step(share: tuple[int, int]) -> float:
        steps = []
        for name, count in zip(("h100-sxm", "a100-sxm-80gb"), share, strict=True):
            fields = {**pipesched.systems()[name], "spine": SLOW_SPINE, "accelerators_per_pod": 16}
            costs = made.fitting[0].costs.with_(system=fields)
            paths = [Stages((0, 1), blocks=within.candidate.layers[0])]
            point = Configuration("1f1b", 2, count, paths=paths, costs=costs)
            whole = replace(point, optimizer_step="overlapped")
            steps.append(whole.simulate().execution.makespan_ps / 1e12)
        return max(steps)

    assert within.step_s == step((within.microbatches[0], within.microbatches[1]))
    assert within.step_s == min(step((n, 24 - n)) for n in range(1, 24))
    assert any("microbatches by speed" in each for each in made.why())
