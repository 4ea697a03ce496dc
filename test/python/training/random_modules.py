"""Random modules of PyTorch, exported, compiled and run, with losses and gradients of PyTorch."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pipesched
import torch
from compiled_runs import losses_of
from pipesched.frontends.torch import export
from random_operations import LOSSES, Operation, random_operation
from torch import Tensor, nn

TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
MICROBATCHES, SIZE = 2, 2
RATE = 2.0**20
"""Parameters after a step of SGD at this rate hold little but the gradient."""
# Error in parts of the norm, in addition to a multiple of the error of PyTorch's own computation.
PRECISION = {"f32": 2e-5, "f64": 1e-9, "bf16": 0.03}
FACTOR = {"f32": 8, "f64": 8, "bf16": 4}
DIGITS = 1e-5
"""Relative precision of a loss, as the tool prints it."""
LIMIT = 120
"""Seconds for a module of a few operations."""


@dataclass
class Trial:
    model: nn.Sequential
    inputs: Tensor
    targets: Tensor
    loss: str
    family: str

    @property
    def criterion(self) -> Callable[[Tensor, Tensor], Tensor]:
        return LOSSES[self.loss]


class Flat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def _front(draw: random.Random, kind: str, width: int) -> nn.Module:
    if kind == "tokens":
        return nn.Embedding(11, width)
    return nn.Conv2d(3, width, 3, padding=1) if kind == "images" else nn.Linear(5, width)


def _shapes(kind: str, width: int) -> tuple[list[int], list[int]]:
    if kind == "images":
        return [SIZE, 3, 6, 6], [SIZE, width, 6, 6]
    return [SIZE, 7, *([5] if kind == "numbers" else [])], [SIZE, 7, width]


def random_trial(seed: int, dtype: torch.dtype) -> Trial:
    """The same one for a seed in each type, except for rounding."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind, width = draw.choice(["tokens", "numbers", "images"]), draw.choice([4, 8])
    shape, inner = _shapes(kind, width)
    count = SIZE * MICROBATCHES
    inputs = torch.randn(count, *shape[1:], dtype=torch.float64)
    if kind == "tokens":
        inputs = torch.randint(11, (count, *shape[1:]))
    layers = [[random_operation(draw, inner) for _ in range(draw.randint(2, 5))] for _ in range(2)]
    loss = draw.choice(list(LOSSES))
    classes = 5
    ends: list[nn.Module] = [nn.Linear(width, classes)]
    if kind == "images":
        ends = [Flat(), nn.Linear(width * 36, classes)]
    first = nn.Sequential(_front(draw, kind, width), *layers[0])
    last = nn.Sequential(nn.Linear(inner[-1], inner[-1]), *layers[1], *ends)
    rows = [count] if kind == "images" else [count, 7]
    targets = torch.randn(*rows, classes, dtype=torch.float64).sigmoid()
    if loss == "cross_entropy":
        targets = torch.randint(classes, rows)
    model = nn.Sequential(first, last).to(torch.float64).to(dtype)
    if inputs.is_floating_point():
        inputs = inputs.to(dtype)
    if targets.is_floating_point():
        targets = targets.to(dtype)
    family = draw.choice(["1f1b", "zb-h1"])
    return Trial(model, inputs, targets, loss, family)


def _wide(trial: Trial) -> Trial:

    def widened(x: Tensor) -> Tensor:
        return x.double() if x.is_floating_point() else x

    model = copy.deepcopy(trial.model).double()
    return Trial(model, widened(trial.inputs), widened(trial.targets), trial.loss, trial.family)


Named = dict[str, Tensor]


def computed(trial: Trial) -> Named:
    model = copy.deepcopy(trial.model)
    total = 0.0
    pairs = zip(trial.inputs.chunk(MICROBATCHES), trial.targets.chunk(MICROBATCHES), strict=True)
    # The sum over microbatches is taken in float64 for all; within one it is PyTorch's.
    sums = {name: torch.zeros(each.shape).double() for name, each in model.named_parameters()}
    for x, y in pairs:
        model.zero_grad()
        found = trial.criterion(model(x), y) / MICROBATCHES
        found.backward()  # type: ignore[no-untyped-call]
        total += found.item()
        for name, each in model.named_parameters():
            if each.grad is not None:
                sums[name] += each.grad.double()
    return {"loss": torch.tensor(total).double(), **sums}


