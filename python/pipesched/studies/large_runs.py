"""Measured runs of large models, predicted like those of validation.py: Llama 3 405B on up to
16,384 H100, its long sequences with torchtitan, and DeepSeek-V3 on 2,048 H800.

Nothing is fitted to them. What their sources do not state is said with each row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pipesched
from pipesched import Configuration, Costs, FamilyOptions, Path

from . import deepseek, validation
from .study import data
from .validation import TENSOR_PARALLEL, Row, peak_gib, tokens_per_s

LLAMA_LAYERS = 126
LLAMA_CHUNKS = (2, 4, 8)
"""Stages of a worker: the source says that there are several, and that the first has no layer but
the embedding and the last none but the head, which is so with 8.
"""


def published() -> dict[str, Any]:
    """The measurements, which ship with the package.

    >>> published()["llama3_2407_21783_table4"]["rows"][0]["tflops_per_gpu"]
    430
    """
    return data("large_runs.json")


# Llama 3 405B (arXiv 2407.21783), table 4


def llama3_blocks(workers: int, chunks: int) -> list[int]:
    """Layers of the stages: equally many, but one fewer at both ends (section 3.3.2)."""
    stages = workers * chunks
    each = -(-LLAMA_LAYERS // stages)
    return [each - 1, *[each] * (stages - 2), each - 1]


def llama3_step(row: Mapping[str, Any], chunks: int) -> Configuration:
    """A step on Meta's cluster, whose pods its system has."""
    workers = row["pp"]
    fields = pipesched.models()["llama3-405b"]
    model = {k: v for k, v in fields.items() if k not in ("aliases", "sources")}
    costs = Costs(
        model={**model, "sequence": row["sequence"], "gradient_bytes_per_parameter": 4},
        system="llama3-h100",
        accelerators=row["tp"] * row["cp"],
        context_parallel=row["cp"],
        context_exchange="gather",
        microbatch_size=1,
        data_parallel=row["dp"],
        sharding="full-kept",
    )
    blocks = llama3_blocks(workers, chunks)
    return Configuration(
        "interleaved-1f1b",
        workers,
        row["sequences_per_dp"],
        FamilyOptions(chunks=chunks),
        paths=[Path([stage % workers for stage in range(len(blocks))], blocks=blocks)],
        costs=costs,
        optimizer_step="exposed",
    )


def _length(row: Mapping[str, Any]) -> str:
    return f"{row['sequence']} tokens, " if row["cp"] > 1 else ""


def flops_per_token(costs: Costs) -> float:
    """FLOPs of a model for one token, of which a causal mask leaves half of the scores."""
    summary = json.loads(costs._raw.model())
    return float(summary["flops_per_token"]) - float(summary["attention_flops_per_token"]) / 2


def llama3() -> Iterator[Row]:
    """TFLOP/s of a GPU, for each number of chunks."""
    for row in published()["llama3_2407_21783_table4"]["rows"]:
        for chunks in LLAMA_CHUNKS:
            point = llama3_step(row, chunks)
            assert point.costs is not None
            batch = row["dp"] * row["sequences_per_dp"]
            tokens = tokens_per_s(batch, row["gpus"], point.simulate(), row["sequence"])
            yield Row(
                "2407.21783 table 4",
                f"405B, {row['gpus']} GPUs, {_length(row)}{chunks} chunks",
                "throughput",
                "TFLOP/s per GPU",
                row["tflops_per_gpu"],
                tokens * flops_per_token(point.costs) / 1e12,
                "as shipped",
                point,
            )


# Long sequences with torchtitan

TITAN_WORKERS, TITAN_LOCAL_BATCH, TITAN_GPUS = 8, 8, 512


def titan_step(row: Mapping[str, Any]) -> Configuration:
    """A step with as many microbatches as workers, torchtitan's default at that time."""
    costs = validation._titan_costs(
        "llama3-405b",
        validation.titan_scale(),
        sequence=row["sequence"],
        context=row["cp"],
        global_batch=TITAN_LOCAL_BATCH * row["fsdp"],
        data_parallel=row["fsdp"],
    )
    path = Path(range(TITAN_WORKERS), blocks=validation.TITAN_BLOCKS[1])
    return Configuration(
        "1f1b", TITAN_WORKERS, TITAN_WORKERS, paths=[path], costs=costs, optimizer_step="exposed"
    )


def torchtitan() -> Iterator[Row]:
    """Llama 3.1 405B on 512 H100, with sequences of up to 262,144 tokens."""
    source = "torchtitan 2024-12 table 6"
    for row in published()["torchtitan_2024_12_table6"]["rows"]:
        point = titan_step(row)
        found = point.simulate()
        batch = TITAN_LOCAL_BATCH * row["fsdp"]
        tokens = tokens_per_s(batch, TITAN_GPUS, found, row["sequence"])
        case, unit = f"405B FP8, {row['sequence']} tokens", "tokens/s per GPU"
        measured = row["tokens_per_s_per_gpu"]
        yield Row(source, case, "throughput", unit, measured, tokens, "70B row", point)
        peak = peak_gib(found, TENSOR_PARALLEL * row["cp"])
        yield Row(source, case, "memory", "GiB", row["memory_gib"], peak, "none", point)


# DeepSeek-V3


def deepseek_v3() -> Iterator[Row]:
    """Tokens per second and GPU of arXiv 2412.19437, table 1."""
    point = deepseek.run(deepseek.costs())
    tokens = tokens_per_s(deepseek.BATCH, deepseek.GPUS, point.simulate(), deepseek.SEQUENCE)
    measured, unit = deepseek.MEASURED, "tokens/s per GPU"
    source, case = "2412.19437 table 1", "671B FP8, DualPipe"
    yield Row(source, case, "throughput", unit, measured, tokens, "DeepGEMM", point)


def rows() -> Iterator[Row]:
    """All of them."""
    yield from llama3()
    yield from torchtitan()
    yield from deepseek_v3()
