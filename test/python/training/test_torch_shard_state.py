"""Any placement of a model with a head in shards loads the state that another one saved, with more
or fewer ranks, with the whole head, or without a pipeline; and training continues as if it had
never stopped.
"""

from __future__ import annotations

from functools import cache

import pytest
from pipesched import generate
from runtime_runs import run

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from shard_state_ranks import Placing, Saved

PRECISION = 1e-11


def placing(family: str, workers: int, passes: str = "", **more: object) -> Placing:
    kinds = {name: more.pop(name) for name in ("vocabulary", "embedding") if name in more}
    schedule = generate(family, workers=workers, microbatches=4, **kinds)  # type: ignore[arg-type]
    schedule = schedule.transform(passes) if passes else schedule
    return Placing(schedule, **more)  # type: ignore[arg-type]


@cache
def places() -> dict[str, Placing | None]:
    spread = "pipe-spread-vocabulary"
    stepped = f"{spread},pipe-add-optimizer"
    looked_up = f"{spread}{{embedding=true}},pipe-add-optimizer"
    return {
        "the model": None,
        "shards on 2": placing("vocab-1f1b", 2),
        "shards on 3": placing("vocab-1f1b", 3, vocabulary="vocab-2", sizes=(1, 2, 1)),
        "shards on 4": placing("interlaced-1f1b", 4),
        "shards on 2, O": placing("zb-v", 2, stepped, steps_inside=True),
        "2 x shards": placing("vocab-1f1b", 2, pipelines=2),
        "whole on 4": placing("1f1b", 4),
        "lookups on 2": placing("vocab-1f1b", 2, embedding=True),
        "lookups on 3": placing("interlaced-1f1b", 3, embedding=True, sizes=(1, 2, 1)),
        "lookups on 4": placing("vocab-1f1b", 4, embedding=True, vocabulary="vocab-2"),
        "lookups on 2, O": placing("zb-v", 2, looked_up, steps_inside=True),
        "2 x lookups": placing("vocab-1f1b", 2, embedding=True, pipelines=2),
    }


PAIRS = [
    ("shards on 2", "shards on 4", "biased"),
    ("shards on 4", "shards on 3", "tied"),
    ("shards on 3", "the model", "tied"),
    ("the model", "shards on 2", "tied"),
    ("shards on 2", "whole on 4", "plain"),
    ("whole on 4", "shards on 3", "biased"),
    ("shards on 2, O", "2 x shards", "plain"),
    ("2 x shards", "shards on 2, O", "tied"),
    ("the model", "whole on 4", "tied"),
    ("lookups on 2", "lookups on 3", "plain"),
    ("lookups on 4", "lookups on 2", "tied"),
    ("the model", "lookups on 3", "tied"),
    ("lookups on 3", "the model", "tied"),
    ("lookups on 2", "shards on 3", "tied"),
    ("shards on 4", "lookups on 2", "biased"),
    ("lookups on 2, O", "2 x lookups", "tied"),
    ("2 x lookups", "lookups on 2, O", "plain"),
]
BY_HAND = [
    ("shards on 3", "the model", "tied"),
    ("the model", "shards on 4", "biased"),
    ("shards on 4", "shards on 2, O", "plain"),
    ("lookups on 3", "the model", "tied"),
    ("lookups on 2", "lookups on 4", "plain"),
    ("the model", "lookups on 2, O", "tied"),
]


@cache
def jobs() -> dict[str, Saved]:
    found = {}
    for pairs, by_hand in ((PAIRS, False), (BY_HAND, True)):
        for number, (first, second, kind) in enumerate(pairs):
            name = f"{kind}: {first} -> {second}{', by hand' if by_hand else ''}"
            entries = (27, 10)[number % 2]
            found[name] = Saved(name, places()[first], places()[second], kind, entries, by_hand)
    return found


@pytest.fixture(scope="module")
def differences(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    return run(list(jobs().values()), tmp_path_factory.mktemp("shards"), "shard_state_ranks.py")


@pytest.mark.parametrize("name", jobs())
def test_training_goes_on(differences: dict[str, list[list[float]]], name: str) -> None:
    for found in differences[name]:
        assert found and max(found) <= PRECISION, found
