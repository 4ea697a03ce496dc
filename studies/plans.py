"""Plans for published runs next to the choices of their builders: whether their layout is found to
fit, its rank, and the gain over the measured step that a plan claims.

No value is fitted to these runs except the rates under load in `recent_runs`; two of the rows are
among its rows. All plans are for Megatron-LM, on systems under load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pipesched
from pipesched import PipeSchedError, Plan, Proposal
from pipesched.paper import Basis, Study

from . import recent_runs
from .study import fields as fields_of

MIXTRAL: dict[str, Any] = {
    "name": "mixtral-8x22b",
    "description": "config.json of mistralai/Mixtral-8x22B-v0.1",
    "hidden": 6144,
    "sequence": 4096,
    "layers": 56,
    "attention_heads": 48,
    "key_value_heads": 8,
    "experts": {"count": 8, "per_token": 2, "feedforward": 16384},
    "vocabulary": 32768,
    "activation": "swiglu",
    "norm": "rms",
}


@dataclass(frozen=True)
class Run:
    """A published run: the task, the choices of its builders, and their measurement."""

    key: str
    case: str
    model: str
    system: str
    gpus: int
    batch: int
    sequence: int
    tokens: float
    """Measured, a second and GPU."""
    chosen: dict[str, int | str]
    """Degrees, sizes and recomputation, by the names of limits of plans."""
    precision: str = "bf16"
    options: dict[str, Any] = field(default_factory=dict)
    """The dispatch, overlap and kernels that the run states."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The run's facts of the model: outputs that its backward computes again, layers that predict
    one more token.
    """

    @property
    def model_fields(self) -> dict[str, Any]:
        """The fields of the model."""
        if self.model == MIXTRAL["name"]:
            return MIXTRAL
        own = recent_runs.published()["models"].get(self.model)
        known = pipesched.models()[self.model] if own is None else own
        return {**fields_of(known), "name": self.model, "description": self.model, **self.fields}

    def task(self) -> dict[str, Any]:
        """The arguments of a plan that leave everything to choose."""
        return {
            "gpus": self.gpus,
            "global_batch": self.batch,
            "sequence": self.sequence,
            "precision": self.precision,
            "launcher": "megatron",
            **self.options,
        }


def _tokens(tflops: float, flops_per_token: float) -> float:
    return tflops * 1e12 / flops_per_token


EXCHANGES = {"expert_dispatch": "per-rank", "expert_exposed": 72}
"""DeepEP, and as much of the overlap as `recent_runs` finds."""

LESS_KEPT = {"recomputed": ["norms", "activations"]}
"""Llama 3 405B trained without recomputation and with tensors deallocated that are not used again
(2407.21783, section 3.3.2), which the report does not name. All that a backward may read would take
80 GiB of these layouts, more than there is. **Assumption**: outputs of norms and of SwiGLU.
"""

RUNS = (
    Run(
        "405b-8192",
        "Llama 3 405B, 8,192 H100",
        "llama3-405b",
        "h100-sxm",
        8192,
        2048,
        8192,
        _tokens(430, 2.6e12),
        {"tensor": 8, "pp": 16, "context": 1, "microbatch_size": 1, "recompute": "none"},
        fields=LESS_KEPT,
    ),
    Run(
        "405b-16384",
        "Llama 3 405B, 16,384 H100",
        "llama3-405b",
        "h100-sxm",
        16384,
        2048,
        8192,
        _tokens(400, 2.6e12),
        {"tensor": 8, "pp": 16, "context": 1, "microbatch_size": 1, "recompute": "none"},
        fields=LESS_KEPT,
    ),
    Run(
        "70b",
        "Llama 3 70B FP8, 64 H100",
        "llama3-70b",
        "h100-sxm",
        64,
        128,
        8192,
        1602,
        {
            "tensor": 4,
            "pp": 8,
            "chunks": 5,
            "context": 1,
            "microbatch_size": 1,
            "recompute": "none",
        },
        "fp8",
    ),
    Run(
        "nemotron",
        "Nemotron 340B, 6,144 H100",
        "nemotron-340b",
        "h100-sxm",
        6144,
        2304,
        4096,
        2304 * 4096 / 8.0 / 6144,
        {
            "tensor": 8,
            "pp": 12,
            "chunks": 8,
            "context": 1,
            "microbatch_size": 1,
            "recompute": "none",
        },
    ),
    Run(
        "gpt3",
        "GPT-3 175B, 1,024 A100",
        "gpt3-175b",
        "a100-sxm-80gb",
        1024,
        1536,
        2048,
        _tokens(140, 6 * 175e9 * 4 / 3),
        {"tensor": 8, "context": 1, "sharding": "none", "recompute": "full"},
        options={"attention": "unfused"},
    ),
    Run(
        "mixtral",
        "Mixtral 8x22B, 128 H100",
        "mixtral-8x22b",
        "h100-sxm",
        128,
        256,
        4096,
        _tokens(455, 6 * 39.1e9 + 12 * 56 * 6144 * 4096 / 2),
        {
            "tensor": 2,
            "pp": 8,
            "expert": 8,
            "context": 1,
            "microbatch_size": 1,
            "recompute": "none",
        },
    ),
    Run(
        "qwen3",
        "Qwen3-235B, 256 H100",
        "qwen3-235b-a22b",
        "h100-sxm",
        256,
        2048,
        4096,
        2048 * 4096 / 17.6 / 256,
        {"tensor": 2, "pp": 8, "chunks": 4, "expert": 32, "microbatch_size": 1},
        options=EXCHANGES,
        fields={"recomputed": ["norms", "activations"]},
    ),
    Run(
        "deepseek-h100",
        "DeepSeek-V3 FP8, 1,024 H100",
        "deepseek-v3",
        "h100-sxm",
        1024,
        8192,
        4096,
        1297,
        {"tensor": 2, "pp": 8, "chunks": 4, "expert": 64, "microbatch_size": 1},
        "fp8",
        EXCHANGES,
        {"recomputed": ["up_projections", "mlps"], "prediction_layers": 1},
    ),
    Run(
        "deepseek-gb200",
        "DeepSeek-V3, 256 GB200",
        "deepseek-v3",
        "gb200-nvl72",
        256,
        4096,
        4096,
        3139,
        {"tensor": 1, "pp": 4, "chunks": 4, "expert": 64, "microbatch_size": 1},
        fields={"recomputed": ["up_projections"]},
    ),
)
"""The runs; `recent_runs.json` and `large_runs.json` have the sources of all but three: Nemotron
(2406.11704, table 2), GPT-3 (2104.04473, section 5; its layout is not printed) and Mixtral
(yanring/Megatron-MoE-ModelZoo, best_practice/Mixtral).
"""


def planned(run: Run, **limits: Any) -> Plan:
    """A plan for a run, with other limits."""
    return pipesched.plan(run.model_fields, run.system, top=1, misses=1, **run.task(), **limits)


def theirs(run: Run) -> Proposal:
    """The builders' choices as a plan evaluates them, with the best of everything not printed."""
    limits: dict[str, Any] = {name: (value,) for name, value in run.chosen.items()}
    if "chunks" in limits:
        limits["schedules"] = ("interleaved-1f1b",)
    made = planned(run, **limits)
    return next(iter(made.proposals))


