"""Heads and embeddings in shards: together they are the whole ones, in one process."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="needs PyTorch: pip install 'pipesched[test]'")

import torch
import torch.distributed as dist
from pipesched.torch import PipelineError
from pipesched.torch.vocabulary import (
    VocabularyEmbedding,
    VocabularyHead,
    head_rows,
    padded_vocabulary,
)
from torch import Tensor
from torch.nn import functional

PRECISION = 1e-12
HIDDEN, TOKENS = 6, 11
CASES: dict[str, dict[str, Any]] = {
    "even": {},
    "padded": {"entries": 25},
    "as many as ranks": {"entries": 0},
    "large logits": {"factor": 1e4},
    "far below zero": {"factor": 1e3, "shift": -1e5},
    "ignored": {"ignored": 4},
    "biased": {"is_biased": True},
    "scaled": {"scale": 0.125},
}


def heads_of(
    monkeypatch: pytest.MonkeyPatch, ranks: int, weight: Tensor, bias: Tensor | None = None
) -> list[VocabularyHead]:
    made = []
    monkeypatch.setattr(dist, "get_world_size", lambda _: ranks)
    for rank in range(ranks):
        monkeypatch.setattr(dist, "get_rank", lambda _, rank=rank: rank)
        rows = head_rows(len(weight), rank, ranks)
        own = None if bias is None else bias[rows]
        made.append(VocabularyHead(weight[rows], len(weight), None, own))
    return made


def assert_near(found: Tensor, wanted: Tensor | None) -> None:
    assert wanted is not None
    largest = float(wanted.abs().max())
    assert float((found - wanted).abs().max()) <= PRECISION * (largest or 1)


def joined(parts: list[Tensor | None]) -> Tensor:
    return torch.cat([part for part in parts if part is not None])


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("name", CASES)
def test_shards_are_the_whole_head(
    name: str, ranks: int, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = {"entries": 24, "factor": 1.0, "scale": 1.0, "ignored": 0, **CASES[name]}
    entries, scale = case["entries"] or ranks, case["scale"]
    torch.manual_seed(7)
    weight = torch.randn(entries, HIDDEN, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(entries, dtype=torch.float64) if "is_biased" in case else None
    if "shift" in case:
        bias = torch.full((entries,), case["shift"], dtype=torch.float64)
    bias = None if bias is None else bias.requires_grad_()
    x = (torch.randn(TOKENS, HIDDEN, dtype=torch.float64) * case["factor"]).requires_grad_()
    targets = torch.randint(entries, (TOKENS,))
    targets[: case["ignored"]] = -100
    loss = functional.cross_entropy(functional.linear(x, weight, bias), targets)
    torch.autograd.backward(loss * scale)
    heads = heads_of(monkeypatch, ranks, weight.detach(), bias)
    every = [head.logits(x, targets, early=early) for head in heads]
    numbers = torch.stack([each.numbers() for each in every])
    for each in every:
        assert_near(each.join(numbers), loss.detach())
        each.backward(scale)
    assert_near(sum((each.part for each in every[1:]), every[0].part), x.grad)
    assert_near(joined([head.weight.grad for head in heads]), weight.grad)
    if bias is not None:
        assert_near(joined([h.bias.grad for h in heads if h.bias is not None]), bias.grad)


@pytest.mark.parametrize("ranks", [1, 3])
def test_an_embedding_shares_the_weight_of_a_head(
    ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(8)
    weight = torch.randn(21, HIDDEN, dtype=torch.float64, requires_grad=True)
    heads = heads_of(monkeypatch, ranks, weight.detach())
    shards = []
    for rank, head in enumerate(heads):
        monkeypatch.setattr(dist, "get_rank", lambda _, rank=rank: rank)
        shards.append(VocabularyEmbedding(head.weight, 21))
    for tokens in torch.randint(21, (2, TOKENS)):
        rows = functional.embedding(tokens, weight)
        torch.autograd.backward(rows.sum())
        parts = [each.part(tokens) for each in shards]
        assert_near(sum(parts[1:], parts[0]), rows.detach())
        for each in shards:
            each.backward(tokens, torch.ones_like(rows))
    assert_near(joined([head.weight.grad for head in heads]), weight.grad)


def test_rows_cover_the_vocabulary() -> None:
    assert padded_vocabulary(50257, 8) == 50272
    assert padded_vocabulary(32000, 8) == 32000
    for ranks in range(1, 7):
        for entries in range(ranks, 60):
            rows = [head_rows(entries, rank, ranks) for rank in range(ranks)]
            assert [i for r in rows for i in range(entries)[r]] == list(range(entries))
    with pytest.raises(PipelineError, match="a vocabulary of 3 has no shard for each of 4 ranks"):
        head_rows(3, 0, 4)


def test_wrong_uses_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    (head,) = heads_of(monkeypatch, 1, torch.ones(8, 2))
    with pytest.raises(PipelineError, match=r"rank 0 has entries 0 to 8 .* found \[7, 2\]"):
        VocabularyHead(torch.ones(7, 2), 8)
    with pytest.raises(PipelineError, match=r"takes an input of \[tokens, 2\]"):
        head.logits(torch.ones(3, 4), torch.zeros(3, dtype=torch.long))
    with pytest.raises(PipelineError, match="the target of token 1 is 8, outside"):
        head.logits(torch.ones(2, 2), torch.tensor([0, 8]))
    logits = head.logits(torch.ones(2, 2), torch.tensor([0, 7]))
    with pytest.raises(PipelineError, match="Z comes after T"):
        logits.part  # noqa: B018
    with pytest.raises(PipelineError, match="T comes after Y"):
        logits.backward()
