"""Measured runs of large models, predicted like the runs of validation.py: Llama 3 405B on up to
16,384 H100, its long sequences with torchtitan, and DeepSeek-V3 on 2,048 H800.

No value is fitted to them. Each row lists the facts that its source does not state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pipesched
from pipesched import Configuration, FamilyOptions, Path

from . import deepseek, validation
from .study import data, fields, flops_per_token, plain_costs
from .validation import TENSOR_PARALLEL, Row, peak_gib, tokens_per_s

LLAMA_LAYERS = 126
LLAMA_CHUNKS = 8
"""Stages of a worker. Of the 128 stages of 16 workers the first has only the embedding, the last
only the head (section 3.3.2), and each of the others one of the 126 layers.
"""
LLAMA_ATTENTION: Final = "flash-2"
"""The source does not name its attention kernel. FlashAttention-2 was the fastest that was public
for H100 when the run began.
"""


def published() -> dict[str, Any]:
    """The measurements.

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


def llama3_step(
    row: Mapping[str, Any], chunks: int = LLAMA_CHUNKS, attention: Any = LLAMA_ATTENTION
) -> Configuration:
    """A step on Meta's cluster, whose pods its system has. Gradients are summed over microbatches
    and reduced in FP32 (section 3.3.2, "Numerical stability").
    """
    workers = row["pp"]
    model = fields(pipesched.models()["llama3-405b"])
    model |= {"gradient_bytes_per_parameter": 4, "separate_accumulation": True}
    costs = plain_costs(
        model={**model, "sequence": row["sequence"]},
        system="llama3-h100",
        attention=attention,
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


def llama3_tflops(
    row: Mapping[str, Any], point: Configuration, *, counts_masked: bool = True
) -> float:
    """TFLOP/s of a GPU in a step of `llama3_step`."""
    assert point.costs is not None
    batch = row["dp"] * row["sequences_per_dp"]
    tokens = tokens_per_s(batch, row["gpus"], point.simulate(), row["sequence"])
    return tokens * flops_per_token(point.costs, counts_masked=counts_masked) / 1e12


def llama3() -> Iterator[Row]:
    """TFLOP/s of a GPU."""
    for row in published()["llama3_2407_21783_table4"]["rows"]:
        point = llama3_step(row)
        yield Row(
            "2407.21783 table 4",
            f"405B, {row['gpus']} GPUs, {row['sequence']} tokens",
            "throughput",
            "TFLOP/s per GPU",
            row["tflops_per_gpu"],
            llama3_tflops(row, point),
            "as shipped",
            point,
        )


# Long sequences with torchtitan

TITAN_WORKERS, TITAN_LOCAL_BATCH, TITAN_GPUS = 8, 8, 512


def titan_step(
    row: Mapping[str, Any],
    *,
    microbatches: int = TITAN_WORKERS,
    rates: validation.TitanRates | None = None,
    **options: Any,
) -> Configuration:
    """A step, by default with as many microbatches as workers, as torchtitan had at that time."""
    costs = validation.titan_costs(
        "llama3-405b",
        rates or validation.titan_rates(),
        sequence=row["sequence"],
        context=row["cp"],
        microbatches=microbatches,
        global_batch=TITAN_LOCAL_BATCH * row["fsdp"],
        data_parallel=row["fsdp"],
        **options,
    )
    path = Path(range(TITAN_WORKERS), blocks=validation.TITAN_BLOCKS[1])
    return Configuration(
        "1f1b",
        TITAN_WORKERS,
        microbatches,
        paths=[path],
        costs=costs,
        runtime="torch",
        optimizer_step="exposed",
    )


def titan_tokens(row: Mapping[str, Any], point: Configuration) -> float:
    """Tokens per second and GPU in a step of `titan_step`."""
    batch = TITAN_LOCAL_BATCH * row["fsdp"]
    return tokens_per_s(batch, TITAN_GPUS, point.simulate(), row["sequence"])


def torchtitan() -> Iterator[Row]:
    """Llama 3.1 405B on 512 H100, with sequences of up to 262,144 tokens."""
    source = "torchtitan 2024-12 table 6"
    for row in published()["torchtitan_2024_12_table6"]["rows"]:
        point = titan_step(row)
        tokens = titan_tokens(row, point)
        case, unit = f"405B FP8, {row['sequence']} tokens", "tokens/s per GPU"
        measured = row["tokens_per_s_per_gpu"]
        curves = "70B, 8B rows" if row["cp"] > 1 else "70B rows"
        yield Row(source, case, "throughput", unit, measured, tokens, curves, point)
        peak = peak_gib(point.simulate(), TENSOR_PARALLEL * row["cp"])
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
