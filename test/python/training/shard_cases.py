"""Jobs of `shard_ranks.py` that a head in shards and an embedding in shards have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipesched import Schedule, generate
from runtime_runs import run
from shard_ranks import ShardJob

NEAR = 1e-12
KINDS = ("vocab-1", "vocab-2")


def spread(schedule: Schedule, vocabulary: str, embedding: bool) -> Schedule:
    """Any schedule, with S and T, and with E and V if the embedding is in shards too."""
    lookups = "embedding=true " if embedding else ""
    return schedule.transform(f"pipe-spread-vocabulary{{{lookups}vocabulary={vocabulary}}}")


def made(
    family: str, workers: int, passes: str = "", embedding: bool = False, **options: Any
) -> Schedule:
    """A family that spreads a vocabulary, and passes behind it."""
    if embedding:
        options["embedding"] = True
    schedule = generate(family, workers=workers, microbatches=5, **options)
    return schedule.transform(passes) if passes else schedule


def tables(workers: int, embedding: bool) -> dict[str, Schedule]:
    """All ways to spread a vocabulary."""
    own = {
        f"{family} {kind}": made(family, workers, embedding=embedding, vocabulary=kind)
        for family in ("vocab-1f1b", "vocab-v-half")
        for kind in KINDS
    }
    plain = generate("zb-v", workers=workers, microbatches=5)
    return {
        **own,
        "interlaced": made("interlaced-1f1b", workers, embedding=embedding),
        **{f"zb-v {kind}": spread(plain, kind, embedding) for kind in KINDS},
    }


def of_two_ranks(embedding: bool) -> list[ShardJob]:
    """Each of them, with a head of its own and with a tied one."""
    jobs = []
    for name, schedule in tables(2, embedding).items():
        jobs.append(ShardJob(name, schedule))
        jobs.append(ShardJob(f"{name} tied", schedule, kind="tied", entries=23, loss="none"))
    return jobs


def of_four_ranks(embedding: bool) -> list[ShardJob]:
    """Each of them once, and pipelines beside each other."""
    kinds = "plain", "tied"
    pairs = enumerate(tables(4, embedding).items())
    jobs = [ShardJob(name, schedule, 27, kinds[i % 2]) for i, (name, schedule) in pairs]
    plain = made("vocab-1f1b", 2, embedding=embedding)
    stepping = made("vocab-1f1b", 2, "pipe-add-optimizer", embedding, vocabulary="vocab-2")
    for kind in kinds:
        beside: dict[str, Any] = {"kind": kind, "pipelines": 2}
        jobs.append(ShardJob(f"beside {kind}", plain, **beside))
        jobs.append(ShardJob(f"beside, added up, {kind}", plain, **beside, accumulated=True))
        jobs.append(ShardJob(f"beside, stepped, {kind}", stepping, **beside, steps_inside=True))
    return jobs


def cells_and_options(embedding: bool) -> list[ShardJob]:
    """Other cells beside those of the shards, and options of the runtime."""
    plain = made("vocab-1f1b", 2, embedding=embedding)
    stepping = made("vocab-1f1b", 2, "pipe-add-optimizer", embedding)
    second = made("vocab-1f1b", 2, "pipe-add-optimizer", embedding, vocabulary="vocab-2")
    offloading = made("vocab-1f1b", 2, "pipe-add-offload{amount=half}", embedding)
    halves = made("vocab-v-half", 2, "", embedding)
    sliced = generate("seq1f1b", workers=2, microbatches=5, slices=3)
    return [
        ShardJob("biased", plain, kind="biased", entries=13),
        ShardJob("a shard without entries", made("vocab-1f1b", 3, "", embedding), entries=8),
        ShardJob("a frozen head", made("interlaced-1f1b", 2, "", embedding), kind="frozen"),
        ShardJob("recomputed", made("vocab-1f1b", 2, "pipe-add-recompute", embedding)),
        ShardJob("offloaded", offloading),
        ShardJob("stepped", stepping, steps_inside=True),
        ShardJob("stepped and tied", second, kind="tied", steps_inside=True),
        ShardJob("clipped", plain, clipped=True),
        ShardJob("clipped and tied", plain, kind="tied", clipped=True),
        ShardJob("added up", plain, kind="tied", accumulated=True),
        ShardJob("in order", halves, options={"messages": "ordered"}),
        ShardJob("slices", spread(sliced, "vocab-1", embedding)),
    ]


def check(jobs: list[ShardJob], folder: Path) -> None:
    """Runs the jobs, and holds what each rank found to that of the whole model."""
    for name, ranks in run(jobs, folder, "shard_ranks.py").items():
        for errors in ranks:
            assert max(errors) < NEAR, (name, errors)
