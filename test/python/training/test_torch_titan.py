"""torchtitan trains by schedules that PipeSched writes as its model does without a pipeline."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pipesched import generate
from runtime_runs import run

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torchtitan") is None,
    reason="needs torchtitan: pip install 'pipesched[test]'",
)

RANKS, MICROBATCHES, LENGTH = 4, 8, 16
TOKENS = MICROBATCHES * LENGTH
LOOP, VEE = "Interleaved1F1B", "ZBVZeroBubble"
AFTER_I = {"gradient_after": "I"}
"""PyTorch's runtime sends the gradient of an input as soon as I has computed it."""
TABLES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "1F1B", {}) for name in "gpipe 1f1b eager-1f1b zb-h1 zb-h2 combined-1f1b".split()),
    ("greedy", "1F1B", AFTER_I),
    *((name, LOOP, {}) for name in "interleaved-1f1b interleaved-zb looped-bfs".split()),
    ("mpmd-circular", LOOP, {}),
    ("combined-1f1b", LOOP, {"chunks": 2}),
    *((name, LOOP, {"chunks": 4}) for name in "interleaved-1f1b interleaved-zb looped-bfs".split()),
    *((name, VEE, {}) for name in "zb-v v-half v-min zb-auto dualpipe-v".split()),
    ("hanayo", VEE, AFTER_I),
]
"""Families, and the placement of stages that `pipeline_parallel_schedule` gives for each."""


@dataclass(frozen=True)
class TitanJob:
    """A schedule in a file, and its value of `pipeline_parallel_schedule`."""

    name: str
    file: str
    kind: str
    layers: int | None = None
    """The layers of a stage, unless torchtitan chooses its two stages per rank."""
    ranks: int = RANKS
    is_own: bool = False
    """Whether the loss is torchtitan's own, a sum over tokens."""
    has_trainer: bool = False
    """Whether torchtitan's own Trainer runs the steps."""


def jobs_in(folder: Path) -> Iterator[TitanJob]:
    for number, (family, kind, options) in enumerate(TABLES):
        file = folder / f"{number}-{family}.csv"
        generate(family, workers=RANKS, microbatches=MICROBATCHES, **options).save(file)
        yield TitanJob(file.stem, str(file), kind, 1 if options.get("chunks") == 4 else None)
    whole = generate("1f1b", workers=RANKS, microbatches=MICROBATCHES)
    split = folder / "split.csv"
    whole.transform("pipe-split-backward{gradient-after=I}").save(split)
    yield TitanJob("split", str(split), "1F1B")
    yield TitanJob("sum", str(split), "1F1B", is_own=True)
    vee = folder / "vee.csv"
    generate("zb-v", workers=RANKS, microbatches=MICROBATCHES).save(vee)
    yield TitanJob("Trainer", str(vee), VEE, is_own=True, has_trainer=True)
    yield TitanJob("Trainer without a file", "", VEE, is_own=True, has_trainer=True)
    yield TitanJob("Trainer with a mean", str(vee), VEE, has_trainer=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("titan")
    return run(list(jobs_in(folder)), folder, "titan_ranks")


def test_torchtitan_trains_by_a_csv(found: dict[str, Any]) -> None:
    trained = {name: ranks for name, ranks in found.items() if not name.startswith("Trainer")}
    assert len(trained) == 23
    for name, ranks in trained.items():
        for losses, gradients, ratio in ranks:
            assert losses <= 1e-9 and gradients <= 1e-9, name
            # With its own loss the gradients belong to the sum over all tokens.
            assert ratio == pytest.approx(TOKENS if name == "sum" else 1, rel=1e-4), name


def test_the_trainer_trains_by_a_csv(found: dict[str, Any]) -> None:
    assert found["Trainer"] == found["Trainer without a file"]
    # The first rank has both ends of the V.
    (loss, norm), *_ = found["Trainer"][0]
    (mean_loss, mean_norm), *_ = found["Trainer with a mean"][0]
    print(f"norm {norm:.4f} with torchtitan's loss, {mean_norm:.4f} with the mean over tokens")
    assert norm == pytest.approx(TOKENS * mean_norm, rel=1e-5)
    assert loss == pytest.approx(TOKENS * mean_loss, rel=1e-5)
