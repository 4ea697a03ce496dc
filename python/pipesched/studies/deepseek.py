"""DeepSeek-V3 on 2,048 H800: the published run, plans of its degrees, and a plan of all degrees.

The run is that of arXiv 2412.19437 (DeepSeek-V3 Technical Report, sections 3.1, 3.2, table 1): 180
thousand GPU hours for a trillion tokens, 16-way pipelines by DualPipe, 64-way experts over 8
nodes, ZeRO-1, no tensor parallelism, FP8. Nothing is fitted to it.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pipesched
from pipesched import Plan, Proposal

from .study import Basis, Study

GPUS, BATCH = 2048, 15360
GPU_HOURS = 180_000
TOKENS = 10**12
MEASURED = TOKENS / (GPU_HOURS * 3600)
"""Tokens per second and GPU: 1,543."""

PUBLISHED: dict[str, Any] = {
    "tensor": [1],
    "stages": [16],
    "expert": [64],
    "schedules": ["dualpipe"],
}
"""What the report states."""

SIZES = (1, 2, 4)
"""Sequences of a microbatch that the plan without given degrees tries."""

LINK_GB_PER_S = 200.0
"""NVLink of an H800 in each direction, half of the 400 GB/s that both have together."""


def h800() -> dict[str, Any]:
    """A DGX H100 with the links of an H800."""
    fields = {k: v for k, v in pipesched.systems()["dgx-h100"].items() if k != "sources"}
    return {
        **fields,
        "name": "h800",
        "description": "8 H800: an H100 whose links are slower",
        "link": {**fields["link"], "bandwidth_gb_per_s": LINK_GB_PER_S},
    }


def planned(top: int = 1, **limits: Any) -> Plan:
    """A plan for the model, the system and the batch of the report. A token is sent once to each
    node, as its dispatcher does.
    """
    return pipesched.plan(
        "deepseek-v3",
        h800(),
        gpus=GPUS,
        global_batch=BATCH,
        precision="fp8",
        expert_dispatch="per-node",
        top=top,
        misses=0,
        **limits,
    )


PLANNED = ("schedule", "tensor", "pipeline", "data", "expert", "microbatch_size", "recompute")
"""What a row says of a plan."""


def _measured() -> dict[str, Any]:
    degrees = {"tensor": "1", "pipeline": "16", "data": "128", "expert": "64"}
    found: dict[str, Any] = {"case": "measured", "tokens_per_s_per_gpu": MEASURED}
    return found | {"schedule": "dualpipe", **degrees, "microbatch_size": "-", "recompute": "-"}


def _row(case: str, found: Proposal) -> dict[str, Any]:
    row = found.to_dict()
    made = {"case": case, "tokens_per_s_per_gpu": row["tokens_per_s_per_gpu"]}
    made |= {key: str(row[key]) for key in PLANNED}
    return made | {"memory_gib": row["peak_bytes"] / 2**30}


def _best(found: Plan) -> Proposal | None:
    return next(iter(found.proposals), None)


def deepseek() -> Study:
    """The published run, plans of its degrees, and the best plan of all degrees for Megatron-LM.

    >>> round(MEASURED)
    1543
    """
    cases: dict[str, dict[str, Any]] = {
        "a plan of these degrees": {**PUBLISHED, "memory": "1TiB", "reserve": 0},
        "the same, of what fits": PUBLISHED,
        "the best of 1F1B, for Megatron-LM": {"launcher": "megatron", "microbatch_size": SIZES},
    }
    rows = [_measured()]
    rows += [
        _row(case, found)
        for case, limits in cases.items()
        if (found := _best(planned(**limits))) is not None
    ]
    frame = pd.DataFrame(rows)
    return Study(
        title="DeepSeek-V3 on 2,048 H800: measured and planned",
        frame=frame,
        basis=Basis(
            given="model, accelerators, batch, degrees, schedule and precision as the report states"
            " them; links of 200 GB/s in each direction",
            fitted="nothing; curves are those of H100",
            open="not stated: the size of microbatches, the memory that was used. Not in the plans:"
            " the layer that predicts two tokens ahead, FP8 messages, moments in 2 bytes,"
            " recomputed norms and up-projections",
        ),
    )
