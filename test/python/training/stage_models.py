"""The models of examples/stages in PyTorch, from parameters by stage and name."""

from __future__ import annotations

import argparse

from torch import Tensor
from torch.nn import functional

Parameters = dict[str, Tensor]


def normed(x: Tensor, given: Parameters, name: str, kind: str) -> Tensor:
    scale = given[f"{name}.scale"]
    if kind == "rms":
        return functional.rms_norm(x, scale.shape, scale, eps=1e-5)
    return functional.layer_norm(x, scale.shape, scale, given[f"{name}.shift"], eps=1e-5)


def dense(x: Tensor, given: Parameters, name: str) -> Tensor:
    return functional.linear(x, given[name].T, given.get(f"{name}.bias"))


def layer(x: Tensor, given: Parameters, chosen: argparse.Namespace) -> Tensor:
    batch, length, width = x.shape
    y = normed(x, given, "norm1", chosen.norm)
    query, key, value = (
        dense(y, given, f"attention.{part}").view(batch, length, chosen.heads, -1).transpose(1, 2)
        for part in "qkv"
    )
    mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    mixed = mixed.transpose(1, 2).reshape(batch, length, width)
    x = x + dense(mixed, given, "attention.out")
    hidden = dense(normed(x, given, "norm2", chosen.norm), given, "mlp.in")
    kind = "tanh" if chosen.gelu == "tanh" else "none"
    return x + dense(functional.gelu(hidden, approximate=kind), given, "mlp.out")


def transformer(tokens: Tensor, stages: list[Parameters], chosen: argparse.Namespace) -> Tensor:
    """The scores of the next token."""
    x = functional.embedding(tokens.long(), stages[0]["embedding.tokens"])
    x = x + stages[0]["embedding.places"]
    for given, layers in zip(stages, chosen.layers, strict=True):
        for number in range(layers):
            prefix = f"layer{number}."
            mine = {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}
            x = layer(x, mine, chosen)
    return dense(normed(x, stages[-1], "final", chosen.norm), stages[-1], "head")


def transformer_loss(scores: Tensor, target: Tensor, microbatches: int) -> Tensor:
    mean = functional.cross_entropy(scores.flatten(0, 1), target.long().flatten())
    return mean / microbatches


def perceptron(x: Tensor, stages: list[Parameters], chosen: argparse.Namespace) -> Tensor:
    for given in stages:
        x = functional.linear(x, given["w"].T, given.get("b"))
        x = functional.relu(x) if given is not stages[-1] else x
    return x


def perceptron_loss(y: Tensor, target: Tensor, microbatches: int) -> Tensor:
    return (y - target).square().sum() / (2 * len(y) * microbatches)
