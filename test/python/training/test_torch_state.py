"""State of pipelines in PyTorch: any placement loads the state that another one saved, and training
continues as if it had never stopped. And how models are divided by times.
"""

from __future__ import annotations

from functools import cache

import pytest
from pipesched import Schedule, generate
from runtime_runs import run
from state_runs import Part, Saved

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

PRECISION = 1e-12


def schedule(family: str, workers: int, transform: str = "") -> Schedule:
    made = generate(family, workers=workers, microbatches=4)
    return made.transform(transform) if transform else made


@cache
def parts() -> dict[str, Part | None]:
    early = "pipe-add-optimizer{all-reduce=eager}"
    return {
        "the model": None,
        "1f1b on 4": Part(schedule("1f1b", 4)),
        "1f1b on 2": Part(schedule("1f1b", 2), sizes=(1, 3)),
        "zb-v on 2": Part(schedule("zb-v", 2)),
        "zb-v on 2 with O": Part(schedule("zb-v", 2, early), steps_inside=True),
        "chimera on 4": Part(schedule("chimera", 4)),
        "chimera on 2 with O": Part(schedule("chimera", 2, early), steps_inside=True),
        "2 x zb-v, sums": Part(schedule("zb-v", 2), how="plain"),
        "2 x 1f1b, ddp": Part(schedule("1f1b", 2), how="ddp"),
        "2 x zb-v, shards": Part(schedule("zb-v", 2), how="both"),
        "2 x chimera, shards with O": Part(
            schedule("chimera", 2, early), steps_inside=True, how="stages"
        ),
    }


BY_FILES = [
    ("zb-v on 2", "1f1b on 4"),
    ("1f1b on 4", "chimera on 4"),
    ("chimera on 4", "1f1b on 2"),
    ("1f1b on 2", "zb-v on 2 with O"),
    ("zb-v on 2 with O", "chimera on 2 with O"),
    ("chimera on 2 with O", "the model"),
    ("the model", "chimera on 4"),
    ("2 x zb-v, sums", "2 x chimera, shards with O"),
    ("2 x chimera, shards with O", "2 x 1f1b, ddp"),
    ("2 x 1f1b, ddp", "2 x zb-v, shards"),
    ("2 x zb-v, shards", "the model"),
    ("the model", "2 x zb-v, shards"),
]
BY_HAND = [
    ("chimera on 4", "the model"),
    ("the model", "zb-v on 2"),
    ("2 x zb-v, shards", "2 x chimera, shards with O"),
    ("zb-v on 2 with O", "1f1b on 4"),
]


@cache
def jobs() -> dict[str, Saved]:
    found = []
    for pairs, by_hand in ((BY_FILES, False), (BY_HAND, True)):
        for first, second in pairs:
            pipelines = 2 if "2 x" in first + second else 1
            name = f"{first} -> {second}{' by hand' if by_hand else ''}"
            found.append(Saved(name, parts()[first], parts()[second], "plain", by_hand, pipelines))
    one, other = parts()["zb-v on 2"], parts()["1f1b on 4"]
    found.append(Saved("unused parameters", one, other, "shared"))
    found.append(Saved("buffers", one, other, "counted"))
    return {each.name: each for each in found}


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    return run(list(jobs().values()), tmp_path_factory.mktemp("state"), "state_ranks.py")


@pytest.mark.parametrize("name", jobs())
def test_training_goes_on(differences: dict[str, list[list[float]]], name: str) -> None:
    second = jobs()[name].second
    for rank, found in enumerate(differences[name]):
        is_in = second is None or bool(second.how) or rank < second.schedule.workers
        assert bool(found) == is_in
        assert all(difference <= PRECISION for difference in found), max(found)
