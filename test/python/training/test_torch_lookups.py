"""The runtime trains with an embedding in shards what it trains with a whole one (docs/Torch.md,
"An embedding in shards").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import shard_cases  # noqa: E402
from pipesched import Schedule, generate  # noqa: E402
from pipesched.torch import PipelineError, PipelineRuntime, split_sequential  # noqa: E402
from pipesched.torch.vocabulary import take_head, take_vocabulary  # noqa: E402
from shard_cases import (  # noqa: E402
    cells_and_options,
    check,
    of_four_ranks,
    of_two_ranks,
    spread,
)
from shard_ranks import SAMPLES, TOKENS, ShardJob, loss_of, model_of  # noqa: E402
from torch import nn  # noqa: E402

def made(family: str, workers: int, passes: str = "", **options: Any) -> Schedule:
    return shard_cases.made(family, workers, passes, embedding=True, **options)


def test_gradients_are_those_of_a_whole_embedding(tmp_path: Path) -> None:
    check(of_two_ranks(embedding=True), tmp_path)


def test_four_ranks(tmp_path: Path) -> None:
    check(of_four_ranks(embedding=True), tmp_path)


def test_other_cells_and_options(tmp_path: Path) -> None:
    plain, two_paths = made("vocab-1f1b", 2), generate("chimera", workers=2, microbatches=5)
    jobs = [
        *cells_and_options(embedding=True),
        ShardJob("padded", plain, kind="padded"),
        ShardJob("a frozen embedding", plain, kind="still"),
        ShardJob("one rank", made("vocab-1f1b", 1), kind="tied"),
        ShardJob("two paths", spread(two_paths, "vocab-2", embedding=True)),
    ]
    check(jobs, tmp_path)


def runtime_of(schedule: Schedule, **given: Any) -> PipelineRuntime:
    job = ShardJob("alone", schedule)
    model = model_of(job)
    head, embedding = take_vocabulary(model)
    options: dict[str, Any] = {"vocabulary": head, "embedding": embedding, **given}
    return PipelineRuntime(schedule, split_sequential(model, schedule), loss_of(job), **options)


@pytest.mark.usefixtures("one_rank")
def test_refusals_say_what_is_missing() -> None:
    schedule = made("vocab-1f1b", 1)
    without = generate("vocab-1f1b", workers=1, microbatches=5)
    with pytest.raises(PipelineError, match="has E and V cells, which need the shard of the emb"):
        runtime_of(schedule, embedding=None)
    with pytest.raises(PipelineError, match="`embedding` is given, but the schedule has no E and"):
        runtime_of(without)
    with pytest.raises(PipelineError, match="`embedding` is a Linear; wanted a VocabularyEmb"):
        runtime_of(schedule, embedding=nn.Linear(2, 2))
    rows = "[0E0 0A0 0F0 0B0 0C0 0V0]"
    text = f"pipe.schedule @s workers 1 microbatches 1 {{ path on [0] worker 0 runs {rows} }}"
    with pytest.raises(PipelineError, match="no S and T: this runtime runs an embedding in shards"):
        runtime_of(Schedule.from_text(text), vocabulary=None)


@pytest.mark.usefixtures("one_rank")
def test_inputs_are_numbers_of_entries() -> None:
    schedule = made("vocab-1f1b", 1)
    targets = torch.zeros((5, SAMPLES, TOKENS), dtype=torch.long)
    for inputs, text in (
        (None, "has a shard of the embedding, and needs `inputs`, as all ranks do"),
        ([torch.zeros(SAMPLES, TOKENS)] * 5, "has 0 tensors of whole numbers"),
        ([torch.full((SAMPLES, TOKENS), 24)] * 5, "token 0 of microbatch 0 is 24, outside of the"),
    ):
        runtime = runtime_of(schedule)
        with pytest.raises(PipelineError, match=text):
            runtime.step(inputs, list(targets))
        runtime.close()


class Shifted(nn.Module):
    """Looks up other numbers than those of its input."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.inner = embedding

    def forward(self, tokens: Any) -> Any:
        return self.inner((tokens + 1) % 24)


@pytest.mark.usefixtures("one_rank")
def test_models_that_look_up_otherwise_are_refused() -> None:
    schedule = made("vocab-1f1b", 1)
    job = ShardJob("alone", schedule)
    model: Any = model_of(job)
    model[0][0] = Shifted(model[0][0])
    head, embedding = take_vocabulary(model)
    assert embedding.name == "0.0.inner"
    stages = split_sequential(model, schedule)
    runtime = PipelineRuntime(
        schedule, stages, loss_of(job), vocabulary=head, embedding=embedding
    )
    batch = torch.zeros((2, 5, SAMPLES, TOKENS), dtype=torch.long)
    with pytest.raises(PipelineError, match="looks up other numbers"):
        runtime.step(list(batch[0]), list(batch[1]))
    runtime.close()


@pytest.mark.usefixtures("one_rank")
def test_embeddings_that_shards_cannot_be() -> None:
    def taken(embedding: nn.Module, *more: nn.Module) -> Any:
        model = nn.Sequential(nn.Sequential(embedding), *more, nn.Linear(6, 24, bias=False))
        return take_vocabulary(model)

    with pytest.raises(PipelineError, match="has max_norm, scale_grad_by_freq or sparse"):
        taken(nn.Embedding(24, 6, sparse=True))
    with pytest.raises(PipelineError, match="has 20 entries and the head '1' 24"):
        taken(nn.Embedding(20, 6))
    with pytest.raises(PipelineError, match=r"first child of the model has no nn\.Embedding"):
        taken(nn.Identity())
    embedding, again = nn.Embedding(24, 6), nn.Embedding(24, 6)
    again.weight = embedding.weight
    with pytest.raises(PipelineError, match="is used by the rest of the model too"):
        taken(embedding, again)


@pytest.mark.usefixtures("one_rank")
def test_a_whole_embedding_beside_a_tied_head_is_refused() -> None:
    """An untied shard beside a head that is tied to the whole."""
    schedule = made("vocab-1f1b", 1)
    model = model_of(ShardJob("alone", schedule, kind="tied"))
    head = take_head(model)
    _, other = take_vocabulary(model_of(ShardJob("alone", schedule)))
    with pytest.raises(PipelineError, match="head is tied to a whole embedding, and `embedding`"):
        PipelineRuntime(
            schedule, split_sequential(model, schedule), vocabulary=head, embedding=other
        )
