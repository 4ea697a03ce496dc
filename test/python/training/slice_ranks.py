"""Trains small GPTs by schedules with slices, alongside the same model on whole microbatches."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from pipesched import Schedule
from pipesched.torch import PipelineRuntime, slices, split_sequential
from runtime_ranks import compare, difference, optimizer_of, stage_blocks
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

SAMPLES, TOKENS, WIDTH, HEADS, WORDS = 2, 24, 8, 2, 11
STEPS = 2


@dataclass(frozen=True)
class SliceJob:
    name: str
    schedule: Schedule
    model: str = "gpt"
    is_uneven: bool = False
    """Whether slices of a microbatch have different numbers of tokens."""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> int:
        return self.schedule.workers


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH, dtype=torch.float64)
        self.places = nn.Embedding(TOKENS, WIDTH, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        first = slices.first_token()
        found: Tensor = self.words(x) + self.places.weight[first : first + x.shape[1]]
        return found


class Checkpointed(Embedding):
    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(super().forward, x, use_reentrant=False)
        return found


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.attention = slices.CausalSelfAttention(WIDTH, HEADS)
        self.mix = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(dropout))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        found: Tensor = x + self.mix(x)
        return found


class Blind(Block):
    """Its attention sees only its own slice."""

    @staticmethod
    def attended(query: Tensor, dropout: float = 0.0) -> Tensor:
        found: Tensor = nn.functional.scaled_dot_product_attention(
            query, query, query, dropout_p=dropout, is_causal=True
        )
        return found

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = x + self.mix(self.attended(self.norm(x)))
        return mixed


class Drawing(Block):
    """Draws in its forward in many ways, and sees earlier tokens, or does not."""

    sees = True

    def __init__(self, dropout: float) -> None:
        super().__init__(dropout)
        self.attention = slices.CausalSelfAttention(WIDTH, HEADS, dropout=0.3).double()

    def forward(self, x: Tensor) -> Tensor:
        x = x + (self.attention(x) if self.sees else Blind.attended(x))
        x = x + x.new_empty(x.shape[0], 1, 1).bernoulli_(0.7) / 0.7 * self.mix(self.norm(x))
        x = nn.functional.rrelu(x, training=self.training) + 0.1 * torch.randn_like(x)
        x = nn.functional.alpha_dropout(x, 0.2, self.training)
        x = x * (torch.rand(x.shape, dtype=x.dtype) + torch.empty_like(x).uniform_(0.5, 1))
        x = x + torch.normal(x, 0.2) + torch.bernoulli(torch.sigmoid(x))
        hot = -torch.empty_like(x).exponential_().log()
        x = x + (x + hot).softmax(-1)
        return 2 * x if random.random() < 0.5 else x + np.random.rand()


class DrawingBlind(Drawing):
    sees = False


class Dropping(Block):
    """Attention in whole sequences, in a module of PyTorch with dropout."""

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = x + self.mix(Blind.attended(self.norm(x), 0.2 if self.training else 0.0))
        return found


class Choosing(DrawingBlind):
    """Draws values that have no mean."""

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = super().forward(x)
        return found[:, :, torch.randperm(WIDTH)]


KINDS = {
    "blind": Blind,
    "drawing": Drawing,
    "drawing blind": DrawingBlind,
    "dropping blind": Dropping,
    "choosing blind": Choosing,
}


def model_of(kind: str, blocks: int) -> nn.Sequential:
    torch.manual_seed(5)
    made = KINDS.get(kind, Block)
    layers = [made(0.5 if kind in KINDS and kind != "blind" else 0.0) for _ in range(2 * blocks)]
    first = Checkpointed() if kind == "checkpointed" else Embedding()
    parts: list[nn.Module] = [first, *layers, nn.Linear(WIDTH, WORDS, dtype=torch.float64)]
    sizes = [1 + 2] + [2] * (blocks - 2) + [2 + 1] if blocks > 1 else [len(parts)]
    whole = nn.Sequential()
    for i, size in enumerate(sizes):
        begin = sum(sizes[:i])
        whole.add_module(str(i), nn.Sequential(*parts[begin : begin + size]))
    return whole


def loss_of(output: Tensor, target: Tensor) -> Tensor:
    return cross_entropy(output.flatten(0, 1), target.flatten())


def cut(value: Tensor, job: SliceJob) -> Any:
    if not job.is_uneven:
        return value
    parts = job.schedule.slices
    lengths = [TOKENS - (parts - 1) * 5, *[5] * (parts - 1)]
    return list(torch.split(value, lengths, 1))


def wanted_losses(whole: nn.Module, job: SliceJob, inputs: list[Any], targets: list[Any]) -> float:
    """Trains without a pipeline: the mean of the losses of slices, with equal weights."""
    total = 0.0
    for value, target in zip(inputs, targets, strict=True):
        output = whole(value)
        parts = cut(target, job)
        pieces = parts if isinstance(parts, list) else target.chunk(job.schedule.slices, 1)
        begin, losses = 0, []
        for piece in pieces:
            losses.append(loss_of(output[:, begin : begin + piece.shape[1]], piece))
            begin += piece.shape[1]
        loss = torch.stack(losses).mean() / len(inputs)
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    return total


def drawn(job: SliceJob, group: dist.ProcessGroup) -> list[float]:
    """The difference of the losses of two steps from a pipeline without a comparison."""
    losses = []
    for checks in (True, False):
        stages = split_sequential(model_of(job.model, job.schedule.blocks), job.schedule)
        runtime = PipelineRuntime(job.schedule, stages, loss_of, group, check_slices=checks)
        torch.manual_seed(9)
        random.seed(9)
        np.random.seed(9)
        for _ in range(STEPS):
            data = torch.randint(WORDS, (2, job.schedule.microbatches * SAMPLES, TOKENS))
            loss = runtime.step(*data)
            losses.append(0.0 if loss is None else loss.item())
        runtime.close()
    return [abs(one - other) for one, other in zip(losses, losses[STEPS:])] + [0.0]


def run_job(job: SliceJob, group: dist.ProcessGroup, _: Path) -> list[float]:
    """The largest relative errors of losses, gradients and parameters."""
    if job.model in KINDS:
        return drawn(job, group)
    schedule, rank = job.schedule, dist.get_rank(group)
    reference = model_of(job.model, schedule.blocks)
    stages = split_sequential(model_of(job.model, schedule.blocks), schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of, group, timeout=60, **job.options)
    blocks: Any = stage_blocks(job, rank, stages)  # type: ignore[arg-type]
    outside = optimizer_of(list({id(p): p for _, b in blocks for p in b.parameters()}.values()))
    steps = optimizer_of(list(reference.parameters()))
    worst = [0.0, 0.0, 0.0]
    torch.manual_seed(99)
    for _step in range(STEPS):
        shape = schedule.microbatches, SAMPLES, TOKENS
        inputs, targets = torch.randint(WORDS, (2, *shape)).unbind(0)
        wanted = wanted_losses(reference, job, list(inputs), list(targets))
        given = [cut(each, job) for each in inputs], [cut(each, job) for each in targets]
        loss = runtime.step(*given)
        if loss is not None and len(schedule.paths) < 2:
            worst[0] = max(worst[0], abs(loss.item() - wanted) / wanted)
        gradients, values = compare(job, blocks, reference)  # type: ignore[arg-type]
        worst[1], worst[2] = max(worst[1], gradients), max(worst[2], values)
        outside.step()
        steps.step()
        runtime.zero_grad()
        steps.zero_grad()
    evaluated(runtime, job, reference, worst)
    runtime.close()
    return worst


def evaluated(
    runtime: PipelineRuntime, job: SliceJob, reference: nn.Module, worst: list[float]
) -> None:
    count = job.schedule.microbatches
    inputs = list(torch.randint(WORDS, (count, SAMPLES, TOKENS)))
    outputs = runtime.evaluate([cut(each, job) for each in inputs])
    for value, output in zip(inputs, outputs or [], strict=False):
        if output is not None:
            with torch.no_grad():
                worst[2] = max(worst[2], difference(output, reference(value)))
