"""Training with a head, or also an embedding, in shards equals training with whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pipesched import Schedule, generate
from runtime_runs import run

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

from pipesched.torch import PipelineError, PipelineRuntime, split_sequential  # noqa: E402
from pipesched.torch.vocabulary import take_head, take_vocabulary  # noqa: E402
from shard_ranks import SAMPLES, TOKENS, ShardJob, loss_of, model_of  # noqa: E402
from torch import nn  # noqa: E402

NEAR = 1e-12
KINDS = ("vocab-1", "vocab-2")


def spread(schedule: Schedule, vocabulary: str, embedding: bool) -> Schedule:
    lookups = "embedding=true " if embedding else ""
    return schedule.transform(f"pipe-spread-vocabulary{{{lookups}vocabulary={vocabulary}}}")


def made(
    family: str, workers: int, passes: str = "", embedding: bool = False, **options: Any
) -> Schedule:
    if embedding:
        options["embedding"] = True
    schedule = generate(family, workers=workers, microbatches=5, **options)
    return schedule.transform(passes) if passes else schedule


def tables(workers: int, embedding: bool) -> dict[str, Schedule]:
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
    """Each of them, with a separate head and with a tied one."""
    jobs = []
    for name, schedule in tables(2, embedding).items():
        jobs.append(ShardJob(name, schedule))
        jobs.append(ShardJob(f"{name} tied", schedule, kind="tied", entries=23, loss="none"))
    return jobs


def of_four_ranks(embedding: bool) -> list[ShardJob]:
    """Each of them once, and pipelines side by side."""
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
    """Other cells next to the cells of shards, and options of the runtime."""
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


def of_heads() -> list[ShardJob]:
    second = made("vocab-1f1b", 2, vocabulary="vocab-2")
    two_paths = generate("chimera", workers=2, microbatches=4)
    return [
        ShardJob("ignored", second, ignored=7),
        ShardJob("large logits", second, factor=1e4),
        ShardJob("two paths", spread(two_paths, "vocab-1", embedding=False)),
    ]


def of_embeddings() -> list[ShardJob]:
    plain = made("vocab-1f1b", 2, embedding=True)
    two_paths = generate("chimera", workers=2, microbatches=5)
    return [
        ShardJob("padded", plain, kind="padded"),
        ShardJob("a frozen embedding", plain, kind="still"),
        ShardJob("one rank", made("vocab-1f1b", 1, embedding=True), kind="tied"),
        ShardJob("two paths", spread(two_paths, "vocab-2", embedding=True)),
    ]


def all_jobs() -> Iterator[ShardJob]:
    for embedding, own in ((False, of_heads()), (True, of_embeddings())):
        for make in (of_two_ranks, of_four_ranks, cells_and_options):
            place = f"{make.__name__}, embedding {embedding}"
            for job in make(embedding):
                yield replace(job, name=f"{place}: {job.name}")
        for job in own:
            yield replace(job, name=f"embedding {embedding}: {job.name}")


@cache
def jobs() -> dict[str, ShardJob]:
    return {job.name: job for job in all_jobs()}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[float]]]:
    return run(list(jobs().values()), tmp_path_factory.mktemp("shards"), "shard_ranks")


@pytest.mark.parametrize("name", jobs())
def test_trains_as_with_a_whole_vocabulary(errors: dict[str, list[list[float]]], name: str) -> None:
    for found in errors[name]:
        assert max(found) < NEAR, found


def step(job: ShardJob, **options: Any) -> None:
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


# Embeddings


def runtime_of(schedule: Schedule, **given: Any) -> PipelineRuntime:
    job = ShardJob("alone", schedule)
    model = model_of(job)
    head, embedding = take_vocabulary(model)
    options: dict[str, Any] = {"vocabulary": head, "embedding": embedding, **given}
    return PipelineRuntime(schedule, split_sequential(model, schedule), loss_of(job), **options)


@pytest.mark.usefixtures("one_rank")
def test_refusals_say_what_is_missing() -> None:
    schedule = made("vocab-1f1b", 1, embedding=True)
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
    schedule = made("vocab-1f1b", 1, embedding=True)
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
    """Looks up other numbers than its input has."""

    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.inner = embedding

    def forward(self, tokens: Any) -> Any:
        return self.inner((tokens + 1) % 24)


@pytest.mark.usefixtures("one_rank")
def test_models_that_look_up_otherwise_are_refused() -> None:
    schedule = made("vocab-1f1b", 1, embedding=True)
    job = ShardJob("alone", schedule)
    model: Any = model_of(job)
    model[0][0] = Shifted(model[0][0])
    head, embedding = take_vocabulary(model)
    assert embedding.name == "0.0.inner"
    stages = split_sequential(model, schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of(job), vocabulary=head, embedding=embedding)
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
    """An untied shard, while the head is tied to the whole."""
    schedule = made("vocab-1f1b", 1, embedding=True)
    model = model_of(ShardJob("alone", schedule, kind="tied"))
    head = take_head(model)
    _, other = take_vocabulary(model_of(ShardJob("alone", schedule)))
    with pytest.raises(PipelineError, match="head is tied to a whole embedding, and `embedding`"):
        PipelineRuntime(
            schedule, split_sequential(model, schedule), vocabulary=head, embedding=other
        )
