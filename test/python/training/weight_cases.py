"""How much microbatches and injected gradients weigh, in real processes: see module_cases.py.

usage: weight_cases.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path as File
from typing import Any

import torch
import torch._dynamo  # What torch.compile and fully_shard load, once for all ranks.
import torch.distributed as dist
from beside import line, off
from pipesched import Schedule, generate
from pipesched.torch import PipelineRuntime, slices, split_sequential
from runtime_cases import CASES, batch, case, main
from runtime_models import SAMPLES, WIDTH, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

OTHERS = set(CASES)
COUNT = 6
"""Microbatches, by which floating point does not divide exactly."""


class Adding(torch.autograd.Function):
    """Adds the gradient of a loss of a router, as Megatron and others do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, extra: Tensor) -> Tensor:
        ctx.save_for_backward(extra)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        (extra,) = ctx.saved_tensors
        return gradients[0], torch.ones_like(extra)


class Routed(nn.Module):
    """A layer with a router, whose loss it injects, or keeps for a loss without a pipeline."""

    def __init__(self, seed: int, injects: bool) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer, self.router = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.injects = injects
        self.kept: list[Tensor] = []
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        chance = self.router(x).softmax(-1)
        extra = 0.5 * (chance.flatten(0, -2).mean(0) ** 2).sum() + x.pow(2).mean()
        hidden = torch.tanh(self.layer(x)) * chance.max(-1, keepdim=True)[0]
        if not self.injects:
            self.kept.append(extra)
            return hidden
        result: Any = Adding.apply(hidden, extra)
        return result


