"""Measured runs and layers of 2023 to 2026, predicted like the runs of validation.py: experts,
sharded data parallelism, small models, FP8 and Blackwell.

The file recent_runs.json lists for each source the facts that it states, the missing ones, and
their substitutes. H100 are under load, which is fitted to two rows, and Blackwell like `b200-sxm`
under load, which is fitted to one. These rows are listed separately; no value is fitted to the
others.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from functools import cache
from typing import Any

import pipesched
from pipesched import Configuration, Costs, FamilyOptions, Path
from pipesched.costs.catalogue import take_rates

from .study import data, fields, flops_per_token, plain_costs
from .validation import TITAN_MEMORY, Row, peak_gib, titan_fields, tokens_per_s

BLACKWELL = ("b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72")
HOPPER = ("h100-sxm", "h200-sxm")
LOADED, BLACKWELL_LOADED = "h100-sxm", "b200-sxm"
"""Accelerators in a training that lasts."""
SUSTAINED_AT_500W = 0.7
"""`sustained` of an H100 that is limited to 500 W; `LOADED` belongs to 700 W."""
CHIP, LOAD = ("sustained", "host_time", "matrix", "link"), ("sustained", "host_time")
"""The part of `LOADED` that holds for other parts with the same chip, and of `BLACKWELL_LOADED`."""
SCALED_IN_BLOCKS = "h800-sxm"
"""The system whose products in FP8 have scales for blocks of 128 elements."""
DOMAIN_USED = 64
"""64 of the 72 accelerators of a domain, with degrees that are powers of two."""
MEGATRON = ("megatron-bridge", "nemo", "nemo-long", "megatron-release", "sft", "moe-zoo")
TERMS = {
    "sustained": "sustained",
    "host": "host_time",
    "fp8 curve": "matrix",
    "link": "link",
    "rows by rank": "expert_dispatch",
    "domains": "used_per_node",
    "hidden": "tensor_overlap",
    "rows hidden": "expert_exposed",
    "scales of blocks": "fp8_blocks",
    "stated recomputation": "recomputed",
}
"""Terms to switch off: a field of a system under load, an option, or a field of a row."""


def published() -> dict[str, Any]:
    """The measurements.

    >>> len(published()["rows"]) > 60
    True
    """
    return data("recent_runs.json")


def _states(row: Mapping[str, Any], field: str, off: str | None) -> bool:
    """Whether a row states a field that is not switched off."""
    return bool(row.get(field)) and TERMS.get(off or "") != field


def _model(row: Mapping[str, Any], off: str | None = None) -> dict[str, Any]:
    """The model of a row, without the term `off`: one of the file, or one that ships."""
    own = published()["models"].get(row["model"])
    made = fields(own if own is not None else pipesched.models()[row["model"]])
    made |= {"name": row["model"], "description": row["model"], "sequence": row["sequence"]}
    if row.get("repeated"):
        made["repeated_key_values"] = True
    if _states(row, "recomputed", off):
        made["recomputed"] = row["recomputed"]
    if _states(row, "fp8_blocks", off):
        made["separate_casts"] = True
    if "prediction_layers" in row:
        made["prediction_layers"] = row["prediction_layers"]
    if is_torchtitan(row):
        has_kernels = published()["sources"][row["source"]].get("separate_loss", False)
        made |= titan_fields(row.get("tensor", 1), has_kernels=has_kernels)
    return made


def is_torchtitan(row: Mapping[str, Any]) -> bool:
    """Whether torchtitan ran it."""
    return bool(row["source"].startswith("torchtitan"))


def _system(row: Mapping[str, Any], off: str | None = None) -> dict[str, Any]:
    """The system of a row, without the term `off`."""
    name = "h100-sxm" if row["system"] == "h100-500w" else row["system"]
    made = fields(pipesched.systems()[name])
    loaded, parts = (LOADED, CHIP) if name in HOPPER else (BLACKWELL_LOADED, LOAD)
    if name in HOPPER + BLACKWELL:
        under_load = take_rates(pipesched.systems()[loaded], "load")
        made |= {k: under_load[k] for k in parts if k != TERMS.get(off or "")}
    if _states(row, "fp8_blocks", off):
        in_blocks = pipesched.systems()[SCALED_IN_BLOCKS]["matrix"]
        rates = {"fp8_efficiency_by_gflop": in_blocks["fp8_efficiency_by_gflop"]}
        made["matrix"] = {**made["matrix"], **rates}
    # A single layer takes a few milliseconds, so that its clocks do not fall, and is repeated, so
    # that the host, which has nothing else to do, runs ahead.
    if row["quantity"].startswith("layer"):
        made.pop("sustained", None)
        made.pop("host_time", None)
    if row["system"] == "h100-500w":
        made |= {"name": "h100-500w", "memory": {**made["memory"], **TITAN_MEMORY}}
        if "sustained" in made:
            made["sustained"] = SUSTAINED_AT_500W
    return made


def _options(
    row: Mapping[str, Any], off: str | None = None, given: Container[str] = ()
) -> dict[str, Any]:
    """How a training is divided beyond its degrees, without the term `off`; `given` options are
    replaced anyhow.
    """
    found: dict[str, Any] = {}
    if row.get("dispatcher") in ("DeepEP", "HybridEP"):
        found["expert_dispatch"] = "per-rank"
    if row["system"].startswith("gb"):
        found["used_per_node"] = DOMAIN_USED
    if row["source"] in MEGATRON and row.get("tensor", 1) > 1:
        found["tensor_overlap"] = "backward"
    if is_torchtitan(row) and "context" in row:
        found["context_exchange"] = "gather"
    for field, option, percent in FITTED_OPTIONS:
        if row.get(field) and option not in given:
            found[option] = percent()
    found.pop(TERMS.get(off or "", ""), None)
    if off == "hidden":
        found.pop("tensor_exposed", None)
    return found


def _attention(row: Mapping[str, Any], model: Mapping[str, Any], system: Mapping[str, Any]) -> Any:
    """The kernel that a row states, or cuDNN's where the system has its rates."""
    if "attention" in row:
        return row["attention"]
    head = model.get("head_size") or model["hidden"] // model["attention_heads"]
    kernels = {(k["kernel"], k["head_size"]) for k in system.get("attention", ())}
    return "cudnn" if ("cudnn", head) in kernels and "latent_attention" not in model else "fused"


