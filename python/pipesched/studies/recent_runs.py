"""Measured runs and layers of 2023 to 2026, predicted like those of validation.py: experts, sharded
data parallelism, small models, FP8 and Blackwell.

The file recent_runs.json says for each source what it states, what it does not, and what is taken
in its place. Nothing is fitted to these rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pipesched
from pipesched import Configuration, Costs, FamilyOptions, Path

from .study import data
from .validation import TITAN_MEMORY, Row, peak_gib, tokens_per_s

BLACKWELL = ("b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72")


@cache
def published() -> dict[str, Any]:
    """The measurements, which ship with the package.

    >>> len(published()["rows"]) > 60
    True
    """
    return data("recent_runs.json")


def _fields(description: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in description.items() if k not in ("aliases", "sources")}


def _model(row: Mapping[str, Any]) -> dict[str, Any]:
    """The model of a row: one of the file, or one that ships."""
    own = published()["models"].get(row["model"])
    fields = _fields(own if own is not None else pipesched.models()[row["model"]])
    fields |= {"name": row["model"], "description": row["model"], "sequence": row["sequence"]}
    if row.get("repeated"):
        fields["repeated_key_values"] = True
    if "recomputed" in row:
        fields["recomputed"] = row["recomputed"]
    return fields


def _system(row: Mapping[str, Any]) -> dict[str, Any]:
    if row["system"] != "h100-500w":
        return _fields(pipesched.systems()[row["system"]])
    fields = _fields(pipesched.systems()["h100-sxm"])
    return {**fields, "name": "h100-500w", "memory": {**fields["memory"], **TITAN_MEMORY}}


def _attention(row: Mapping[str, Any], model: Mapping[str, Any], system: Mapping[str, Any]) -> Any:
    """The kernel that a row states, or cuDNN's where the system has its rates."""
    if "attention" in row:
        return row["attention"]
    head = model.get("head_size") or model["hidden"] // model["attention_heads"]
    kernels = {(k["kernel"], k["head_size"]) for k in system.get("attention", ())}
    return "cudnn" if ("cudnn", head) in kernels and "latent_attention" not in model else "fused"


def _costs(row: Mapping[str, Any], **options: Any) -> Costs:
    model, system = _model(row), _system(row)
    accelerators = row.get("tensor", 1) * row.get("context", 1)
    sharding = row.get("sharding", "optimizer")
    pipelines = row["gpus"] // (accelerators * row.get("pipeline", 1))
    given = {
        "model": model,
        "system": system,
        "accelerators": accelerators,
        "context_parallel": row.get("context", 1),
        "expert_parallel": row.get("expert", 1),
        "expert_dispatch": "per-node" if row.get("dispatcher") in ("DeepEP", "HybridEP") else None,
        "microbatch_size": row["microbatch"],
        "data_parallel": pipelines,
        "sharding": sharding if pipelines > 1 else None,
        "precision": row["precision"],
        "recompute": row.get("recompute"),
        "attention": _attention(row, model, system),
        # FP32 sums of gradients; FSDP divides the master weights, which the state counts.
        "parameter_bytes": (2, 4, 10 if sharding == "full" else 12),
    }
    return Costs(**{k: v for k, v in (given | options).items() if v is not None})


def point(row: Mapping[str, Any], **options: Any) -> Configuration:
    """The step of a row; options replace those of its costs."""
    workers, chunks = row.get("pipeline", 1), row.get("chunks", 1)
    pipelines = row["gpus"] // (row.get("tensor", 1) * row.get("context", 1) * workers)
    microbatches = row["batch"] // (pipelines * row["microbatch"])
    stages, layers = workers * chunks, _model(row)["layers"]
    # With more stages than layers, embedding and head have stages of their own.
    blocks = [0, *[1] * (stages - 2), 0]
    path = Path([stage % workers for stage in range(stages)], blocks=blocks)
    return Configuration(
        "1f1b" if chunks == 1 else "interleaved-1f1b",
        workers,
        microbatches,
        FamilyOptions() if chunks == 1 else FamilyOptions(chunks=chunks),
        paths=[path] if stages > layers else None,
        costs=_costs(row, **options),
        optimizer_step="none" if row["quantity"].startswith("layer") else "overlapped",
    )


# Quantities


def _tokens(row: Mapping[str, Any], made: Configuration) -> float:
    return tokens_per_s(row["batch"], row["gpus"], made.simulate(), row["sequence"])


def _tflops(row: Mapping[str, Any], made: Configuration) -> float:
    from .large_runs import flops_per_token

    assert made.costs is not None
    per_token = flops_per_token(made.costs, counts_masked=row.get("counts_masked", False))
    return _tokens(row, made) * per_token / 1e12


def _layer_ms(row: Mapping[str, Any], made: Configuration) -> float:
    """The layer of experts alone: a layer less one with an MLP of width 1 in its place, which costs
    under 1 % of it.
    """
    assert made.costs is not None and isinstance(made.costs.model, dict)
    bare = {k: v for k, v in made.costs.model.items() if k != "experts"} | {"feedforward": 1}
    costs = _costs(row, model=bare, expert_parallel=None, expert_dispatch=None)
    cell = "FB".index(row["quantity"][-1])

    def ms(costs: Costs) -> float:
        cells = Configuration("1f1b", 1, 1, costs=costs).simulate().to_frame()
        return float((cells.end_ps - cells.start_ps).iloc[cell]) / 1e9

    return ms(made.costs) - ms(costs)


def predicted(row: Mapping[str, Any], **options: Any) -> float:
    """What we predict for a row, in its unit."""
    made = point(row, **options)
    if row["quantity"].startswith("layer"):
        return _layer_ms(row, made)
    if row["quantity"] == "memory":
        return peak_gib(made.simulate(), row.get("tensor", 1) * row.get("context", 1))
    if row["quantity"] == "step":
        return made.simulate().execution.makespan_ps / 1e12
    return _tflops(row, made) if row["unit"].startswith("TFLOP/s") else _tokens(row, made)


def group(row: Mapping[str, Any]) -> str:
    """The group of a row, for medians: hardware, and what divides the model."""
    if row["quantity"] == "memory":
        return "memory, recent"
    if row["system"] in BLACKWELL:
        return "Blackwell, experts" if "expert" in row and row["expert"] > 1 else "Blackwell, dense"
    if row["quantity"].startswith("layer"):
        return "H100, layers of experts"
    if row.get("expert", 1) > 1:
        return "H100, experts"
    if row["system"].startswith("a100"):
        return "A100, FSDP"
    if row.get("tensor", 1) >= 8:
        return f"H100, tensor 8, {row['precision'].upper()}"
    if row.get("sharding") == "full":
        return "H100, FSDP"
    return f"H100, tensor 1 to 4, {row['precision'].upper()}"


def rows() -> Iterator[Row]:
    """All of them."""
    for row in published()["rows"]:
        yield Row(
            row["source"],
            f"{row['case']}, {row['system'].split('-')[0].upper()}",
            row["quantity"],
            row["unit"],
            row["measured"],
            predicted(row),
            "as shipped",
            point(row),
            group(row),
            row.get("cluster", ""),
        )
