"""Schedules that train in PyTorch: losses, gradients, and parameters after two optimizer steps
equal the model's without a pipeline, in real processes over gloo and in float64; to the last bit if
all sums keep their order.
"""

from __future__ import annotations

import os
from functools import cache

import pipesched
import pytest
from pipesched import Path, Schedule
from points import WHOLE
from runtime_random import random_schedule
from runtime_runs import Job, Result, made, phases_of, smallest, train

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

PRECISION = 1e-12
"""The largest error in float64, relative to the largest element of a tensor."""

CROSSING = [Path([0, 1, 2], takes=[range(0, 5, 2)]), Path([2, 1, 0], takes=[range(1, 5, 2)])]
ASYMMETRIC = [
    Path([0, 1, 2, 3], takes=[range(0, 7, 2)], weights=[1, 1, 2, 2]),
    Path([3, 2, 1, 0], takes=[range(1, 7, 2)], weights=[1, 1, 2, 2]),
]
ALL = os.environ.get("PIPESCHED_TEST_ALL") == "1"
SEEDS = range(16 if ALL else 8)
ON_EIGHT = WHOLE if ALL else ("1f1b", "zb-v", "interleaved-1f1b", "dualpipe")
"""Families on eight workers; all are on four."""
MODELS = ("plain", "shared", "forked", "mapped")

MIXED = [
    # Paths of four stages, of seven, and on only two workers; each has all six blocks.
    Path([0, 1, 2, 3], takes=[range(0, 9, 3)], weights=[2, 1, 1, 2]),
    Path([3, 2, 1, 0, 0, 3], takes=[range(1, 9, 3)]),
    Path([1, 2], takes=[range(2, 9, 3)]),
]
RECOMPUTED_AND_MOVED = "pipe-add-recompute{keep=2},pipe-add-offload{keep=1}"
BY_HAND = """
exec.program @by_hand workers 2 microbatches 2 {
  worker 0 {
    %f0 = compute 0F0
    %s0 = send 0F0 to 1 after %f0
    %f1 = compute 0F1
    %s1 = send 0F1 to 1 after %f1
    %g1 = recv 1I1 from 1
    %g0 = recv 1B0 from 1
    %i1 = compute 0I1 after %f1, %g1
    %b0 = compute 0B0 after %f0, %g0
    %w1 = compute 0W1 after %i1
  }
  worker 1 {
    %a1 = recv 0F1 from 0
    %a0 = recv 0F0 from 0
    %f1 = compute 1F1 after %a1
    %i1 = compute 1I1 after %f1
    %t1 = send 1I1 to 0 after %i1
    %f0 = compute 1F0 after %a0
    %b0 = compute 1B0 after %f0
    %t0 = send 1B0 to 0 after %b0
    %w1 = compute 1W1 after %i1
  }
}
"""


def peak_of(schedule: Schedule) -> int:
    """The most activations that a worker holds, which no rank may exceed."""
    table = schedule.simulate().table
    assert table is not None
    return int(max(table.peak_activations))


@cache
def schedules() -> dict[str, Schedule]:
    found = {
        "chimera doubled": made("chimera", 4, 16, construction="doubling"),
        "chimera halved": made("chimera", 4, 16, construction="halving"),
        "chimera of two pairs": made("chimera", 4, 8, pairs=2),
        "paths that cross": made("greedy", 3, 5, paths=CROSSING),
        "paths that cut each other": made("greedy", 4, 7, paths=ASYMMETRIC, gradient_after="I"),
        "gradient after W": made("1f1b", 3, 5, "pipe-split-backward{gradient-after=W}"),
        "recomputed": made("zb-v", 4, 9, "pipe-add-recompute{ahead=1}"),
        "recomputed in part": made("1f1b", 4, 7, "pipe-add-recompute{keep=1 kind=selective}"),
        "offloaded": made("zb-h1", 4, 8, "pipe-add-offload{memory=4}"),
        "offloaded in part": made("interleaved-1f1b", 2, 6, "pipe-add-offload{amount=half}"),
        "by hand": Schedule.from_text(BY_HAND),
        "one worker": made("1f1b", 1, 3),
        "program": made("dualpipe", 4, 10, "convert-pipe-to-exec{receive-placement=consumer}"),
    }
    problem = pipesched.problem(workers=3, microbatches=5)
    times = "pipe-attach-profile{times=F=10ms,I=12ms,W=8ms,D=9ms,U=9ms}"
    searched = problem.transform(times).optimize(
        memory=2, offload=True, threads=1, max_evaluations=500
    )
    found["optimized"] = searched.schedule
    return found


ORDERED = {"messages": "ordered"}