def gradient_bytes(row: Mapping[str, Any]) -> int:
    """The bytes in which a row sums gradients: FP32 unless its source says otherwise."""
    return int(published()["sources"][row["source"]].get("gradient_bytes", 4))


def _costs(row: Mapping[str, Any], off: str | None = None, **options: Any) -> Costs:
    model, system = _model(row, off), _system(row, off)
    accelerators = row.get("tensor", 1) * row.get("context", 1)
    sharding = row.get("sharding", "optimizer")
    pipelines = row["gpus"] // (accelerators * row.get("pipeline", 1))
    given = {
        "model": model,
        "system": system,
        "accelerators": accelerators,
        "context_parallel": row.get("context", 1),
        "expert_parallel": row.get("expert", 1),
        **_options(row, off, options),
        "microbatch_size": row["microbatch"],
        "data_parallel": pipelines,
        "sharding": sharding if pipelines * row.get("context", 1) > 1 else None,
        "precision": row["precision"],
        "recompute": row.get("recompute"),
        "attention": _attention(row, model, system),
        # FSDP divides the master weights, which the state counts.
        "parameter_bytes": (2, gradient_bytes(row), 10 if sharding == "full" else 12),
    }
    return plain_costs(**{k: v for k, v in (given | options).items() if v is not None})


def point(row: Mapping[str, Any], off: str | None = None, **options: Any) -> Configuration:
    """The step of a row, without the term `off`; options replace its costs' options."""
    workers, chunks = row.get("pipeline", 1), row.get("chunks", 1)
    pipelines = row["gpus"] // (row.get("tensor", 1) * row.get("context", 1) * workers)
    microbatches = row["batch"] // (pipelines * row["microbatch"])
    stages, layers = workers * chunks, _model(row)["layers"]
    is_layer = row["quantity"].startswith("layer")
    # With more stages than layers, embedding and head have separate stages.
    blocks = [0, *[1] * (stages - 2), 0]
    path = Path([stage % workers for stage in range(stages)], blocks=blocks)
    return Configuration(
        "1f1b" if chunks == 1 else "interleaved-1f1b",
        workers,
        microbatches,
        FamilyOptions() if chunks == 1 else FamilyOptions(chunks=chunks),
        paths=[path] if stages > layers else None,
        costs=_costs(row, off, **options),
        runtime="torch" if is_torchtitan(row) else "table",
        optimizer_step="none" if is_layer else row.get("ends", "overlapped"),
    )


# Quantities


def _tokens(row: Mapping[str, Any], made: Configuration) -> float:
    return tokens_per_s(row["batch"], row["gpus"], made.simulate(), row["sequence"])


