"""Models for the tests of `pipesched.torch`: a list of blocks, and batches for them.

Everything is in float64 and depends only on numbers, so that every process makes the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

WIDTH = 6
"""One width for all activations, so that the shape does not reveal an exchanged message."""
SAMPLES = 2
Value = Any


class Plain(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.inner = nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64)
        self.outer = nn.Linear(2 * WIDTH, WIDTH, dtype=torch.float64)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.outer(torch.tanh(self.inner(x)))
        return result


class Dropped(Plain):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.3, self.training)


class Counted(Plain):
    """With statistics of the batch, which a forward changes, and which the output depends on."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.norm = nn.BatchNorm1d(WIDTH, dtype=torch.float64)
        self.forwards: Tensor
        self.register_buffer("forwards", torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.forwards += 1
        result: Tensor = self.norm(super().forward(x)) * (1 + self.forwards / 8)
        return result


class Doubling(torch.autograd.Function):
    runs = 0
    """Of its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        Doubling.runs += 1
        (gradient,) = gradients
        x, w = ctx.saved_tensors
        return gradient * w, (gradient * x).sum(0)


class Shared(nn.Module):
    """Uses a layer and weights twice, a custom function, a hook, a slice, and one weight not at
    all.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layer = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.scale = nn.Parameter(torch.rand(WIDTH, dtype=torch.float64) + 0.5)
        self.unused = nn.Parameter(torch.rand(WIDTH, dtype=torch.float64))
        self.pair = nn.Parameter(torch.rand(2, WIDTH, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        normal = self.scale / self.scale.norm()
        hidden: Tensor = torch.sin(self.layer(x)) * normal + self.pair[0]
        if hidden.requires_grad:
            hook: Any = hidden.register_hook
            hook(lambda gradient: 2 * gradient)
        apply: Any = Doubling.apply
        product: Tensor = apply(torch.tanh(self.layer(hidden)), self.scale)
        result: Tensor = x + product * self.pair[1] + normal
        return result


class Forked(nn.Module):
    """Passes three tensors on; one is of integers, and one depends only on parameters."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layer = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.bias = nn.Parameter(torch.rand(WIDTH, dtype=torch.float64))
        self.number = number

    def forward(self, *given: Value) -> Value:
        x, order, bias = given[0] if len(given) == 1 else given
        assert not order.is_floating_point() and order.tolist() == list(range(WIDTH))
        hidden = torch.tanh(self.layer(x[:, order]))
        if bias is not None:
            hidden = hidden + bias
        return x + hidden, order, torch.exp(self.bias)


class Mapped(nn.Module):
    """Passes a dict on, with numbers, nested tuples, and a tensor that nothing differentiates."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(number)
        self.layer = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
        self.number = number

    def forward(self, given: dict[str, Any]) -> Value:
        assert given["count"] == self.number
        x, (weights, none) = given["x"], given["more"]
        assert none is None and not weights.requires_grad
        return {
            "x": x + torch.tanh(self.layer(x)) * weights,
            "more": (weights, None),
            "count": self.number + 1,
        }


class Embedded(nn.Module):
    """An embedding in front, a layer in the middle, and a head that is the embedding again."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.table = nn.Parameter(torch.rand(WIDTH, WIDTH, dtype=torch.float64))
        self.is_first = number == 0

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ (self.table if self.is_first else self.table.t()))


def loss_of(output: Value, target: Tensor) -> Tensor:
    if isinstance(output, tuple):
        output = output[0] + output[2]
    if isinstance(output, dict):
        output = output["x"]
    return nn.functional.mse_loss(output, target)


def block_of(model: str, number: int, count: int) -> nn.Module:
    if model == "tied":
        return Embedded(number) if number in (0, count - 1) else Plain(number)
    kinds: dict[str, Callable[[int], nn.Module]] = {
        "plain": Plain,
        "dropped": Dropped,
        "counted": Counted,
        "shared": Shared,
        "forked": Forked,
        "mapped": Mapped,
    }
    return kinds[model](number)


def batch_of(model: str, step: int, count: int, is_uneven: bool) -> tuple[list[Value], list[Value]]:
    generator = torch.Generator().manual_seed(step)
    inputs: list[Value] = []
    targets: list[Value] = []
    for number in range(count):
        samples = 1 + (number + step) % 3 if is_uneven else SAMPLES
        both = torch.randn((2, samples, WIDTH), generator=generator, dtype=torch.float64)
        x: Value = both[0]
        if model == "forked":
            x = (x, torch.arange(WIDTH), None)
        if model == "mapped":
            x = {"x": x, "more": (torch.full((WIDTH,), 0.5, dtype=torch.float64), None), "count": 0}
        inputs.append(x)
        targets.append(both[1])
    return inputs, targets