def frozen() -> list[Job]:
    """Stages without weight gradients: before, between and after others."""
    found = []
    for family, workers, stages in (("1f1b", 4, (0,)), ("1f1b", 4, (1, 3)), ("gpipe", 3, (0, 1))):
        path = Path(list(range(workers)), frozen=stages)
        found.append((f"{family} frozen {stages}", made(family, workers, 7, paths=[path])))
    around = [0, 1, 0, 1]
    found.append(("split frozen", made("greedy", 2, 5, paths=[Path(around, frozen=[0, 2])])))
    return [
        Job(name + tags, schedule, options=options)
        for name, schedule in found
        for tags, options in (("", {}), (" without tags", ORDERED))
    ]


STEPPED = {
    "1f1b steps": ("1f1b", 3, 5, "pipe-add-optimizer"),
    "zb-v steps": ("zb-v", 2, 5, "pipe-add-optimizer{all-reduce=eager}"),
    "chimera steps at the end": ("chimera", 4, 8, "pipe-add-optimizer{all-reduce=end}"),
    "chimera steps early": ("chimera", 4, 8, "pipe-add-optimizer{all-reduce=eager}"),
    "dualpipe steps early": ("dualpipe", 4, 10, "pipe-add-optimizer{all-reduce=eager}"),
}


@cache
def jobs() -> dict[str, Job]:
    found: list[Job] = []
    for family in WHOLE:
        schedule = smallest(family, 4)
        budget = {"memory_budget": peak_of(schedule)}
        found.append(
            Job(f"{family} at arrival", schedule, options={"receives": "arrival", **budget})
        )
        found.append(Job(f"{family} at consumer", schedule, options={"receives": "consumer"}))
    for name, schedule in schedules().items():
        budget = {"memory_budget": 4} if name == "offloaded" else {}
        found.append(Job(name, schedule, options=budget))
    for name, (family, workers, count, transform) in STEPPED.items():
        schedule = made(family, workers, count, transform)
        found.append(Job(name, schedule, steps_inside=True))
        if family != "1f1b":
            found.append(Job(f"{name}, outside", schedule))
    cut = schedules()["paths that cut each other"].transform("pipe-add-optimizer")
    found.append(Job("paths that cut each other step", cut, steps_inside=True))
    crossing = schedules()["paths that cross"].transform("pipe-add-optimizer")
    found.append(Job("paths that cross step", crossing, steps_inside=True))
    for family in ("1f1b", "zb-v", "chimera", "interleaved-zb", "dualpipe-v"):
        found.append(Job(f"{family} without tags", smallest(family, 4), options=ORDERED))
    found.append(
        Job(
            "uneven without tags",
            made("zb-h1", 3, 5),
            options={**ORDERED, "static_shapes": False},
            is_uneven=True,
        )
    )
    halves = made("interleaved-zb", 2, 6)
    again = made("interleaved-1f1b", 2, 6, "pipe-add-recompute")
    away = made("zb-v", 2, 6, "pipe-add-offload{keep=1}")
    for model in ("shared", "forked", "mapped", "tied"):
        found.append(Job(f"{model} split", halves, model))
        found.append(Job(f"{model} recomputed", again, model))
        found.append(Job(f"{model} offloaded", away, model))
        found.append(Job(f"{model} replicated", made("chimera", 2, 6), model))
    for family in ("zb-v", "chimera", "interleaved-1f1b"):
        stepped = made(family, 2, 6, "pipe-add-optimizer{all-reduce=eager}")
        found.append(Job(f"tied {family} steps", stepped, "tied", steps_inside=True))
    found += [
        Job("uneven", made("zb-v", 3, 7), is_uneven=True),
        Job("uneven and offloaded", away, is_uneven=True),
        Job("counted", halves, "counted"),
        Job("counted, recomputed", again, "counted"),
        Job("dropped", made("interleaved-1f1b", 2, 6), "dropped", compares=False),
        Job("dropped, recomputed", again, "dropped", compares=False),
    ]
    found += [*more_jobs(), *frozen()]
    return {job.name: job for job in found}


