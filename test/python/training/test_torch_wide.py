"""More schedules that train in PyTorch than test_torch_runtime.py has: eight workers, random
schedules, and transforms on top of each other. If all sums keep their order, results equal the
unpipelined model's to the last bit.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import pytest
from pipesched import Path, Schedule, generate
from points import WHOLE
from runtime_random import random_schedule
from runtime_runs import Job, Result, phases_of, train

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

PRECISION = 1e-12
"""The largest error in float64, relative to the largest element of a tensor."""
ALL = os.environ.get("PIPESCHED_TEST_ALL") == "1"
SEEDS = range(16 if ALL else 8)
FAMILIES = WHOLE if ALL else ("1f1b", "zb-v", "interleaved-1f1b", "dualpipe")
"""On eight workers; test_torch_runtime.py has all on four."""
MODELS = ("plain", "shared", "forked", "mapped")

MIXED = [
    # Paths of four stages, of seven, and on only two workers; each has all six blocks.
    Path([0, 1, 2, 3], takes=[range(0, 9, 3)], weights=[2, 1, 1, 2]),
    Path([3, 2, 1, 0, 0, 3], takes=[range(1, 9, 3)]),
    Path([1, 2], takes=[range(2, 9, 3)]),
]


def made(family: str, workers: int, microbatches: int, transform: str = "", **options: Any) -> Any:
    schedule = generate(family, workers=workers, microbatches=microbatches, **options)
    return schedule.transform(transform) if transform else schedule


RECOMPUTED_AND_MOVED = "pipe-add-recompute{keep=2},pipe-add-offload{keep=1}"


@cache
def jobs() -> dict[str, Job]:
    found = [Job(f"{family} on 8", made(family, 8, 16)) for family in FAMILIES]
    ordered = {"messages": "ordered"}
    for family in ("zb-v", "dualpipe-v", "chimera", "interleaved-1f1b", "hanayo"):
        found.append(Job(f"{family} on 8 without tags", made(family, 8, 16), options=ordered))
    for family in ("gpipe", "zb-h2", "looped-bfs", "v-min", "zb-auto", "dualpipe", "greedy"):
        found.append(Job(f"{family} without tags", made(family, 4, 12), options=ordered))
    for seed in SEEDS:
        model = MODELS[seed % len(MODELS)]
        uneven = model == "plain" and seed % 8 == 4
        options = ordered if seed % 3 == 2 else {}
        found.append(Job(f"random {seed}", random_schedule(seed), model, options, uneven))
    halves = made("interleaved-zb", 2, 6, "pipe-add-optimizer," + RECOMPUTED_AND_MOVED)
    for model in (*MODELS, "counted"):
        found.append(Job(f"{model}, split, recomputed, moved, stepped", halves, model))
    found.append(Job("mixed", made("greedy", 4, 9, paths=MIXED)))
    mixed = made("greedy", 4, 9, "pipe-add-optimizer{all-reduce=eager}", paths=MIXED)
    found.append(Job("mixed, stepped", mixed, steps_inside=True))
    found.append(Job("chimera, recomputed", made("chimera", 4, 8, "pipe-add-recompute")))
    found.append(Job("offloaded on 8", made("zb-h1", 8, 16, "pipe-add-offload")))
    for name, transform in {"": "", ", recomputed and moved": RECOMPUTED_AND_MOVED}.items():
        again = made("interleaved-1f1b", 2, 6, transform)
        found.append(Job(f"dropped{name}", again, "dropped", compares=False))
    return {job.name: job for job in found}


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


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    return train(list(jobs().values()), tmp_path_factory.mktemp("wide"))


NAMES = [name for name, job in jobs().items() if job.compares]
PLAIN = [name for name in NAMES if jobs()[name].model == "plain"]
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


def test_dropout_is_recomputed_as_it_was(trained: dict[str, list[Result]]) -> None:
    whole, again = trained["dropped"], trained["dropped, recomputed and moved"]
    assert [result.trace for result in again] == [result.trace for result in whole]
    assert any(result.gradients > 1e-3 for result in whole)  # Dropout has an effect.


def test_schedules_are_what_their_names_say() -> None:
    def phases(name: str) -> set[str]:
        return phases_of(jobs()[name].schedule)

    assert set("FIWRDUO") <= phases("plain, split, recomputed, moved, stepped")
    assert set("RDU") <= phases("dropped, recomputed and moved")
    kinds = [jobs()[f"random {seed}"].schedule for seed in SEEDS]
    assert any(len(schedule.paths) == 2 for schedule in kinds)
    paths = [path.workers for schedule in kinds for path in schedule.paths]
    # Stages that follow each other on one worker.
    assert any(a == b for path in paths for a, b in zip(path, path[1:], strict=False))
