"""The runtime trains with a head in shards what it trains with a whole one (docs/Torch.md, "A head
in shards").
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch.distributed as dist  # noqa: E402
from pipesched import Schedule, generate  # noqa: E402
from pipesched.torch import PipelineError, PipelineRuntime, split_sequential  # noqa: E402
from pipesched.torch.vocabulary import take_head  # noqa: E402
from runtime_runs import run  # noqa: E402
from shard_ranks import TOKENS, ShardJob, loss_of, model_of  # noqa: E402

NEAR = 1e-12


def made(family: str, workers: int, passes: str = "", **options: Any) -> Schedule:
    schedule = generate(family, workers=workers, microbatches=5, **options)
    return schedule.transform(passes) if passes else schedule


def even(family: str, workers: int) -> Schedule:
    return generate(family, workers=workers, microbatches=4).transform("pipe-spread-vocabulary")


def tables(workers: int) -> dict[str, Schedule]:
    spread = "pipe-spread-vocabulary{vocabulary=%s}"
    return {
        **{
            f"{family} {kind}": made(family, workers, vocabulary=kind)
            for family in ("vocab-1f1b", "vocab-v-half")
            for kind in ("vocab-1", "vocab-2")
        },
        "interlaced": made("interlaced-1f1b", workers),
        **{f"zb-v {kind}": made("zb-v", workers, spread % kind) for kind in ("vocab-1", "vocab-2")},
    }


def check(found: dict[str, list[list[float]]]) -> None:
    for name, ranks in found.items():
        for errors in ranks:
            assert max(errors) < NEAR, (name, errors)


def test_gradients_are_those_of_a_whole_head(tmp_path: Path) -> None:
    jobs = []
    for name, schedule in tables(2).items():
        jobs.append(ShardJob(name, schedule))
        jobs.append(ShardJob(f"{name} tied", schedule, kind="tied", entries=23, loss="none"))
    check(run(jobs, tmp_path, "shard_ranks.py"))


def test_four_ranks(tmp_path: Path) -> None:
    kinds = "plain", "tied"
    pairs = enumerate(tables(4).items())
    jobs = [ShardJob(name, schedule, 27, kinds[i % 2]) for i, (name, schedule) in pairs]
    spread = made("vocab-1f1b", 2, "pipe-add-optimizer", vocabulary="vocab-2")
    for kind in kinds:
        jobs.append(ShardJob(f"beside {kind}", made("vocab-1f1b", 2), kind=kind, pipelines=2))
        added: dict[str, Any] = {"kind": kind, "pipelines": 2, "accumulated": True}
        jobs.append(ShardJob(f"beside, added up, {kind}", made("vocab-1f1b", 2), **added))
        stepped: dict[str, Any] = {"kind": kind, "pipelines": 2, "steps_inside": True}
        jobs.append(ShardJob(f"beside, stepped, {kind}", spread, **stepped))
    check(run(jobs, tmp_path, "shard_ranks.py"))


def test_other_cells_and_options(tmp_path: Path) -> None:
    jobs = [
        ShardJob("biased", made("vocab-1f1b", 2), kind="biased", entries=13),
        ShardJob("a shard without entries", made("vocab-1f1b", 3), entries=8),
        ShardJob("ignored", made("vocab-1f1b", 2, vocabulary="vocab-2"), ignored=7),
        ShardJob("large logits", made("vocab-1f1b", 2, vocabulary="vocab-2"), factor=1e4),
        ShardJob("frozen", made("interlaced-1f1b", 2), kind="frozen"),
        ShardJob("recomputed", made("vocab-1f1b", 2, "pipe-add-recompute")),
        ShardJob("offloaded", made("vocab-1f1b", 2, "pipe-add-offload{amount=half}")),
        ShardJob("stepped", made("vocab-1f1b", 2, "pipe-add-optimizer"), steps_inside=True),
        ShardJob(
            "stepped and tied",
            made("vocab-1f1b", 2, "pipe-add-optimizer", vocabulary="vocab-2"),
            kind="tied",
            steps_inside=True,
        ),
        ShardJob("clipped", made("vocab-1f1b", 2), clipped=True),
        ShardJob("clipped and tied", made("vocab-1f1b", 2), kind="tied", clipped=True),
        ShardJob("added up", made("vocab-1f1b", 2), kind="tied", accumulated=True),
        ShardJob("in order", made("vocab-v-half", 2), options={"messages": "ordered"}),
        ShardJob("slices", made("seq1f1b", 2, "pipe-spread-vocabulary", slices=3)),
        ShardJob("two paths", even("chimera", 2)),
    ]
    check(run(jobs, tmp_path, "shard_ranks.py"))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process."""
    place = f"file://{tmp_path / 'store'}"
    dist.init_process_group("gloo", init_method=place, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def step(job: ShardJob, **options: Any) -> None:
    """Takes a step of a job with one rank."""
    model = model_of(job)
    head = take_head(model, ignored=job.ignored)
    stages = split_sequential(model, job.schedule)
    given = {"vocabulary": head, **options}
    runtime = PipelineRuntime(job.schedule, stages, loss_of(job), timeout=60, **given)
    try:
        runtime.step(*torch.arange(10 * TOKENS).remainder(job.entries).view(2, 5, -1).unbind(0))
    finally:
        runtime.close()


REFUSED: dict[str, dict[str, Any]] = {
    "computes something with the logits": {"kind": "scaled"},
    "the loss is not the mean cross-entropy": {"loss": "summed"},
    "give `ignored` to the head": {"loss": "ignoring"},
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_shards_would_not_compute_is_refused(text: str, alone: None) -> None:
    with pytest.raises(PipelineError, match=text):
        step(ShardJob("refused", made("vocab-1f1b", 1), **REFUSED[text]))


def test_cells_and_heads_come_together(alone: None) -> None:
    with pytest.raises(PipelineError, match="the schedule has no S and T cells"):
        step(ShardJob("whole", made("1f1b", 1)))
    spread = ShardJob("spread", made("vocab-1f1b", 1))
    with pytest.raises(PipelineError, match=r"need the shard of the head .*take_head\(model\)"):
        step(spread, vocabulary=None)
    with pytest.raises(PipelineError, match="`vocabulary` is a Linear; wanted a VocabularyHead"):
        step(spread, vocabulary=torch.nn.Linear(2, 3))
    with pytest.raises(PipelineError, match="has entries 0 to 20, but rank 0 of 1 has .* 0 to 24"):
        head = take_head(model_of(spread))
        head.rows = slice(0, 20)
        step(spread, vocabulary=head)


def test_what_is_no_head_is_not_taken(alone: None) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    with pytest.raises(PipelineError, match="the last child of the model has no nn.Linear"):
        take_head(model)
    with pytest.raises(PipelineError, match="the head '1' is a ReLU in the model; wanted an nn.Li"):
        take_head(model, name="1")
    with pytest.raises(PipelineError, match="the head 'x' is nothing in the model"):
        take_head(model, name="x")
    assert take_head(model, name="0").rows == slice(0, 3)