def more_jobs() -> list[Job]:
    """Eight workers, random schedules, and transforms on top of each other."""
    found = [Job(f"{family} on 8", made(family, 8, 16)) for family in ON_EIGHT]
    for family in ("zb-v", "dualpipe-v", "chimera", "interleaved-1f1b", "hanayo"):
        found.append(Job(f"{family} on 8 without tags", made(family, 8, 16), options=ORDERED))
    for family in ("gpipe", "zb-h2", "looped-bfs", "v-min", "zb-auto", "dualpipe", "greedy"):
        found.append(Job(f"{family} without tags", made(family, 4, 12), options=ORDERED))
    for seed in SEEDS:
        model = MODELS[seed % len(MODELS)]
        uneven = model == "plain" and seed % 8 == 4
        options = ORDERED if seed % 3 == 2 else {}
        found.append(Job(f"random {seed}", random_schedule(seed), model, options, uneven))
    halves = made("interleaved-zb", 2, 6, "pipe-add-optimizer," + RECOMPUTED_AND_MOVED)
    for model in (*MODELS, "counted"):
        found.append(Job(f"{model}, split, recomputed, moved, stepped", halves, model))
    found.append(Job("mixed", made("greedy", 4, 9, paths=MIXED)))
    mixed = made("greedy", 4, 9, "pipe-add-optimizer{all-reduce=eager}", paths=MIXED)
    found.append(Job("mixed, stepped", mixed, steps_inside=True))
    found.append(Job("chimera, recomputed", made("chimera", 4, 8, "pipe-add-recompute")))
    found.append(Job("offloaded on 8", made("zb-h1", 8, 16, "pipe-add-offload")))
    again = made("interleaved-1f1b", 2, 6, RECOMPUTED_AND_MOVED)
    found.append(Job("dropped, recomputed and moved", again, "dropped", compares=False))
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """All jobs in one set of processes, since these take longer to start than most jobs."""
    return train(list(jobs().values()), tmp_path_factory.mktemp("runtime"))


def keeps_order(schedule: Schedule) -> bool:
    """Whether each parameter gets its gradients in the order of the microbatches."""
    if len(schedule.paths) > 1:
        return False
    for worker in range(schedule.workers):
        computes = [i for i in schedule.program(worker) if i.kind == "compute"]
        cells = [cell for i in computes for cell in i.cells if cell.phase in "BW"]
        for stage in {cell.stage for cell in cells}:
            numbers = [cell.microbatch for cell in cells if cell.stage == stage]
            if numbers != sorted(numbers):
                return False
    return True


NAMES = [name for name, job in jobs().items() if job.compares]
PLAIN = [name for name in NAMES if jobs()[name].model == "plain" and not jobs()[name].steps_inside]
EXACT = [name for name in PLAIN if keeps_order(jobs()[name].schedule)]


@pytest.mark.parametrize("name", NAMES)
def test_trains_as_without_a_pipeline(trained: dict[str, list[Result]], name: str) -> None:
    for result in trained[name]:
        assert result.losses <= PRECISION
        assert result.gradients <= PRECISION
        assert result.values <= PRECISION


@pytest.mark.parametrize("name", EXACT)
def test_results_are_the_same_bits(trained: dict[str, list[Result]], name: str) -> None:
    for result in trained[name]:
        assert result.gradients == result.values == 0


def test_many_results_are_the_same_bits() -> None:
    """Without this, a mistake in `keeps_order` would test nothing."""
    assert {"1f1b on 8", "zb-v on 8", "interleaved-1f1b on 8 without tags"} <= set(EXACT)


@pytest.mark.parametrize("how", ["recomputed", "recomputed and moved"])
def test_dropout_is_recomputed_as_it_was(trained: dict[str, list[Result]], how: str) -> None:
    whole, again = trained["dropped"], trained[f"dropped, {how}"]
    assert [result.trace for result in again] == [result.trace for result in whole]
    assert any(result.gradients > 1e-3 for result in whole)  # Dropout has an effect.


def test_schedules_are_what_their_names_say() -> None:
    """Without this a transform that changes nothing would test nothing."""

    def phases(name: str) -> set[str]:
        return phases_of(jobs()[name].schedule)

    assert "R" in phases("recomputed") and "R" in phases("recomputed in part")
    assert {"D", "U"} <= phases("offloaded") and {"D", "U"} <= phases("offloaded in part")
    assert {"D", "U"} <= phases("shared offloaded") and "D" in phases("optimized")
    assert "I" in phases("1f1b frozen (1, 3)") and "W" not in phases("1f1b frozen (1, 3)")
    assert "G" in phases("chimera steps early") and "O" in phases("1f1b steps")
    assert any(
        len(i.cells) == 2
        for i in jobs()["dualpipe at arrival"].schedule.program(0, receives="arrival")
    )
    assert set("FIWRDUO") <= phases("plain, split, recomputed, moved, stepped")
    assert set("RDU") <= phases("dropped, recomputed and moved")
    kinds = [jobs()[f"random {seed}"].schedule for seed in SEEDS]
    assert any(len(schedule.paths) == 2 for schedule in kinds)
    paths = [path.workers for schedule in kinds for path in schedule.paths]
    # Stages that follow each other on one worker.
    assert any(a == b for path in paths for a, b in zip(path, path[1:], strict=False))
