"""Trains models whose head is divided among the ranks, alongside models with a whole head."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, split_sequential
from pipesched.torch.core.batch import units_of
from pipesched.torch.vocab_parallel.embedding import looks_up
from pipesched.torch.vocabulary import (
    VocabularyEmbedding,
    VocabularyHead,
    take_head,
    take_vocabulary,
)
from runtime_ranks import difference, optimizer_of, stage_blocks
from torch import Tensor, nn
from torch.nn import functional

WIDTH, SAMPLES, TOKENS, STEPS = 6, 2, 12, 2


@dataclass(frozen=True)
class ShardJob:
    """A schedule with S and T, and the settings of its model."""

    name: str
    schedule: Schedule
    entries: int = 24
    kind: str = "plain"
    """plain, tied (to the embedding), biased, scaled (logits), frozen, padded, still (embedding).
    """
    ignored: int = -100
    loss: str = "mean"
    """mean, ignoring, summed or none."""
    steps_inside: bool = False
    clipped: bool = False
    accumulated: bool = False
    """Whether the gradients of all steps add up until the last one is stepped."""
    factor: float = 1.0
    pipelines: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return self.schedule.workers * self.pipelines


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.mix(x).tanh()
        return found


class Head(nn.Module):
    def __init__(self, job: ShardJob) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, job.entries, bias=job.kind == "biased")
        self._factor, self._is_scaled = job.factor, job.kind == "scaled"

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.norm(x) * self._factor)
        return scores / 2 if self._is_scaled else scores


def model_of(job: ShardJob) -> nn.Sequential:
    torch.manual_seed(3)
    count = job.schedule.blocks
    padding = 3 if job.kind == "padded" else None
    embedding, head = nn.Embedding(job.entries, WIDTH, padding), Head(job)
    if job.kind == "tied":
        head.scores.weight = embedding.weight
    if job.kind == "frozen":
        head.scores.weight.requires_grad_(False)
    if job.kind == "still":
        embedding.weight.requires_grad_(False)
    whole = nn.Sequential()
    for number in range(count):
        parts: list[nn.Module] = [embedding] if number == 0 else []
        parts += [Layer()]
        parts += [head] if number == count - 1 else []
        whole.add_module(str(number), nn.Sequential(*parts))
    return whole.double()


def loss_of(job: ShardJob) -> Any:
    def mean(output: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(
            output.flatten(0, 1), target.flatten(), ignore_index=job.ignored
        )

    def summed(output: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(output.flatten(0, 1), target.flatten(), reduction="sum")

    def blind(output: Tensor, target: Tensor) -> Tensor:
        return functional.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=5)

    return {"mean": mean, "summed": summed, "ignoring": blind, "none": None}[job.loss]


def reference_losses(whole: nn.Module, job: ShardJob, inputs: Any, targets: Any) -> list[float]:
    """Trains without a pipeline; the loss of each microbatch, or of each slice of it."""
    losses, slices, count = [], job.schedule.slices, len(inputs) * job.pipelines
    for value, target in zip(inputs, targets, strict=True):
        outputs, parts = whole(value).chunk(slices, 1), target.chunk(slices, 1)
        for output, part in zip(outputs, parts, strict=True):
            loss = functional.cross_entropy(
                output.flatten(0, 1), part.flatten(), ignore_index=job.ignored
            )
            scaled: Any = loss / count / slices
            scaled.backward(retain_graph=True)
            losses.append(loss.item())
    return losses


def compare(
    blocks: list[tuple[int, nn.Module]],
    head: VocabularyHead,
    embedding: VocabularyEmbedding | None,
    whole: nn.Sequential,
) -> tuple[float, float]:
    pairs = []
    for _number, block in blocks:
        for name, found in block.named_parameters():
            pairs.append((found, whole.get_parameter(name), slice(None)))
    last: Any = whole[-1]
    scores: Any = last[-1]
    pairs.append((head.weight, scores.scores.weight, head.rows))
    if head.bias is not None:
        pairs.append((head.bias, scores.scores.bias, head.rows))
    if embedding is not None:
        pairs.append((embedding.weight, whole.get_parameter("0.0.weight"), embedding.rows))
    gradients = values = 0.0
    for found, wanted, rows in pairs:
        if wanted.numel() and len(range(*rows.indices(len(wanted)))):
            own = None if wanted.grad is None else wanted.grad[rows]
            gradients = max(gradients, difference(found.grad, own))
            values = max(values, difference(found.detach(), wanted.detach()[rows]))
    return gradients, values


def taken(
    job: ShardJob, model: nn.Module, group: dist.ProcessGroup
) -> tuple[VocabularyHead, VocabularyEmbedding | None]:
    """The head of a model in shards, and its embedding if the schedule has cells for it."""
    if not looks_up(units_of(job.schedule)):
        return take_head(model, group, ignored=job.ignored), None
    head, embedding = take_vocabulary(model, group, ignored=job.ignored)
    assert (embedding.weight is head.weight) == (job.kind == "tied")
    assert all("0.0" not in name for name, _ in model.named_parameters())
    return head, embedding


def run_job(job: ShardJob, group: dist.ProcessGroup, _: Path) -> list[float]:
    """The largest relative errors of losses, gradients, parameters and evaluations."""
    schedule, rank, number = job.schedule, dist.get_rank(group), 0
    options = dict(job.options)
    if job.pipelines > 1:
        number, rank = divmod(rank, schedule.workers)
        group, options["data_parallel"] = meshed(job, number, rank)
    reference, mine = model_of(job), model_of(job)
    head, embedding = taken(job, mine, group)
    stages = split_sequential(mine, schedule)
    if job.steps_inside:
        options["optimizer"] = optimizer_of
    options |= {"vocabulary": head, "embedding": embedding, "timeout": 60}
    runtime = PipelineRuntime(schedule, stages, loss_of(job), group, **options)
    blocks = stage_blocks(job, rank, stages)  # type: ignore[arg-type]
    outside = None if job.steps_inside else optimizer_of(runtime.parameters())
    steps = optimizer_of([p for p in reference.parameters() if p.requires_grad])
    worst = [0.0, 0.0, 0.0, 0.0]
    torch.manual_seed(99)
    is_last = any(s.stage == len(schedule.paths[0].workers) - 1 for s in schedule.stages(rank))
    for step in range(STEPS):
        shape = schedule.microbatches, SAMPLES, TOKENS
        everything = torch.randint(job.entries, (2, job.pipelines, *shape))
        inputs, targets = everything[:, number].unbind(0)
        if job.ignored >= 0 or job.loss == "none":
            targets[0, 0, :3] = job.ignored
        for other in range(job.pipelines):
            if other != number:
                reference_losses(reference, job, *everything[:, other].unbind(0))
        wanted = reference_losses(reference, job, list(inputs), list(targets))
        with runtime.record() as events:
            loss = runtime.step(list(inputs), list(targets))
        if schedule.slices == 1:
            assert len(events) == len(schedule.program(rank))
        assert (loss is not None) == is_last
        if loss is not None and len(schedule.paths) == 1:
            mean = sum(wanted) / len(wanted)
            worst[0] = max(worst[0], abs(loss.item() - mean) / mean)
        if job.clipped:
            most = 1e-3 * (step + 1)
            norms = [
                runtime.clip_grad_norm_(most),
                nn.utils.clip_grad_norm_(reference.parameters(), most),
            ]
            worst[1] = max(worst[1], difference(*norms))
        if not job.steps_inside:
            worst[1] = max(worst[1], compare(blocks, head, embedding, reference)[0])
        if job.accumulated and step < STEPS - 1:
            continue
        steps.step()
        if outside is not None:
            outside.step()
        worst[2] = max(worst[2], compare(blocks, head, embedding, reference)[1])
        runtime.zero_grad()
        steps.zero_grad()
    worst[3] = evaluated(runtime, job, reference, is_last)
    runtime.close()
    return worst


def meshed(job: ShardJob, number: int, rank: int) -> tuple[Any, Any]:
    """The group of a pipeline, and the group of a rank in all pipelines; all ranks call it."""
    size, count = job.schedule.workers, job.pipelines
    rows = [dist.new_group([p * size + r for r in range(size)]) for p in range(count)]
    columns = [dist.new_group([p * size + r for p in range(count)]) for r in range(size)]
    return rows[number], columns[rank]


def evaluated(
    runtime: PipelineRuntime, job: ShardJob, reference: nn.Module, is_last: bool
) -> float:
    shape = job.schedule.microbatches, SAMPLES, TOKENS
    inputs, targets = torch.randint(job.entries, (2, *shape)).unbind(0)
    outputs = runtime.evaluate(list(inputs))
    loss = runtime.evaluate(list(inputs), list(targets))
    assert (outputs is not None) == (loss is not None) == is_last
    worst, losses = 0.0, []
    with torch.no_grad():
        for number, value in enumerate(inputs):
            wanted = reference(value)
            losses.append(
                functional.cross_entropy(
                    wanted.flatten(0, 1), targets[number].flatten(), ignore_index=job.ignored
                )
            )
            if outputs is not None and outputs[number] is not None:  # of one of several paths
                worst = max(worst, difference(outputs[number], wanted))
    is_whole = len(job.schedule.paths) == 1 and (job.schedule.slices == 1 or job.ignored < 0)
    if loss is not None and is_whole:
        worst = max(worst, difference(loss, torch.stack(losses).mean()))
    return worst