def _numbers(path: Path, dtype: torch.dtype) -> Tensor:
    found = np.load(path)
    if dtype == torch.bfloat16:
        return torch.from_numpy(found.view("int16")).view(torch.bfloat16).double()
    return torch.from_numpy(found).double()


def compiled(trial: Trial, folder: Path) -> Named:
    """Returns loss and gradients of the exported model, or raises Failed or FrontendError."""
    schedule = pipesched.generate(trial.family, workers=2, microbatches=MICROBATCHES, name="random")
    made = export(
        copy.deepcopy(trial.model),
        schedule,
        (trial.inputs[:SIZE], trial.targets[:SIZE]),
        loss=trial.criterion,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=RATE),
        batches=[(trial.inputs, trial.targets)],
        compare=False,  # the gradients of the whole model are compared
    )
    file, after = folder / "random.mlir", folder / "after"
    folder_of = made.save(file)
    (loss,) = losses_of(file, folder_of, f"--save-parameters={after}", steps=1, limit=LIMIT)
    found = {"loss": torch.tensor(loss).double()}
    held = dict(trial.model.named_parameters())
    for name, whole in made.names.items():
        before = held[whole].detach()
        found[whole] = (before.double() - _numbers(after / name, before.dtype)) / RATE
    return found


def _error(found: Tensor, wanted: Tensor) -> float:
    """In parts of the norm; infinite where one is not a number and the other is one."""
    if not torch.equal(found.isfinite(), wanted.isfinite()):
        return float("inf")
    wanted = wanted.nan_to_num(0, 0, 0)
    found = found.nan_to_num(0, 0, 0)
    return float((found - wanted).norm() / wanted.norm().clamp(min=1e-300))


def _rounds_to_f32(trial: Trial) -> bool:
    """In PyTorch the gradient of hardsigmoid has 1/6 in float32, also in a model in float64."""
    rounding = ("float", "hardsigmoid")
    return any(isinstance(m, Operation) and m.name in rounding for m in trial.model.modules())


def _shaken(trial: Trial, seed: int) -> Trial:
    """The same with all parameters a rounding error away."""
    draw = torch.Generator().manual_seed(seed)
    model = copy.deepcopy(trial.model)
    for each in model.parameters():
        signs = torch.randint(-1, 2, each.shape, generator=draw)
        each.data *= 1 + signs * torch.finfo(each.dtype).eps
    return Trial(model, trial.inputs, trial.targets, trial.loss, trial.family)


def differences(trial: Trial, folder: Path, name: str) -> list[str]:
    """Returns a line for each difference beyond rounding; name: of the type."""
    found, own = compiled(trial, folder), computed(trial)
    lines = _differing(trial, name, found, own, [own])
    if lines:  # a derivative that jumps, as of PReLU at 0, makes much of rounding
        runs = [own, *(computed(_shaken(trial, seed)) for seed in range(8))]
        lines = _differing(trial, name, found, own, runs)
    return lines


def _differing(
    trial: Trial, name: str, found: Named, own: Named, runs: Sequence[Named]
) -> list[str]:
    """The same, where PyTorch's own error is the largest one of some runs."""
    wide = computed(_wide(trial))
    if any(not bool(each.isfinite().all()) for each in wide.values()):
        wide = own
    largest = max(float(each.norm()) for key, each in wide.items() if key != "loss")
    precision = PRECISION["f32" if name == "f64" and _rounds_to_f32(trial) else name]
    lines = []
    for key, wanted in wide.items():
        # A gradient that is zero except for rounding is compared with the size of the others.
        base = max(float(wanted.norm()), 1e-3 * largest if key != "loss" else 0.1)
        theirs = max(_error(run[key], wanted) for run in runs) * float(wanted.norm()) / base
        given = found.get(key)
        if given is None:
            ours = theirs if not wanted.any() else float("inf")
        else:
            ours = min(_error(given, like) for like in (wanted, own[key]))
            ours *= float(wanted.norm()) / base if ours < float("inf") else 1
        limit = max(precision, DIGITS if key == "loss" else 0) + FACTOR[name] * theirs
        if not ours <= limit:
            lines.append(f"{key}: {ours:.2g} off, PyTorch's {name} is {theirs:.2g} off")
    return lines