def _tflops(row: Mapping[str, Any], made: Configuration) -> float:
    assert made.costs is not None
    per_token = flops_per_token(made.costs, counts_masked=row.get("counts_masked", False))
    return _tokens(row, made) * per_token / 1e12


def _layer_ms(row: Mapping[str, Any], made: Configuration, off: str | None) -> float:
    """A single layer of experts: a layer minus one with an MLP of width 1 in its place, which costs
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
    """The prediction for a row, in its unit, without the term `off`."""
    made = point(row, off, **options)
    if row["quantity"].startswith("layer"):
        return _layer_ms(row, made, off)
    if row["quantity"] == "memory":
        return peak_gib(made.simulate(), row.get("tensor", 1) * row.get("context", 1))
    if row["quantity"] == "step":
        return made.simulate().execution.makespan_ps / 1e12
    return _tflops(row, made) if row["unit"].startswith("TFLOP/s") else _tokens(row, made)


# Fits


def _find(case: str, system: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = next(
        row
        for row in published()["rows"]
        if row["case"] == case and system in (None, row["system"])
    )
    return found


FITTED = (
    "Qwen3 8B, BF16",
    "70B, BF16, asynchronous TP",
    "Qwen3 235B, EP 32, PP 8, exchange overlapped",
)
"""The rows to which `sustained`, the exposed part of AsyncTP and the exposed part of overlapped
exchanges are fitted, in this order.
"""
FITTED_BLACKWELL = ("Llama 3 8B FP8, 25.11", "b200-sxm")
"""The row to which `sustained` of Blackwell is fitted: its case and its system."""
FITTED_AT_500W = ("70B, BF16", "h100-500w")
"""The same for H100 that are limited to 500 W."""


ROWS_OF_FITS = "rows of fits"
"""The group of these rows."""


def _is_fitted(row: Mapping[str, Any]) -> bool:
    return row["case"] in FITTED or (row["case"], row["system"]) in (
        FITTED_BLACKWELL,
        FITTED_AT_500W,
    )


def _with(row: Mapping[str, Any], **changed: Any) -> float:
    """The error of the prediction of a row, with other fields of the system."""
    return predicted(row, system={**_system(row), **changed}) / float(row["measured"]) - 1


def _fitted_share(row: Mapping[str, Any]) -> float:
    """The sustained share, to a hundredth, with which a row is met best."""
    return min((s / 100 for s in range(60, 101)), key=lambda s: abs(_with(row, sustained=s)))


@cache
def fitted_sustained() -> float:
    """The share with which the first of `FITTED` is met best."""
    return _fitted_share(_find(FITTED[0]))


@cache
def fitted_blackwell() -> float:
    """The same for the row of `FITTED_BLACKWELL`."""
    return _fitted_share(_find(*FITTED_BLACKWELL))


@cache
def fitted_at_500w() -> float:
    """The same for the row of `FITTED_AT_500W`."""
    return _fitted_share(_find(*FITTED_AT_500W))


def _by_gain(option: str, fast: str, plain: str) -> int:
    """The value of an option, in percent, that makes a row as much faster than the one without as
    was measured.
    """
    row, other = _find(fast), _find(plain)
    gain = row["measured"] / other["measured"]
    wanted = gain * predicted(other)

    def off_by(percent: int) -> float:
        given: dict[str, Any] = {option: percent}
        return abs(float(predicted(row, **given)) - float(wanted))

    return min(range(1, 101), key=off_by)


@cache
def async_exposed() -> int:
    """Percent of collectives that AsyncTP shows, by its gain for 70B in BF16."""
    return _by_gain("tensor_exposed", FITTED[1], "70B, BF16")


@cache
def exchanges_exposed() -> int:
    """Percent of the way of rows to experts that shows although another microbatch computes
    meanwhile, by the gain of that overlap for Qwen3 235B.
    """
    return _by_gain("expert_exposed", FITTED[2], "Qwen3 235B, EP 32, PP 8")


FITTED_OPTIONS = (
    ("overlapped_experts", "expert_exposed", exchanges_exposed),
    ("async_tensor", "tensor_exposed", async_exposed),
)
"""Fields of rows, their options and their values."""


def group(row: Mapping[str, Any]) -> str:
    """The group of a row, for medians: hardware, and the division of the model."""
    if _is_fitted(row):
        return ROWS_OF_FITS
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
    """The rows to which the rates of its system are fitted."""
    if _is_fitted(row):
        return "this row"
    if row["system"] in BLACKWELL:
        return "one row"
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