class Late(Routed):
    """Injects from its third forward on."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        wants, self.injects = self.injects, self.injects and self.calls > 2
        try:
            return super().forward(x)
        finally:
            self.injects = wants
            if self.calls <= 2:
                self.kept = []


class Plainly(Routed):
    """Injects nothing."""

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.tanh(self.layer(x))
        return result


def model_of(kinds: Any, injects: bool) -> nn.Sequential:
    return nn.Sequential(*(kind(seed, injects) for seed, kind in enumerate(kinds)))


def reference_of(model: nn.Sequential, count: int, inputs: Tensor, targets: Tensor) -> None:
    for x, y in zip(inputs.chunk(count), targets.chunk(count), strict=True):
        loss = loss_of(model(x), y)
        extra = [each for layer in model for each in getattr(layer, "kept", ())]
        torch.autograd.backward((loss + sum(extra)) / count)
        for layer in model:
            layer.kept = []


def compared(schedule: Schedule, kinds: Any, split: Any = split_sequential, **given: Any) -> float:
    """The largest error of gradients of two steps that add up."""
    count = schedule.microbatches
    models = [model_of(kinds, injects) for injects in (True, False)]
    stages = split(models[0], schedule)
    runtime = PipelineRuntime(schedule, stages, loss_of, **given)
    for seed in range(2):
        inputs, targets = batch(seed, count)
        runtime.step(inputs, targets)
        reference_of(models[1], count, inputs, targets)
    held = set(map(id, runtime.parameters()))
    pairs = list(zip(models[0].parameters(), models[1].parameters(), strict=True))
    runtime.close()
    found = [(whole(a.grad), b.grad) for a, b in pairs if id(a) in held]
    assert found
    return max(off(a, b) for a, b in found)


def whole(gradient: Any) -> Any:
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


def made(family: str, transform: str = "") -> Schedule:
    schedule = generate(family, workers=2, microbatches=COUNT)
    return schedule.transform(transform) if transform else schedule


@case(2)
def injected_gradients(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "gpipe", "zb-h1", "zb-v", "chimera", "dualpipe-v"):
        found[family] = compared(made(family), [Routed] * 4)
    found["some"] = compared(made("zb-v"), [Plainly, Plainly, Routed, Plainly])
    for transform in ("pipe-add-recompute", "pipe-add-offload{amount=half}"):
        found[transform] = compared(made("zb-h1", transform), [Routed] * 4)
    found["late"] = compared(made("1f1b"), [Routed, Late])
    return found


@case(2)
def injected_gradients_of_wrapped_stages(rank: int) -> dict[str, float]:
    mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "pp"))

    def sharded(model: nn.Sequential, schedule: Schedule) -> Any:
        stages = split_sequential(model, schedule)
        return lambda path, stage: fully_shard(stages(path, stage), mesh=mesh["dp"])

    def compiled(model: nn.Sequential, schedule: Schedule) -> Any:
        stages = split_sequential(model, schedule)
        for stage in schedule.stages(rank):
            stages(stage.path, stage.stage).compile(backend="aot_eager")
        return stages

    return {
        "sharded": compared(made("1f1b"), [Routed] * 2, sharded),
        "compiled": compared(made("zb-h1"), [Plainly, Routed], compiled),
    }


@case(2)
def injected_gradients_of_tied_stages(rank: int) -> float:
    """One layer in both stages, of which one injects."""

    def build(injects: bool) -> nn.Sequential:
        first, last = Plainly(0, injects), Routed(1, injects)
        last.layer = first.layer
        return nn.Sequential(first, last)

    schedule, models = made("1f1b"), [build(True), build(False)]
    runtime = PipelineRuntime(schedule, split_sequential(models[0], schedule), loss_of)
    runtime.step(*batch(0, COUNT))
    reference_of(models[1], COUNT, *batch(0, COUNT))
    runtime.close()
    own, like = (model[rank].layer.weight.grad for model in models)
    return off(own, like)


@case(2)
def injected_gradients_as_in_pytorch(rank: int) -> float:
    models = [model_of([Routed] * 2, True) for _ in range(2)]
    inputs, targets = batch(0, COUNT)
    stage = PipelineStage(models[1][rank], rank, 2, torch.device("cpu"))
    theirs: Any = Schedule1F1B(stage, COUNT, loss_fn=loss_of)
    theirs.step(inputs) if rank == 0 else theirs.step(target=targets)
    schedule = made("1f1b")
    runtime = PipelineRuntime(schedule, split_sequential(models[0], schedule), loss_of)
    runtime.step(inputs, targets)
    runtime.close()
    pairs = zip(models[0][rank].parameters(), models[1][rank].parameters(), strict=True)
    return max(off(own.grad, like.grad) for own, like in pairs)


class Sliced(nn.Module):
    """Sees earlier tokens, and injects of each slice."""

    def __init__(self, seed: int, injects: bool) -> None:
        super().__init__()
        self.routed = Routed(seed, injects)
        self.attention = slices.CausalSelfAttention(WIDTH, 2).double()

    @property
    def kept(self) -> list[Tensor]:
        return self.routed.kept

    @kept.setter
    def kept(self, value: list[Tensor]) -> None:
        self.routed.kept = value

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.routed(x + self.attention(x))
        return result


@case(2)
def injected_gradients_of_slices(rank: int) -> dict[str, float]:
    """Beside the same slices of one microbatch after the other on one rank without a pipeline."""
    found = {}
    for family in ("seq1f1b", "zb-h1"):
        schedule = generate(family, workers=2, microbatches=2, slices=3)
        models = [model_of([Sliced] * 2, injects) for injects in (True, False)]
        runtime = PipelineRuntime(schedule, split_sequential(models[0], schedule), loss_of)
        both = torch.randn(2, 2 * SAMPLES, 6, WIDTH, generator=torch.Generator().manual_seed(0))
        inputs, targets = both.double().unbind(0)
        runtime.step(inputs, targets)
        for x, y in zip(inputs.chunk(2), targets.chunk(2), strict=True):
            torch.autograd.backward(loss_of(models[1](x), y) / 2)
            for layer in models[1]:
                layer.kept = []
        extra = injected_of(models[1], inputs)
        torch.autograd.backward(extra)
        pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
        held = set(map(id, runtime.parameters()))
        runtime.close()
        found[family] = max(off(a.grad, b.grad) for a, b in pairs if id(a) in held)
    return found


def injected_of(model: nn.Sequential, inputs: Tensor) -> Tensor:
    """The losses that are injected of each slice, a sixth of each; slices see earlier tokens."""
    total: Any = 0.0
    for x in inputs.chunk(2):
        for layer in model:
            seen = x + layer.attention(x)
            for part in seen.chunk(3, 1):
                layer.routed(part)
            total = total + sum(layer.routed.kept) / 6
            layer.kept = []
            x = layer.routed(seen)
            layer.kept = []
    return total


if __name__ == "__main__":
    main(File(sys.argv[1]), sys.argv[2:] or [name for name in CASES if name not in OTHERS])
