"""How far predictions of `validation` change with settings that their sources do not state, or that
we took from elsewhere. Each step is simulated again with one setting changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd
from pipesched import Configuration
from pipesched.paper import Basis, Study

from . import large_runs, validation
from .study import percent

KERNELS = ("fused", "flash-3", "cudnn")
"""In place of FlashAttention-2; `fused` has the rate of GEMMs, masked scores included."""


class Change(NamedTuple):
    """A row with one setting changed, and the error of its prediction."""

    source: str
    case: str
    setting: str
    value: str
    error_percent: float


def _common() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Changes of all rows: setting, value, and options of their costs."""
    yield "as predicted", "", {}
    for kernel in KERNELS:
        yield "attention", kernel, {"attention": kernel}


def _titan_changes(numbers: tuple[int, ...], is_divided: bool) -> Iterator[tuple[str, str, Any]]:
    rates = validation.titan_rates()
    yield from _common()
    for number in numbers:
        yield "microbatches", str(number), {"microbatches": number}
    for recompute in ("none", "selective"):
        yield "recompute", recompute, {"recompute": recompute}
    yield "AsyncTP", "hides nothing", {"rates": rates._replace(link=1.0)}
    if is_divided:
        yield "attention in pieces", "at its rate as a whole", {"rates": rates._replace(pieces=1.0)}
        yield "keys and values", "in a ring", {"context_exchange": "ring"}


def _titan_schedules() -> Iterator[Change]:
    for row in validation.published()["h100"]["rows"]:
        for chunks, name in ((1, "1F1B"), (2, "interleaved")):
            measured = row["tokens_per_s_per_gpu"][name]
            for setting, value, options in _titan_changes((16, 32), is_divided=False):
                found = validation.titan_step(row, chunks, **options).simulate()
                tokens = validation.tokens_per_s(row["global_batch"], row["gpus"], found)
                error = percent(tokens, measured)
                yield Change("torchtitan 2024-12 table 5", name, setting, value, error)


def _titan_sequences() -> Iterator[Change]:
    for row in large_runs.published()["torchtitan_2024_12_table6"]["rows"]:
        case, measured = f"{row['sequence']} tokens", row["tokens_per_s_per_gpu"]
        for setting, value, options in _titan_changes((2, 4), is_divided=row["cp"] > 1):
            point = large_runs.titan_step(row, **options)
            error = percent(large_runs.titan_tokens(row, point), measured)
            yield Change("torchtitan 2024-12 table 6", case, setting, value, error)


def _with_model(point: Configuration, **fields: Any) -> Configuration:
    """The same step of a model with other fields."""
    assert point.costs is not None and isinstance(point.costs.model, dict)
    return replace(point, costs=replace(point.costs, model={**point.costs.model, **fields}))


def _llama3_points(row: Mapping[str, Any]) -> Iterator[tuple[str, str, Configuration]]:
    for setting, value, options in _common():
        yield setting, value, large_runs.llama3_step(row, **options)
    for chunks in (2, 4):
        yield "chunks", str(chunks), large_runs.llama3_step(row, chunks)
    point = large_runs.llama3_step(row)
    assert point.costs is not None
    kinds: tuple[Any, ...] = ("selective", "full")
    for recompute in kinds:
        again = replace(point.costs, recompute=recompute)
        yield "recompute", recompute, replace(point, costs=again)
    fused = _with_model(point, separate_accumulation=False)
    yield "sums of gradients", "in the GEMM", fused


def _llama3() -> Iterator[Change]:
    source = "2407.21783 table 4"
    for row in large_runs.published()["llama3_2407_21783_table4"]["rows"]:
        case = f"{row['gpus']} GPUs, {row['sequence']} tokens"
        measured = row["tflops_per_gpu"]
        for setting, value, point in _llama3_points(row):
            error = percent(large_runs.llama3_tflops(row, point), measured)
            yield Change(source, case, setting, value, error)
        point = large_runs.llama3_step(row)
        found = large_runs.llama3_tflops(row, point, counts_masked=False)
        yield Change(source, case, "FLOPs", "without masked scores", percent(found, measured))


def unknowns() -> Study:
    """The rows on H100 again, each with one setting changed.

    >>> sorted(set(unknowns().frame.setting))[:3]
    ['AsyncTP', 'FLOPs', 'as predicted']
    """
    frame = pd.DataFrame([*_titan_schedules(), *_titan_sequences(), *_llama3()])
    return Study(
        title="Measured throughput on H100, predicted with one setting changed",
        frame=frame,
        basis=Basis(
            given="the rows of validation",
            fitted="as in validation, and not fitted again",
            open="one setting at a time; they are not combined",
        ),
    )
