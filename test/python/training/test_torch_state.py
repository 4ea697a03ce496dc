"""State of pipelines in PyTorch: any placement loads the state that another one saved, with more or
fewer ranks, with the head in shards or whole, or without a pipeline; and training continues as if
it had never stopped.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from pipesched import generate
from runtime_runs import run

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from state_ranks import Part, Saved

PRECISION, OF_VOCABULARY = 1e-12, 1e-11
EARLY = "pipe-add-optimizer{all-reduce=eager}"
SPREAD = "pipe-spread-vocabulary"


def part(family: str, workers: int, passes: str = "", **more: Any) -> Part:
    kinds = {name: more.pop(name) for name in ("vocabulary", "embedding") if name in more}
    schedule = generate(family, workers=workers, microbatches=4, **kinds)
    return Part(schedule.transform(passes) if passes else schedule, **more)


@cache
def parts() -> dict[str, Part | None]:
    looked_up = f"{SPREAD}{{embedding=true}},pipe-add-optimizer"
    return {
        "the model": None,
        "1f1b on 4": part("1f1b", 4),
        "1f1b on 2": part("1f1b", 2, sizes=(1, 3)),
        "zb-v on 2": part("zb-v", 2),
        "zb-v on 2 with O": part("zb-v", 2, EARLY, steps_inside=True),
        "chimera on 4": part("chimera", 4),
        "chimera on 2 with O": part("chimera", 2, EARLY, steps_inside=True),
        "2 x zb-v, sums": part("zb-v", 2, how="plain"),
        "2 x 1f1b, ddp": part("1f1b", 2, how="ddp"),
        "2 x zb-v, shards": part("zb-v", 2, how="both"),
        "2 x chimera, shards with O": part("chimera", 2, EARLY, steps_inside=True, how="stages"),
        "heads on 2": part("vocab-1f1b", 2),
        "heads on 3": part("vocab-1f1b", 3, vocabulary="vocab-2", sizes=(1, 2, 1)),
        "heads on 4": part("interlaced-1f1b", 4),
        "heads on 2, O": part("zb-v", 2, f"{SPREAD},pipe-add-optimizer", steps_inside=True),
        "2 x heads": part("vocab-1f1b", 2, how="plain"),
        "lookups on 2": part("vocab-1f1b", 2, embedding=True),
        "lookups on 3": part("interlaced-1f1b", 3, embedding=True, sizes=(1, 2, 1)),
        "lookups on 4": part("vocab-1f1b", 4, embedding=True, vocabulary="vocab-2"),
        "lookups on 2, O": part("zb-v", 2, looked_up, steps_inside=True),
        "2 x lookups": part("vocab-1f1b", 2, embedding=True, how="plain"),
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
VOCABULARY_BY_FILES = [
    ("heads on 2", "heads on 4", "biased"),
    ("heads on 4", "heads on 3", "tied"),
    ("heads on 3", "the model", "tied"),
    ("the model", "heads on 2", "tied"),
    ("heads on 2", "1f1b on 4", "plain"),
    ("1f1b on 4", "heads on 3", "biased"),
    ("heads on 2, O", "2 x heads", "plain"),
    ("2 x heads", "heads on 2, O", "tied"),
    ("the model", "1f1b on 4", "tied"),
    ("lookups on 2", "lookups on 3", "plain"),
    ("lookups on 4", "lookups on 2", "tied"),
    ("the model", "lookups on 3", "tied"),
    ("lookups on 3", "the model", "tied"),
    ("lookups on 2", "heads on 3", "tied"),
    ("heads on 4", "lookups on 2", "biased"),
    ("lookups on 2, O", "2 x lookups", "tied"),
    ("2 x lookups", "lookups on 2, O", "plain"),
]
VOCABULARY_BY_HAND = [
    ("heads on 3", "the model", "tied"),
    ("the model", "heads on 4", "biased"),
    ("heads on 4", "heads on 2, O", "plain"),
    ("lookups on 3", "the model", "tied"),
    ("lookups on 2", "lookups on 4", "plain"),
    ("the model", "lookups on 2, O", "tied"),
]


@cache
def jobs() -> dict[str, Saved]:
    found = []
    for pairs, hand in ((BY_FILES, ""), (BY_HAND, " by hand")):
        for first, second in pairs:
            pipelines = 2 if "2 x" in first + second else 1
            both = parts()[first], parts()[second]
            name = f"{first} -> {second}{hand}"
            found.append(Saved(name, *both, by_hand=bool(hand), pipelines=pipelines))
    for table, hand in ((VOCABULARY_BY_FILES, ""), (VOCABULARY_BY_HAND, " by hand")):
        for number, (first, second, kind) in enumerate(table):
            both = parts()[first], parts()[second]
            name = f"{kind}: {first} -> {second}{hand}"
            found.append(Saved(name, *both, kind, bool(hand), entries=(27, 10)[number % 2]))
    one, other = parts()["zb-v on 2"], parts()["1f1b on 4"]
    found.append(Saved("unused parameters", one, other, "shared"))
    found.append(Saved("buffers", one, other, "counted"))
    return {each.name: each for each in found}


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    return run(list(jobs().values()), tmp_path_factory.mktemp("state"), "state_ranks")


@pytest.mark.parametrize("name", jobs())
def test_training_goes_on(differences: dict[str, list[list[float]]], name: str) -> None:
    limit = OF_VOCABULARY if jobs()[name].entries else PRECISION
    for found in differences[name]:
        assert found and max(found) <= limit, found
