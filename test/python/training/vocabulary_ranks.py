"""A rank of test_torch_vocabulary.py: a head in shards beside the whole head, in float64.

Usage: vocabulary_ranks.py RANK RANKS STORE; prints the largest relative differences as JSON.
"""

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from pipesched.torch.vocabulary import (
    VocabularyEmbedding,
    VocabularyHead,
    broadcast,
    head_rows,
)
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


def apart(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest number."""
    largest = float(wanted.abs().max()) if wanted.numel() else 0.0
    difference = float((found - wanted).abs().max()) if wanted.numel() else 0.0
    return difference / largest if largest else difference


def run(case: dict[str, Any], early: bool, rank: int, ranks: int) -> dict[str, float]:
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
    head = VocabularyHead(weight[rows], vocabulary, bias=None if bias is None else bias[rows])
    own = x.clone() if rank == ranks - 1 else torch.empty_like(x)
    logits = head.logits(broadcast(own, ranks - 1), targets, early=early)
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


def run_tied(rank: int, ranks: int) -> dict[str, float]:
    """Two microbatches through an embedding and a head with one weight."""
    torch.manual_seed(8)
    weight = torch.randn(21, HIDDEN, dtype=torch.float64)
    tokens = torch.randint(21, (2, TOKENS))
    whole = weight.clone().requires_grad_()
    rows = head_rows(21, rank, ranks)
    head = VocabularyHead(weight[rows], 21)
    embedding = VocabularyEmbedding(head.weight, 21)
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


def main() -> None:
    rank, ranks = int(sys.argv[1]), int(sys.argv[2])
    place = f"file://{sys.argv[3]}"
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=ranks)
    found = {
        f"{name} {algorithm}": run(case, algorithm == "vocab-2", rank, ranks)
        for name, case in CASES.items()
        for algorithm in ("vocab-1", "vocab-2")
    }
    found["tied"] = run_tied(rank, ranks)
    print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
