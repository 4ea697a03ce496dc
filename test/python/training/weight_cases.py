"""How much microbatches and injected gradients weigh, in real processes: see module_cases.py."""

from __future__ import annotations

import warnings
from typing import Any

import torch
import torch._dynamo  # torch.compile and fully_shard load it; once for all ranks.
from beside import off
from case_runs import case
from pipesched import Schedule, generate
from pipesched.torch import PipelineRuntime, slices, split_sequential
from pipesched.torch.vocabulary import take_head
from runtime_cases import batch
from runtime_models import SAMPLES, WIDTH, loss_of
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

COUNT = 6
"""Microbatches, by which floating point does not divide exactly."""


class Adding(torch.autograd.Function):
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
        result: Tensor = torch.tanh(self.layer(x)) * chance.max(-1, keepdim=True)[0]
        if self.injects:
            adding: Any = Adding
            result = adding.apply(result, extra)
        else:
            self.kept.append(extra)
        return result


class Late(Routed):
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
    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.tanh(self.layer(x))
        return result


def model_of(kinds: Any, injects: bool) -> nn.Sequential:
    return nn.Sequential(*(kind(seed, injects) for seed, kind in enumerate(kinds)))


def forget(model: nn.Sequential) -> None:
    each: Any
    for each in model:
        each.kept = []


def reference_of(model: nn.Sequential, count: int, inputs: Tensor, targets: Tensor) -> None:
    for x, y in zip(inputs.chunk(count), targets.chunk(count), strict=True):
        loss = loss_of(model(x), y)
        extra = [each for layer in model for each in getattr(layer, "kept", ())]
        torch.autograd.backward((loss + sum(extra)) / count)
        forget(model)


def compared(schedule: Schedule, kinds: Any, split: Any = split_sequential, **given: Any) -> float:
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


@case(2, within=1e-12)
def injected_gradients(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "gpipe", "zb-h1", "zb-v", "chimera", "dualpipe-v"):
        found[family] = compared(made(family), [Routed] * 4)
    found["some"] = compared(made("zb-v"), [Plainly, Plainly, Routed, Plainly])
    for transform in ("pipe-add-recompute", "pipe-add-offload{amount=half}"):
        found[transform] = compared(made("zb-h1", transform), [Routed] * 4)
    found["late"] = compared(made("1f1b"), [Routed, Late])
    return found


@case(2, within=1e-12)
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


@case(2, within=1e-12)
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
    layers: list[Any] = [model[rank] for model in models]
    return off(layers[0].layer.weight.grad, layers[1].layer.weight.grad)


@case(2, within=1e-12)
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


@case(2, within=1e-12)
def injected_gradients_of_slices(rank: int) -> dict[str, float]:
    """Compared with the same slices, one microbatch after the other, on one rank."""
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
            forget(models[1])
        extra = injected_of(models[1], inputs)
        torch.autograd.backward(extra)
        pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
        held = set(map(id, runtime.parameters()))
        runtime.close()
        found[family] = max(off(a.grad, b.grad) for a, b in pairs if id(a) in held)
    return found


def injected_of(model: nn.Sequential, inputs: Tensor) -> Tensor:
    """The losses that are injected of each slice, a sixth of each; slices see earlier tokens."""
    total = torch.zeros((), dtype=inputs.dtype)
    layer: Any
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


# Tokens

VALID = 5, 2, 0, 6, 1, 4
"""The tokens of each microbatch that are not ignored."""
TOKENS = 6


class Tokens(nn.Module):
    def __init__(self, seed: int, ins: int = WIDTH, outs: int = WIDTH) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.Linear(ins, outs, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.layer(x))


def words() -> nn.Sequential:
    torch.manual_seed(5)
    head = nn.Linear(WIDTH, 9, bias=False, dtype=torch.float64)
    return nn.Sequential(*map(Tokens, range(4)), head)


def cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


def divided(output: Tensor, target: Tensor) -> Tensor:
    """A mean that is 0 / 0 without tokens, also in its gradients."""
    valid = target != -100
    losses = nn.functional.cross_entropy(output.flatten(0, -2), target.flatten(), reduction="none")
    return losses.sum() / valid.sum()


def valid_of(target: Tensor) -> Tensor:
    return (target != -100).sum()


