"""Measured runs and layers of 2023 to 2026, predicted like those of validation.py: experts, sharded
data parallelism, small models, FP8 and Blackwell.

The file recent_runs.json says for each source what it states, what it does not, and what is taken
in its place. H100 are those of `h100-sxm-load`, which is fitted to two rows; these stand apart, and
nothing is fitted to the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pipesched
from pipesched import Configuration, Costs, FamilyOptions, Path

from .study import data
from .validation import TITAN_MEMORY, TORCHAO_BITS, Row, peak_gib, tokens_per_s

BLACKWELL = ("b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72")
LOADED = "h100-sxm-load"
"""H100 in a training that lasts, and what of it holds for other parts with the same chip."""
CHIP = ("sustained", "host_time", "matrix", "link")
DOMAIN_USED = 64
"""Of the 72 accelerators of a domain, with degrees that are powers of two."""
MEGATRON_EXPOSED = 75
"""Percent of the collectives of tensor parallelism that Megatron shows: all of a forward, and of a
backward one half, since the other runs beside gradients of weights
(megatron/core/tensor_parallel/layers.py).
"""
MEGATRON = ("megatron-bridge", "nemo", "nemo-long", "megatron-release", "sft", "moe-zoo")
TERMS = {
    "sustained": "sustained",
    "host": "host_time",
    "fp8 curve": "matrix",
    "link": "link",
    "rows by rank": "expert_dispatch",
    "domains": "used_per_node",
    "hidden": "tensor_exposed",
}
"""What can be switched off: a field of `LOADED`, or an option."""


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
    if row["source"].startswith("torchtitan"):
        fields |= {"saved_bits": TORCHAO_BITS, "separate_loss": True}
    return fields


def _system(row: Mapping[str, Any], off: str | None = None) -> dict[str, Any]:
    """The system of a row, without the term `off`."""
    name = "h100-sxm" if row["system"] == "h100-500w" else row["system"]
    fields = _fields(pipesched.systems()[name])
    if name in ("h100-sxm", "h200-sxm"):
        loaded = pipesched.systems()[LOADED]
        fields |= {k: loaded[k] for k in CHIP if k != TERMS.get(off or "")}
    # A layer alone is measured in a few milliseconds, so that its clocks do not fall.
    if row["quantity"].startswith("layer"):
        fields.pop("sustained", None)
    if row["system"] == "h100-500w":
        fields |= {"name": "h100-500w", "memory": {**fields["memory"], **TITAN_MEMORY}}
    return fields


def _options(row: Mapping[str, Any], off: str | None = None) -> dict[str, Any]:
    """How a training is divided beyond its degrees, without the term `off`."""
    found: dict[str, Any] = {}
    if row.get("dispatcher") in ("DeepEP", "HybridEP"):
        found["expert_dispatch"] = "per-rank"
    if row["system"].startswith("gb"):
        found["used_per_node"] = DOMAIN_USED
    if row["source"] in MEGATRON and row.get("tensor", 1) > 1:
        found["tensor_exposed"] = MEGATRON_EXPOSED
    if row.get("async_tensor"):
        found["tensor_exposed"] = async_exposed()
    found.pop(TERMS.get(off or "", ""), None)
    return found


def _attention(row: Mapping[str, Any], model: Mapping[str, Any], system: Mapping[str, Any]) -> Any:
    """The kernel that a row states, or cuDNN's where the system has its rates."""
    if "attention" in row:
        return row["attention"]
    head = model.get("head_size") or model["hidden"] // model["attention_heads"]
    kernels = {(k["kernel"], k["head_size"]) for k in system.get("attention", ())}
    return "cudnn" if ("cudnn", head) in kernels and "latent_attention" not in model else "fused"


def gradient_bytes(row: Mapping[str, Any]) -> int:
    """In how many bytes a row sums gradients: FP32 unless its source says otherwise."""
    return int(published()["sources"][row["source"]].get("gradient_bytes", 4))


