"""A small GPT on characters, as a list of layers that a pipeline can cut anywhere.

`pipesched run --model examples/gpt` asks this file for the functions at its end (docs/Command.md,
"Training"). The layers are independent of pipelines, except for two lines for schedules that cut
sequences into slices: places count from `first_token`, and attention is from
`pipesched.torch.slices` (docs/Torch.md, "Slices").
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from pipesched.torch import slices
from torch import Tensor, nn
from torch.nn import functional

TEXT = Path(__file__).with_name("persuasion.txt").read_text(encoding="ascii")
ALPHABET = sorted(set(TEXT))


class Embedding(nn.Module):
    """The vector of each character plus the vector of its place."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(ALPHABET), width)
        self.places = nn.Embedding(context, width)

    def forward(self, numbers: Tensor) -> Tensor:
        places = slices.first_token() + torch.arange(numbers.shape[1], device=numbers.device)
        embedded: Tensor = self.characters(numbers) + self.places(places)
        return embedded


class Block(nn.Module):
    """Attention to the characters before, then a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        projected = self.project(self.norms[0](x))
        split = projected.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = slices.scaled_dot_product_attention(query, key, value)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        added: Tensor = x + self.perceptron(self.norms[1](x))
        return added


class Head(nn.Module):
    """A score for each character that may come next."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, len(ALPHABET))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.norm(x))
        return scores


def model(layers: int = 8, width: int = 64, heads: int = 4, context: int = 64) -> nn.Sequential:
    """The layers, from the first to the last."""
    if width % heads:
        raise ValueError(f"width {width} cannot be divided among {heads} heads")
    blocks = (Block(width, heads) for _ in range(layers))
    return nn.Sequential(Embedding(width, context), *blocks, Head(width))


def loss(scores: Tensor, following: Tensor) -> Tensor:
    """The mean cross entropy of the characters that follow, in nats."""
    return functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def batches(size: int, seed: int, context: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end: `size` pieces of the text, and the same moved by one character."""
    numbers = {character: number for number, character in enumerate(ALPHABET)}
    text = torch.tensor([numbers[character] for character in TEXT])
    chance = torch.Generator().manual_seed(seed)
    while True:
        begins = torch.randint(len(text) - context, (size, 1), generator=chance)
        places = begins + torch.arange(context)
        yield text[places], text[places + 1]


def tokens(numbers: Tensor) -> int:
    """The number of characters in a batch, for the displayed speed."""
    return numbers.numel()