def text_of(seed: int = 0, valid: Any = VALID, ignored: int = -100) -> tuple[Tensor, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    inputs = torch.randn(len(valid), TOKENS, WIDTH, generator=chance, dtype=torch.float64)
    targets = torch.randint(1, 9, (len(valid), TOKENS), generator=chance)
    for row, count in zip(targets, valid, strict=True):
        row[count:] = ignored
    return inputs, targets


def off_from_tokens(
    schedule: Schedule, loss: Any, batches: Any, pipeline: int = 0, **given: Any
) -> float:
    """The largest error of the gradients, and of the loss, from the mean over all tokens."""
    model, reference = words(), words()
    head = take_head(model) if schedule.name.startswith("vocab") else None
    stages = split_sequential(model, schedule)
    runtime = PipelineRuntime(
        schedule, stages, None if head else loss, vocabulary=head, count=valid_of, **given
    )
    found = runtime.step(*batches[pipeline])
    evaluated = runtime.evaluate(*batches[pipeline])
    whole = [torch.cat(each) for each in zip(*batches, strict=True)]
    wanted = cross_entropy(reference(whole[0]), whole[1])
    torch.autograd.backward(wanted)
    worst = 0.0
    if found is not None and len(schedule.paths) == 1:
        own = cross_entropy(reference(batches[pipeline][0]), batches[pipeline][1]).item()
        worst = max(abs(each.item() - own) for each in (found, evaluated))
    held = set(map(id, runtime.parameters()))
    pairs = zip(model.parameters(), reference.parameters(), strict=False)
    for one, other in pairs:
        if id(one) in held:
            worst = max(worst, off(one.grad, other.grad))
    if head is not None:
        wanted_rows: Any = reference[4].weight.grad
        worst = max(worst, off(head.weight.grad, wanted_rows[head.rows]))
    runtime.close()
    return worst


@case(2, within=1e-12)
def means_over_tokens(rank: int) -> dict[str, float]:
    found = {}
    for family in ("1f1b", "zb-v", "chimera"):
        found[family] = off_from_tokens(made(family), cross_entropy, [text_of()])
    found["0 / 0"] = off_from_tokens(made("zb-h1"), divided, [text_of()])
    again = made("zb-h1", "pipe-add-recompute")
    found["recomputed"] = off_from_tokens(again, divided, [text_of()])
    sliced = generate("seq1f1b", workers=2, microbatches=6, slices=3)
    found["slices"] = off_from_tokens(sliced, divided, [text_of()])
    full = text_of(0, [4, 6, 1, 2, 6, 3])
    spread = generate("vocab-1f1b", workers=2, microbatches=6, name="vocab")
    found["vocabulary"] = off_from_tokens(spread, None, [full])
    return found


@case(4, within=1e-12)
def means_over_tokens_of_pipelines(rank: int) -> float:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
    batches = [text_of(), text_of(1, [6, 6, 5, 0, 6, 6])]
    return off_from_tokens(
        made("1f1b"),
        cross_entropy,
        batches,
        rank // 2,
        group=mesh["pp"].get_group(),
        data_parallel=mesh["dp"],
    )


def said_of(loss: Any, inputs: Any, targets: Any, **given: Any) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        schedule = made(given.pop("family", "1f1b"))
        runtime = PipelineRuntime(schedule, split_sequential(words(), schedule), loss, **given)
        for _ in range(2):
            runtime.step(inputs, targets)
        runtime.close()
    return " ".join(str(each.message) for each in caught)


def total(output: Tensor, target: Tensor) -> Tensor:
    """A loss that the caller divides by all tokens."""
    summed = nn.functional.cross_entropy(output.flatten(0, -2), target.flatten(), reduction="sum")
    return 6 * summed / sum(VALID)


def own_sum(output: Tensor, target: Tensor) -> Tensor:
    """A loss that the caller divides by the tokens of the microbatch."""
    summed = nn.functional.cross_entropy(output.flatten(0, -2), target.flatten(), reduction="sum")
    return summed / valid_of(target).clamp(min=1)


class Padded(nn.Module):
    """Ignores the number of the padding, within a sum of losses."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        loss = nn.CrossEntropyLoss(ignore_index=0)
        found: Tensor = loss(output.flatten(0, -2), target.flatten()) + 0.1 * output.pow(2).mean()
        return found


@case(2)
def warnings_of_tokens(rank: int) -> dict[str, str]:
    """Returns the warnings of the last rank."""
    even = text_of(0, [6] * 6)
    sizes = [torch.randn(1, length, WIDTH, dtype=torch.float64) for length in (6, 6, 3, 2, 6, 6)]
    wide = [torch.zeros(*size.shape[:2], 9, dtype=torch.float64) for size in sizes]
    return {
        "ignored": said_of(cross_entropy, *text_of()),
        "padded": said_of(Padded(), *text_of(ignored=0)),
        "divided": said_of(divided, *text_of(0, [6, 6, 6, 6, 6, 3])),
        "of sizes": said_of(loss_of, sizes, wide),
        "own sum": said_of(own_sum, *text_of()),
        "even": said_of(cross_entropy, *even),
        "a sum": said_of(total, *text_of()),
        "counted": said_of(cross_entropy, *text_of(), count=valid_of),
        "alike": said_of(divided, *text_of(0, [6, 6, 6, 6, 6, 3]), count=lambda target: 1),
    }


@case(2)
def a_count_that_is_none(rank: int) -> None:
    said_of(cross_entropy, *text_of(), count=lambda target: target != -100)
