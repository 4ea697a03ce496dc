"""DeepSeek-V3 on 2,048 H800: the published run, part by part, and a plan of all degrees.

The run is from arXiv 2412.19437 (DeepSeek-V3 Technical Report, sections 3.1, 3.2, table 1): 180
thousand GPU hours for a trillion tokens, 16-way pipelines by DualPipe, 64-way experts over 8 nodes,
ZeRO-1, no tensor parallelism, FP8. There is no fit to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import geometric_mean, harmonic_mean
from typing import Any

import pandas as pd
import pipesched
from pipesched import Configuration, Costs, Path, Plan, Proposal
from pipesched.paper import Basis, Study

from .study import GIB, data, fields, percent, plain_costs

GPUS, BATCH, SEQUENCE = 2048, 15360, 4096
GPU_HOURS = 180_000
TOKENS = 10**12
MEASURED = TOKENS / (GPU_HOURS * 3600)
"""Tokens per second and GPU: 1,543."""

STAGES, EXPERT_PARALLEL = 16, 64
PUBLISHED: dict[str, Any] = {
    "tensor": [1],
    "pp": [STAGES],
    "expert": [EXPERT_PARALLEL],
    "schedules": ["dualpipe"],
}
"""The numbers that the report states."""

SIZES = (1, 2, 4)
"""Sequences of a microbatch that the plan without given degrees tries."""

BLOCKS = (*[4] * 15, 1)
"""Layers of the stages: the authors' profile has chunks of 4 (README of
github.com/deepseek-ai/profile-data); the last stage also has the head and the layer that predicts a
second token.
"""
COMMUNICATION = 20
"""Multiprocessors of an accelerator that move rows and compute nothing (section 3.2.2)."""

RECIPE: dict[str, dict[str, Any]] = {
    "a layer predicts a second token": {"prediction_layers": 1},
    "outputs are computed again": {"recomputed": ["norms", "up_projections", "activations"]},
    "tensors are kept in 8 and 12 bits": {
        "saved_bits": {"linear_inputs": 8, "attention_output": 12, "activation_inputs": 8}
    },
    "kernels cast operands": {"separate_casts": True},
}
"""How the report trains its model: sections 2.2, 3.2.3, 3.3.3 and 3.5.2."""
DISPATCH_BITS = 8
"""Rows are dispatched in FP8 and come back in BF16 (section 3.3.3)."""

PARAMETER_BYTES = (2, 4, 8)
"""Gradients and master weights in FP32, moments in BF16 (section 3.3.3). Not stated: the bytes of
the weights that the GEMMs read, 2 here.
"""
IMBALANCE = 1.25
"""Rows of the fullest rank divided by the mean. The report does not state it; this value shows its
effect.
"""


def kernel_curve(peak_tflops: float, *, are_older: bool) -> list[list[float]]:
    """Shares of the FP8 peak by GFLOP, from DeepGEMM's rates on H800: shapes in groups of a factor
    of 4, each at its mean FLOPs (geometric) and mean rate (harmonic). Older kernels are the kernels
    of the same authors to which DeepGEMM compares itself.
    """
    groups: dict[int, list[tuple[float, float]]] = {}
    for count, m, n, k, tflops, speedup in data("large_runs.json")["deepgemm"]["rows"]:
        gflop = 2 * count * m * n * k / 1e9
        rate = tflops / speedup if are_older else tflops
        groups.setdefault(math.floor((math.log2(gflop) + 0.5) / 2), []).append((gflop, rate))
    curve: list[list[float]] = []
    for group in sorted(groups):
        sizes, rates = zip(*groups[group], strict=True)
        share = harmonic_mean(rates) / peak_tflops
        curve.append([round(geometric_mean(sizes)), round(share, 3)])
    return curve


def h800(*, communication: int = COMMUNICATION, are_older: bool = True) -> dict[str, Any]:
    """H800 that give some of their multiprocessors to communication. The run was over before
    DeepGEMM was published, so that its FP8 kernels are the older ones.
    """
    sold = fields(pipesched.systems()["h800-sxm"])
    curve = kernel_curve(sold["matrix"]["fp8_tflops"], are_older=are_older)
    counts = {**sold["multiprocessors"], "communication": communication}
    return {
        **sold,
        "name": "h800-trained",
        "matrix": {**sold["matrix"], "fp8_efficiency_by_gflop": curve},
        "multiprocessors": counts,
    }


def trained() -> dict[str, Any]:
    """The model as the report trains it."""
    model = fields(pipesched.models()["deepseek-v3"])
    for step in RECIPE.values():
        model |= step
    return {**model, "experts": {**model["experts"], "dispatch_bits": DISPATCH_BITS}}


def costs(model: Any = None, system: Any = None) -> Costs:
    """The costs of the run, of another model or on another system if one is given."""
    return plain_costs(
        model=model or trained(),
        system=system or h800(),
        microbatch_size=1,
        data_parallel=GPUS // STAGES,
        expert_parallel=EXPERT_PARALLEL,
        expert_dispatch="per-node",
        precision="fp8",
        sharding="optimizer",
        parameter_bytes=PARAMETER_BYTES,
    )


def run(costs: Costs) -> Configuration:
    """The published schedule and degrees: microbatches of one sequence, which is not stated."""
    microbatches = BATCH * STAGES // GPUS
    workers = range(STAGES)
    return Configuration(
        "dualpipe",
        STAGES,
        microbatches,
        paths=[Path(workers, blocks=BLOCKS), Path(workers[::-1], blocks=BLOCKS)],
        costs=costs,
        optimizer_step="exposed",
    )


def planned(top: int = 1, **limits: Any) -> Plan:
    """A plan for the model, the system and the batch of the report. A token is sent once to each
    node, as its dispatcher does.
    """
    return pipesched.plan(
        trained(),
        h800(),
        gpus=GPUS,
        global_batch=BATCH,
        precision="fp8",
        expert_dispatch="per-node",
        top=top,
        misses=0,
        **limits,
    )


def _plain(system: Mapping[str, Any]) -> dict[str, Any]:
    """Without a separate curve for FP8."""
    matrix = {k: v for k, v in system["matrix"].items() if k != "fp8_efficiency_by_gflop"}
    return {**system, "matrix": matrix}


def ladder() -> Iterator[tuple[str, Configuration]]:
    """The run with one more part at a time, up to all, and the parts that are not stated."""
    model = fields(pipesched.models()["deepseek-v3"])
    without = h800(communication=0)
    bare = costs(model, _plain(without))
    yield "degrees and schedule alone", run(replace(bare, parameter_bytes=(2, 4, 12)))
    yield "moments in 2 bytes", run(bare)
    yield "FP8 with scales of blocks", run(costs(model, without))
    yield f"{COMMUNICATION} multiprocessors communicate", run(costs(model))
    for name, step in RECIPE.items():
        model |= step
        yield name, run(costs(model))
    yield "rows are dispatched in 8 bits", run(costs())
    yield f"* rows {IMBALANCE:g} times the mean", run(replace(costs(), expert_balance=IMBALANCE))
    yield "* kernels of DeepGEMM", run(costs(system=h800(are_older=False)))


def _ladder_row(case: str, point: Configuration) -> dict[str, Any]:
    simulation = point.simulate()
    seconds = simulation.execution.makespan_ps / 1e12
    assert simulation.memory is not None
    tokens = BATCH * SEQUENCE / GPUS / seconds
    return {
        "case": case,
        "tokens_per_s_per_gpu": tokens,
        "error_percent": percent(tokens, MEASURED),
        **_measured_degrees(),
        "memory_gib": float(simulation.memory.peak_bytes.max()) / GIB,
    }


PLANNED = ("schedule", "tensor", "pipeline", "data", "expert", "microbatch_size", "recompute")
"""The columns of a row for a plan."""


def _measured_degrees() -> dict[str, str]:
    degrees = {"tensor": "1", "pipeline": str(STAGES), "data": str(GPUS // STAGES)}
    degrees["expert"] = str(EXPERT_PARALLEL)
    return {"schedule": "dualpipe", **degrees, "microbatch_size": "1", "recompute": "none"}


def _measured() -> dict[str, Any]:
    found: dict[str, Any] = {"case": "measured", "tokens_per_s_per_gpu": MEASURED}
    return found | _measured_degrees() | {"microbatch_size": "-", "recompute": "-"}


def _row(case: str, found: Proposal) -> dict[str, Any]:
    row = found.to_dict()
    # As computed, like the rows above it; the band would be for data sheets.
    tokens = BATCH * SEQUENCE / GPUS / found.step_s
    made: dict[str, Any] = {"case": case, "tokens_per_s_per_gpu": tokens}
    made["error_percent"] = percent(tokens, MEASURED)
    made |= {key: str(row[key]) for key in PLANNED}
    return made | {"memory_gib": row["peak_bytes_per_gpu"] / GIB}


def deepseek() -> Study:
    """The published run with one more of its parts at a time, and the best plan for Megatron-LM.

    >>> round(MEASURED)
    1543
    """
    rows = [_measured(), *(_ladder_row(*step) for step in ladder())]
    best = planned(launcher="megatron", microbatch_size=SIZES).proposals[:1]
    rows += [_row("the best for Megatron-LM", each) for each in best]
    frame = pd.DataFrame(rows)
    return Study(
        title="DeepSeek-V3 on 2,048 H800: measured, predicted and planned",
        frame=frame,
        basis=Basis(
            given="model, accelerators, batch, degrees, schedule, precision and what is kept, as"
            " the report states them; layers of a stage as in the authors' profile",
            fitted="nothing; FP8 rates are those of the authors' kernels before DeepGEMM, all other"
            " curves those of H100",
            open="not stated: the size of microbatches, rows of the fullest rank, the bytes of"
            " weights that GEMMs read, the memory that was used. Cases with * are no part of the"
            " run. Not in it: clocks that fall under load",
        ),
    )
