"""Small models for the tests of frontends: a GPT, and one with the parts of a Llama."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, CONTEXT = 23, 8, 6

Batch = tuple[Tensor, Tensor]


class Embedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)

    def forward(self, numbers: Tensor) -> Tensor:
        found: Tensor = self.tokens(numbers) + self.places(torch.arange(numbers.shape[1]))
        return found


class Attention(nn.Module):
    """With half as many heads of keys and values, and places turned into keys and queries."""

    seen: Tensor

    def __init__(self, heads: int, pairs: int) -> None:
        super().__init__()
        seen = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).tril()
        self.register_buffer("seen", seen, persistent=False)
        self.heads, self.pairs, self.size = heads, pairs, WIDTH // heads
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, pairs * self.size, bias=False)
        self.value = nn.Linear(WIDTH, pairs * self.size, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor] | None = None) -> Tensor:
        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(*y.shape[:2], heads, self.size).transpose(1, 2)

        query, key = split(self.query(x), self.heads), split(self.key(x), self.pairs)
        if turn is not None:
            query, key = (y * turn[0] + turned(y) * turn[1] for y in (query, key))
        mixed = functional.scaled_dot_product_attention(
            query, key, split(self.value(x), self.pairs), attn_mask=self.seen, enable_gqa=True
        )
        found: Tensor = self.out(mixed.transpose(1, 2).reshape(x.shape))
        return found


def turned(x: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1)


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.attention = Attention(2, 2)
        self.inner = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x))
        found: Tensor = x + self.inner(self.norms[1](x))
        return found


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.scores(self.norm(x))
        return found


def gpt(layers: int = 2, dropout: float = 0.0, tied: bool = False) -> nn.Sequential:
    first, last = Embedding(), Head()
    if tied:
        last.scores.weight = first.tokens.weight
    return nn.Sequential(first, *(Block(dropout) for _ in range(layers)), last)


class LlamaBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(2))
        self.attention = Attention(4, 2)
        self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x), (cos, sin))
        y = self.norms[1](x)
        found: Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return found


class Rotary(nn.Module):
    frequencies: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        found = 1 / (10000 ** (torch.arange(0, size, 2) / size))
        self.register_buffer("frequencies", found, persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        angles = torch.outer(torch.arange(x.shape[1]).float(), self.frequencies)
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


class Llama(nn.Module):
    """Cut at its blocks, so that the rotation of queries and keys passes between all stages."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.rotary = Rotary(WIDTH // 4)
        self.layers = nn.ModuleList(LlamaBlock() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, numbers: Tensor) -> Tensor:
        x = self.tokens(numbers)
        cos, sin = self.rotary(x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        found: Tensor = self.scores(self.norm(x))
        return found


def loss(scores: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def batches(count: int, size: int) -> list[Batch]:
    """Batches of numbers, each with the one that follows."""
    chance = torch.Generator().manual_seed(1)
    whole = [torch.randint(VOCABULARY, (size, CONTEXT + 1), generator=chance) for _ in range(count)]
    return [(each[:, :-1], each[:, 1:]) for each in whole]


def trained(
    model: nn.Module,
    data: list[Batch],
    microbatches: int,
    optimizer: torch.optim.Optimizer,
    loss: Callable[[Tensor, Tensor], Tensor] = loss,
) -> list[float]:
    losses = []
    for inputs, targets in data:
        parts = zip(inputs.chunk(microbatches), targets.chunk(microbatches), strict=True)
        found = [loss(model(x), y) / microbatches for x, y in parts]
        torch.autograd.backward(found)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(sum(each.item() for each in found))
    return losses