LAYOUT = ("tensor", "context", "pipeline", "data", "expert", "microbatch_size")
ALL = "all"


def _layout(found: Proposal) -> str:
    """Degrees as `t8 c1 p16 d64 e1 b1`, then schedule and recomputation."""
    row = found.to_dict()
    degrees = " ".join(f"{name[0]}{row[name]}" for name in LAYOUT[:-1])
    return f"{degrees} b{row[LAYOUT[-1]]} {found.schedule}, recompute {row['recompute']}"


def _row(run: Run, is_planned: bool) -> dict[str, Any]:
    own = theirs(run)
    found: dict[str, Any] = {
        "run": run.key,
        "case": run.case,
        "measured": run.tokens,
        "theirs": own.tokens_per_s_per_gpu,
        "fits": own.fits,
        "memory_gib": own.peak_bytes / 2**30,
        "their_layout": _layout(own),
    }
    if not is_planned:
        return found
    best = next(iter(planned(run).proposals))
    tokens = best.tokens_per_s_per_gpu or 0.0
    above = 100 * (tokens / run.tokens - 1)
    return found | {"planned": tokens, "above_percent": above, "planned_layout": _layout(best)}


def plans(searched: Sequence[str] = ()) -> Study:
    """The choices of the builders of published runs, as plans see them, and the plans of `searched`
    runs, which take minutes each on large clusters; `all` searches for all. Raises an error for a
    name that is none.

    >>> plans().frame.fits.all()
    np.True_
    """
    known = [run.key for run in RUNS]
    for name in searched:
        if name not in (*known, ALL):
            raise PipeSchedError(
                f"there is no published run {name!r}; there are {', '.join((*known, ALL))}"
            )
    rows = [_row(run, ALL in searched or run.key in searched) for run in RUNS]
    return Study(
        title="What builders of published runs chose, and plans: tokens/s of a GPU",
        frame=pd.DataFrame(rows).astype(object).where(lambda frame: frame.notna(), None),
        basis=Basis(
            given="model, accelerators, batch, sequence, precision, and of the layout what is"
            " printed; measured throughput",
            fitted="rates under load, as recent_runs says; nothing to these runs but what it says",
            open="what is not printed is chosen by the plan: replicas' sharding, chunks where"
            " their memory misses, the layout of GPT-3. Planned beside them: docs/Planning.md",
        ),
    )
