"""Compares a head in shards with the whole head, in float64.

usage: vocabulary_ranks.py FOLDER SECONDS, started as `runtime_ranks.py` is.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from pipesched.torch.vocabulary import VocabularyEmbedding, VocabularyHead, broadcast, head_rows
from runtime_ranks import main, train_each
from torch import Tensor
from torch.nn import functional

HIDDEN, TOKENS = 6, 11
CASES: dict[str, dict[str, Any]] = {
    "even": {"vocabulary": 24},
    "padded": {"vocabulary": 25},
    "as many as ranks": {"vocabulary": 0},
    "large logits": {"vocabulary": 24, "factor": 1e4},
    "far below zero": {"vocabulary": 24, "factor": 1e3, "shift": -1e5},
    "ignored": {"vocabulary": 24, "ignored": 4},
    "biased": {"vocabulary": 24, "bias": True},
    "scaled": {"vocabulary": 24, "scale": 0.125},
}


@dataclass(frozen=True)
class VocabularyJob:
    """All cases over some ranks."""

    name: str
    ranks: int


def apart(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    largest = float(wanted.abs().max()) if wanted.numel() else 0.0
    difference = float((found - wanted).abs().max()) if wanted.numel() else 0.0
    return difference / largest if largest else difference


def compare(case: dict[str, Any], early: bool, group: dist.ProcessGroup) -> dict[str, float]:
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    vocabulary = case["vocabulary"] or ranks
    torch.manual_seed(7)
    weight = torch.randn(vocabulary, HIDDEN, dtype=torch.float64)
    bias = torch.randn(vocabulary, dtype=torch.float64) if case.get("bias") else None
    if case.get("shift"):
        bias = torch.full((vocabulary,), case["shift"], dtype=torch.float64)
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.float64) * case.get("factor", 1)
    targets = torch.randint(vocabulary, (TOKENS,))
    targets[: case.get("ignored", 0)] = -100
    scale = case.get("scale", 1.0)

    whole = [t.clone().requires_grad_() for t in (x, weight)]
    whole_bias = None if bias is None else bias.clone().requires_grad_()
    loss = functional.cross_entropy(functional.linear(whole[0], whole[1], whole_bias), targets)
    (loss * scale).backward()

    rows = head_rows(vocabulary, rank, ranks)
    head = VocabularyHead(weight[rows], vocabulary, group, None if bias is None else bias[rows])
    own = x.clone() if rank == ranks - 1 else torch.empty_like(x)
    logits = head.logits(broadcast(own, ranks - 1, group), targets, early=early)
    found = logits.combine()
    logits.backward(scale)
    gradient = logits.reduce()
    assert head.weight.grad is not None and whole[0].grad is not None
    assert whole[1].grad is not None
    result = {
        "loss": apart(found, loss.detach()),
        "input": apart(gradient, whole[0].grad),
        "weight": apart(head.weight.grad, whole[1].grad[rows]),
    }
    if head.bias is not None and whole_bias is not None and whole_bias.grad is not None:
        assert head.bias.grad is not None
        result["bias"] = apart(head.bias.grad, whole_bias.grad[rows])
    return result


def compare_tied(group: dist.ProcessGroup) -> dict[str, float]:
    """Takes two microbatches through an embedding and a head with one weight."""
    torch.manual_seed(8)
    weight = torch.randn(21, HIDDEN, dtype=torch.float64)
    tokens = torch.randint(21, (2, TOKENS))
    whole = weight.clone().requires_grad_()
    rows = head_rows(21, dist.get_rank(group), dist.get_world_size(group))
    head = VocabularyHead(weight[rows], 21, group)
    embedding = VocabularyEmbedding(head.weight, 21, group)
    worst = 0.0
    for each in tokens:
        wanted = functional.cross_entropy(
            functional.linear(functional.embedding(each, whole).tanh(), whole), each.roll(1)
        )
        wanted.backward()  # type: ignore[no-untyped-call]
        looked = embedding.lookup(each)
        x = looked.tanh()
        logits = head.logits(x, each.roll(1))
        worst = max(worst, apart(logits.combine(), wanted.detach()))
        logits.backward()
        embedding.backward(each, logits.reduce() * (1 - x * x))
    assert head.weight.grad is not None and whole.grad is not None
    return {"loss": worst, "weight": apart(head.weight.grad, whole.grad[rows])}


def run(job: VocabularyJob, group: dist.ProcessGroup) -> dict[str, dict[str, float]]:
    """Returns the largest relative differences of all cases."""
    found = {
        f"{name} {'vocab-2' if early else 'vocab-1'}": compare(case, early, group)
        for name, case in CASES.items()
        for early in (False, True)
    }
    return {**found, "tied": compare_tied(group)}


if __name__ == "__main__":
    train = partial(train_each, run=run)
    sys.exit(main(train, Path(sys.argv[1]), float(sys.argv[2])))