def _costs(row: Mapping[str, Any], off: str | None = None, **options: Any) -> Costs:
    model, system = _model(row), _system(row, off)
    accelerators = row.get("tensor", 1) * row.get("context", 1)
    sharding = row.get("sharding", "optimizer")
    pipelines = row["gpus"] // (accelerators * row.get("pipeline", 1))
    given = {
        "model": model,
        "system": system,
        "accelerators": accelerators,
        "context_parallel": row.get("context", 1),
        "expert_parallel": row.get("expert", 1),
        **_options(row, off),
        "microbatch_size": row["microbatch"],
        "data_parallel": pipelines,
        "sharding": sharding if pipelines > 1 else None,
        "precision": row["precision"],
        "recompute": row.get("recompute"),
        "attention": _attention(row, model, system),
        # FSDP divides the master weights, which the state counts.
        "parameter_bytes": (2, gradient_bytes(row), 10 if sharding == "full" else 12),
    }
    return Costs(**{k: v for k, v in (given | options).items() if v is not None})


def point(row: Mapping[str, Any], off: str | None = None, **options: Any) -> Configuration:
    """The step of a row, without the term `off`; options replace those of its costs."""
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
        costs=_costs(row, off, **options),
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


def _layer_ms(row: Mapping[str, Any], made: Configuration, off: str | None) -> float:
    """The layer of experts alone: a layer less one with an MLP of width 1 in its place, which costs
    under 1 % of it.
    """
    assert made.costs is not None and isinstance(made.costs.model, dict)
    bare = {k: v for k, v in made.costs.model.items() if k != "experts"} | {"feedforward": 1}
    costs = _costs(row, off, model=bare, expert_parallel=None, expert_dispatch=None)
    cell = "FB".index(row["quantity"][-1])

    def ms(costs: Costs) -> float:
        cells = Configuration("1f1b", 1, 1, costs=costs).simulate().to_frame()
        return float((cells.end_ps - cells.start_ps).iloc[cell]) / 1e9

    return ms(made.costs) - ms(costs)


def predicted(row: Mapping[str, Any], off: str | None = None, **options: Any) -> float:
    """What we predict for a row, in its unit, without the term `off`."""
    made = point(row, off, **options)
    if row["quantity"].startswith("layer"):
        return _layer_ms(row, made, off)
    if row["quantity"] == "memory":
        return peak_gib(made.simulate(), row.get("tensor", 1) * row.get("context", 1))
    if row["quantity"] == "step":
        return made.simulate().execution.makespan_ps / 1e12
    return _tflops(row, made) if row["unit"].startswith("TFLOP/s") else _tokens(row, made)


# Fits


def _find(case: str) -> dict[str, Any]:
    found: dict[str, Any] = next(row for row in published()["rows"] if row["case"] == case)
    return found


FITTED = ("Qwen3 8B, BF16", "Qwen3 235B, EP 8, TP 4, PP 8", "70B, BF16, asynchronous TP")
"""The rows to which `sustained`, `launch_us` and what AsyncTP shows are fitted, in this order."""


def _with(row: Mapping[str, Any], **fields: Any) -> float:
    """What a row would be predicted with other fields of the system, beside the measurement."""
    return predicted(row, system={**_system(row), **fields}) / float(row["measured"]) - 1


@cache
def fitted_sustained() -> float:
    """The sustained share, to a hundredth, with which the first of `FITTED` is met best."""
    row = _find(FITTED[0])
    return min((s / 100 for s in range(60, 101)), key=lambda s: abs(_with(row, sustained=s)))


@cache
def fitted_launch_us() -> int:
    """The time of a launch, to a microsecond, with which the second of `FITTED` is met best."""
    row, host = _find(FITTED[1]), pipesched.systems()[LOADED]["host_time"]
    return min(
        range(1, 101),
        key=lambda us: abs(_with(row, host_time={**host, "launch_us": us})),
    )


@cache
def async_exposed() -> int:
    """Percent of collectives that AsyncTP shows: what makes 70B in BF16 as much faster than without
    it as was measured.
    """
    fast, plain = _find(FITTED[2]), _find("70B, BF16")
    wanted = fast["measured"] / plain["measured"] * predicted(plain)
    return min(
        range(1, 101),
        key=lambda percent: abs(predicted({**plain}, tensor_exposed=percent) - wanted),
    )


def group(row: Mapping[str, Any]) -> str:
    """The group of a row, for medians: hardware, and what divides the model."""
    if row["case"] in FITTED:
        return "H100, rows of fits"
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


def _curves(row: Mapping[str, Any]) -> str:
    """What the rates of its system are fitted to."""
    if row["case"] in FITTED:
        return "this row"
    return "two rows" if row["system"].startswith(("h100", "h200")) else "as shipped"


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
            _curves(row),
            point(row),
            group(row),
            row.get("cluster", ""),
        )
