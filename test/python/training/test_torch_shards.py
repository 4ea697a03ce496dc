"""The runtime trains with a head in shards what it trains with a whole one (docs/Torch.md, "A head
in shards").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from pipesched import generate  # noqa: E402
from pipesched.torch import PipelineError, PipelineRuntime, split_sequential  # noqa: E402
from pipesched.torch.vocabulary import take_head  # noqa: E402
from shard_cases import (  # noqa: E402
    cells_and_options,
    check,
    made,
    of_four_ranks,
    of_two_ranks,
    spread,
)
from shard_ranks import TOKENS, ShardJob, loss_of, model_of  # noqa: E402


def test_gradients_are_those_of_a_whole_head(tmp_path: Path) -> None:
    check(of_two_ranks(embedding=False), tmp_path)


def test_four_ranks(tmp_path: Path) -> None:
    check(of_four_ranks(embedding=False), tmp_path)


def test_other_cells_and_options(tmp_path: Path) -> None:
    second = made("vocab-1f1b", 2, vocabulary="vocab-2")
    two_paths = generate("chimera", workers=2, microbatches=4)
    jobs = [
        *cells_and_options(embedding=False),
        ShardJob("ignored", second, ignored=7),
        ShardJob("large logits", second, factor=1e4),
        ShardJob("two paths", spread(two_paths, "vocab-1", embedding=False)),
    ]
    check(jobs, tmp_path)


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
def test_what_shards_would_not_compute_is_refused(text: str, one_rank: None) -> None:
    with pytest.raises(PipelineError, match=text):
        step(ShardJob("refused", made("vocab-1f1b", 1), **REFUSED[text]))


def test_cells_and_heads_come_together(one_rank: None) -> None:
    with pytest.raises(PipelineError, match="the schedule has no S and T cells"):
        step(ShardJob("whole", made("1f1b", 1)))
    shards = ShardJob("spread", made("vocab-1f1b", 1))
    with pytest.raises(PipelineError, match=r"need the shard of the head .*take_head\(model\)"):
        step(shards, vocabulary=None)
    with pytest.raises(PipelineError, match="`vocabulary` is a Linear; wanted a VocabularyHead"):
        step(shards, vocabulary=torch.nn.Linear(2, 3))
    with pytest.raises(PipelineError, match="has entries 0 to 20, but rank 0 of 1 has .* 0 to 24"):
        head = take_head(model_of(shards))
        head.rows = slice(0, 20)
        step(shards, vocabulary=head)


def test_what_is_no_head_is_not_taken(one_rank: None) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    with pytest.raises(PipelineError, match="the last child of the model has no nn.Linear"):
        take_head(model)
    with pytest.raises(PipelineError, match="the head '1' is a ReLU in the model; wanted an nn.Li"):
        take_head(model, name="1")
    with pytest.raises(PipelineError, match="the head 'x' is nothing in the model"):
        take_head(model, name="x")
    assert take_head(model, name="0").rows == slice(0, 3)
