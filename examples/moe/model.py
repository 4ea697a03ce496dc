"""A small language model with experts, whose layers define their parts.

A rank holds the experts of its place in a group; rows of words are sent to the ranks of their
experts and back by all-to-alls. `pipesched.torch.parts` has the base class of layers for which
these overlap with the compute of another microbatch (docs/Torch.md, "Layers in parts"). Without a
group a rank has all experts and exchanges no rows, as in `pipesched run --model examples/moe`.
`train.py` trains pipelines side by side that share the experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from pipesched.torch.parts import AllToAll, LayerInParts
from torch import Tensor, nn
from torch.nn import functional

WORDS = 32


class Embedding(nn.Module):
    """The vector of each word plus the vector of its place."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.places = nn.Embedding(context, width)

    def forward(self, numbers: Tensor) -> Tensor:
        places = torch.arange(numbers.shape[1], device=numbers.device)
        embedded: Tensor = self.words(numbers) + self.places(places)
        return embedded


class Expert(nn.Sequential):
    """A perceptron."""

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class Layer(LayerInParts):
    """Attention to the words before, then the experts that the router chooses for each word."""

    def __init__(
        self,
        width: int,
        heads: int,
        experts: int,
        chosen: int,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        super().__init__()
        ranks = 1 if group is None else dist.get_world_size(group)
        mine = 0 if group is None else dist.get_rank(group)
        if experts % ranks or chosen > experts:
            raise ValueError(
                f"{experts} experts, of which each word goes to {chosen}, cannot be shared by"
                f" {ranks} ranks"
            )
        self.heads, self.chosen, self.group, self.ranks = heads, chosen, group, ranks
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.router = nn.Linear(width, experts)
        every = [Expert(width) for _ in range(experts)]  # each rank draws the same numbers
        share = experts // ranks
        held = range(mine * share, (mine + 1) * share)
        self.experts = nn.ModuleDict({str(expert): every[expert] for expert in held})

    def attention(self, x: Tensor) -> Any:
        """Also routes the words: rows are sorted by expert."""
        batch, length, width = x.shape
        projected = self.project(self.norms[0](x))
        split = projected.view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(seen.transpose(1, 2).reshape(batch, length, width))
        words = self.norms[1](x).flatten(0, 1)
        weights, experts = self.router(words).softmax(-1).topk(self.chosen)
        order = experts.flatten().argsort(stable=True)
        counts = torch.bincount(experts.flatten(), minlength=self.router.out_features)
        return words[order // self.chosen], x, weights, order, counts, self._arriving(counts)

    def _arriving(self, counts: Tensor) -> Tensor:
        """The number of rows that each expert here gets from each rank."""
        if self.group is None:
            return counts.view(1, -1)
        arriving = torch.empty_like(counts)
        dist.all_to_all_single(arriving, counts, group=self.group)
        return arriving.view(self.ranks, -1)

    def dispatch(self, rows: Tensor, *others: Any) -> Any:
        """Sends each row to the rank of its expert."""
        *_, counts, arriving = others
        return self._exchange(rows, counts.view(self.ranks, -1), arriving), *others

    def _exchange(self, rows: Tensor, sends: Tensor, receives: Tensor) -> Any:
        if self.group is None:
            return rows
        return AllToAll(rows, sends.sum(1).tolist(), receives.sum(1).tolist(), self.group)

    def mlp(self, rows: Tensor, *others: Any) -> Any:
        """Each expert with its rows, which come by rank and then by expert."""
        arriving = others[-1]
        which = torch.arange(arriving.shape[1], device=rows.device).repeat(arriving.shape[0])
        order = which.repeat_interleave(arriving.flatten()).argsort(stable=True)
        pieces = torch.split(rows[order], arriving.sum(0).tolist())
        found = [expert(piece) for expert, piece in zip(self.experts.values(), pieces, strict=True)]
        return torch.cat(found)[order.argsort()], *others

    def combine(self, rows: Tensor, *others: Any) -> Any:
        """Sends the results back."""
        *_, counts, arriving = others
        return self._exchange(rows, arriving, counts.view(self.ranks, -1)), *others

    def output(
        self, rows: Tensor, x: Tensor, weights: Tensor, order: Tensor, *counts: Tensor
    ) -> Tensor:
        """The sum of the outputs of the experts of a word, by the weights of the router."""
        results = rows[order.argsort()].view(*weights.shape, -1)
        return x + (weights.unsqueeze(-1) * results).sum(1).view(x.shape)


class Head(nn.Module):
    """A score for each word that may come next."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scores = nn.Linear(width, WORDS)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.scores(self.norm(x))
        return scores


def model(
    layers: int = 6,
    width: int = 32,
    heads: int = 2,
    experts: int = 4,
    chosen: int = 2,
    context: int = 32,
    group: dist.ProcessGroup | None = None,
) -> nn.Sequential:
    """The layers, from the first to the last. With a group its ranks share the experts."""
    blocks = (Layer(width, heads, experts, chosen, group) for _ in range(layers))
    return nn.Sequential(Embedding(width, context), *blocks, Head(width))


def loss(scores: Tensor, following: Tensor) -> Tensor:
    """The mean cross entropy of the words that follow, in nats."""
    return functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def batches(size: int, seed: int, context: int = 32) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches without end: words that follow each other by one of a few rules."""
    chance = torch.Generator().manual_seed(seed)
    while True:
        words = torch.randint(WORDS, (size, 1), generator=chance)
        steps = torch.randint(1, 4, (size, 1), generator=chance)
        text = (words + steps * torch.arange(context + 1)) % WORDS
        yield text[:, :-1], text[:, 1:]


def tokens(numbers: Tensor) -> int:
    """The number of words in a batch, for the displayed speed."""
    return numbers.numel()
