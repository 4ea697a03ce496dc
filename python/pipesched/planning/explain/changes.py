"""What might help a configuration that does not fit: changes of its shape, likelier ones first."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

from ...costs.frameworks import sharding_of
from ...support.options import Recompute, Sharding, names_of
from ..candidate import Shape
from ..request import Request, divisors

MORE = (2, 4, 8, 16)
"""Factors by which to increase the number of accelerators if a configuration does not fit."""


def _more_recompute(shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    kinds: tuple[Recompute, ...] = names_of(Recompute)
    for kind in kinds[kinds.index(shape.recompute) + 1 :]:
        yield f"recompute {kind}", {"recompute": kind}


def _more_sharding(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    kinds: tuple[Sharding, ...] = names_of(Sharding)
    framework = request.framework.name
    if shape.data > 1:
        for kind in kinds[kinds.index(shape.sharding) + 1 :]:
            if sharding_of(framework, shape.pipeline, kind) == kind:
                yield f"sharding {kind}", {"sharding": kind}


def _smaller_microbatches(shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    local = shape.microbatch_size * shape.microbatches
    smaller = [size for size in divisors(local) if size < shape.microbatch_size]
    if smaller:
        size = smaller[-1]
        changes = {"microbatch_size": size, "microbatches": local // size}
        yield f"microbatches of {size}", changes


def _other_degrees(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """More stages or a higher tensor degree, in place of replicas."""
    if shape.data == 1:
        return
    factor = divisors(shape.data)[1]
    data, heads = shape.data // factor, request.sizes["key_value_heads"]
    changes: dict[str, Any] = {"data": data, "microbatches": shape.microbatches * factor}
    if data * shape.context == 1:
        changes["sharding"] = "none"
    stages, tensor = shape.pipeline * factor, shape.tensor * factor
    if stages <= request.sizes["layers"]:
        yield f"pp {stages}", {**changes, "pipeline": stages}
    if request.node % tensor == 0 and heads % tensor == 0:
        yield f"tensor {tensor}", {**changes, "tensor": tensor}


def _more_parts(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """More accelerators for the experts of a stage, or for a sequence in place of replicas."""
    if request.experts:
        larger = [d for d in divisors(gcd(request.experts, shape.stage)) if d > shape.expert]
        for degree in larger[:1]:
            yield f"expert {degree}", {"expert": degree}
    context = 2 * shape.context
    if shape.data % 2 == 0 and request.sizes["sequence"] % (2 * context) == 0:
        changes = {"data": shape.data // 2, "microbatches": 2 * shape.microbatches}
        yield f"context {context}", {**changes, "context": context}


def _more_accelerators(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    for factor in MORE:
        stages = shape.pipeline * factor
        if stages <= request.sizes["layers"]:
            gpus = f"{request.gpus * factor} accelerators, pp {stages}"
            yield gpus, {"pipeline": stages}


def changes_of(request: Request, shape: Shape) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes of a shape, each with its name in words."""
    yield from _more_recompute(shape)
    yield from _smaller_microbatches(shape)
    yield from _more_sharding(request, shape)
    yield from _more_parts(request, shape)
    yield from _other_degrees(request, shape)
    yield from _more_accelerators(request, shape)
