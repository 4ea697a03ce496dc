"""A pipeline and the same model without one, for cases in real processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pipesched import Schedule, generate
from pipesched.torch import PipelineRuntime, split_sequential
from runtime_cases import COUNT, batch
from runtime_models import WIDTH, loss_of
from torch import Tensor, nn

STEPS = 3
Build = Callable[[], Any]


def layer(seed: int, bias: bool = True) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(WIDTH, WIDTH, bias, dtype=torch.float64)


def line(workers: int = 2, family: str = "1f1b", transform: str = "") -> Schedule:
    schedule = generate(family, workers=workers, microbatches=COUNT)
    return schedule.transform(transform) if transform else schedule


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def off(found: Tensor | None, wanted: Tensor | None) -> float:
    if found is None or wanted is None:
        return 0.0 if found is wanted else float("inf")
    found, wanted = (each.to_dense() if each.is_sparse else each for each in (found, wanted))
    return (found - wanted).abs().max().item() / max(wanted.abs().max().item(), 1e-3)


class Beside:
    def __init__(self, schedule: Schedule, build: Build, loss: Any = loss_of, **options: Any):
        self.count = schedule.microbatches
        self.model, self.reference = build(), build()
        self.stages: Any = options.pop("stages", None)
        split = options.pop("split", split_sequential)
        if self.stages is None:
            self.stages = split(self.model, schedule)
        self.losses = (loss(), loss()) if isinstance(loss, type) else (loss, loss)
        self.runtime = PipelineRuntime(schedule, self.stages, self.losses[0], **options)
        self.worst = 0.0
        like: list[Any] = [*self.reference.parameters()]
        if isinstance(self.losses[1], nn.Module):
            like += self.losses[1].parameters()
        self.optimizers = [sgd(like)]
        if not self.runtime.optimizers:
            self.optimizers.append(sgd(self.mine()))

    def mine(self) -> list[nn.Parameter]:
        """Every parameter of this rank, also the ones that are frozen now."""
        held = self.runtime._setup.placement.all_parameters()
        return list({id(p): p for p in held}.values())

    def pairs(self) -> list[tuple[Any, Any]]:
        like = dict(self.reference.named_parameters(remove_duplicate=False))
        state = self.runtime._state._own()
        found = [(p, like[name]) for name, p in state.items() if name in like]
        if self.runtime._setup.placement.loss is not None:
            found += zip(self.losses[0].parameters(), self.losses[1].parameters(), strict=True)
        return found

    def step(self, seed: int) -> None:
        """One step of both, whose gradients add up to the existing ones."""
        inputs, targets = batch(seed)
        self.runtime.step(inputs, targets)
        for x, y in zip(inputs.chunk(self.count), targets.chunk(self.count), strict=True):
            torch.autograd.backward(self.losses[1](self.reference(x), y) / self.count)
        self.compare()

    def compare(self) -> None:
        assert self.pairs()
        for own, like in self.pairs():
            if not self.runtime.optimizers:
                self.worst = max(self.worst, off(own.grad, like.grad))

    def update(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.runtime.zero_grad()
        self.worst = max([self.worst, *(off(a.detach(), b.detach()) for a, b in self.pairs())])

    def train(self, steps: int = STEPS) -> float:
        for seed in range(steps):
            self.step(seed)
            self.update()
        return self.finish()

    def finish(self) -> float:
        self.runtime.close()
        return self.worst
