"""Published runs predicted as a user predicts them: by `pipesched simulate` with the degrees, the
batch and the precision that are published, and defaults for everything else.

No value is fitted to these rows.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from math import nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pandas as pd
import pipesched
from pipesched.bands import Traits, traits_of
from pipesched.command import main as pipesched_command
from pipesched.paper import Basis, Study

from .apart import tolerance_without
from .study import GIB, TIE_PERCENT, data, percent

OPTIONS = {
    "system": "system",
    "microbatch": "microbatch-size",
    "sequence": "sequence",
    "pipeline": "pp",
    "chunks": "vpp",
    "tensor": "tp",
    "context": "cp",
    "expert": "ep",
    "precision": "precision",
    "recompute": "recompute",
    "sharding": "sharding",
    "ends": "optimizer-step",
}
"""Fields of a row, and the options that say the same."""


LAYOUT = (
    "pipeline",
    "chunks",
    "tensor",
    "context",
    "expert",
    "microbatch",
    "sharding",
    "recompute",
)
"""Fields of a row that say its layout; rows of one cluster that share them differ in the
schedule.
"""

FRAMEWORKS = {
    **dict.fromkeys(("aleph", "internevo", "tpu-recipes", "automodel", "fms-fsdp"), "authors"),
    **dict.fromkeys(
        ("primus", "dgxc", "megatron-bridge", "megatron-7b", "megatron-tiny"), "megatron"
    ),
    **dict.fromkeys(("bridge-sft", "nemo"), "megatron"),
}
"""Who ran the rows of a source."""


def published() -> dict[str, Any]:
    """The measurements.

    >>> sorted(published())
    ['models', 'out_of_memory', 'rows', 'sources']
    """
    return data("unseen_runs.json")


def arguments(row: Mapping[str, Any], models: Path) -> list[str]:
    """The arguments of `pipesched` for a row; `models` is the folder of models that do not ship."""
    workers, chunks = row.get("pipeline", 1), row.get("chunks", 1)
    pipelines = row["gpus"] // (workers * row.get("tensor", 1) * row.get("context", 1))
    name = row["model"]
    found = [
        "simulate",
        row.get("family", "1f1b" if chunks == 1 else "interleaved-1f1b"),
        f"--model={name if name in pipesched.models() else models / f'{name}.json'}",
        f"--microbatches={max(row['batch'] // (pipelines * row['microbatch']), 1)}",
        f"--dp={pipelines}",
    ]
    if workers == 1:
        found.append("--pp=1")
    found += [f"--{option}={row[field]}" for field, option in OPTIONS.items() if field in row]
    if "network_gb_per_s" in row:
        found.append(f"--set=network.bandwidth_gb_per_s={row['network_gb_per_s']}")
    if row.get("sequence_parallel") is False:
        found.append("--set=sequence-parallel=false")
    return [*found, "--format=json"]


@contextlib.contextmanager
def _model_files() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        for name, model in published()["models"].items():
            named = {"name": name, "description": name, **model}
            Path(folder, f"{name}.json").write_text(json.dumps(named), encoding="utf-8")
        yield Path(folder)


def _answer(row: Mapping[str, Any], models: Path) -> dict[str, Any]:
    """The answer of the command for a row; empty if it refuses it."""
    file = models / "answer"
    with contextlib.redirect_stderr(io.StringIO()):
        status = pipesched_command([*arguments(row, models), f"--output={file}"])
    found: list[dict[str, Any]] = json.loads(file.read_text()) if status == 0 else [{}]
    return found[0]


def _traits(row: Mapping[str, Any], models: Path) -> Traits | None:
    """The fields of a row that bands compare."""
    name = row["model"]
    costs = pipesched.Costs(
        model=name if name in pipesched.models() else models / f"{name}.json",
        system=row["system"],
        accelerators=row.get("tensor", 1) * row.get("context", 1),
        context_parallel=row.get("context", 1),
        precision=row.get("precision", "bf16"),
        sequence=row["sequence"],
    )
    return traits_of(costs, FRAMEWORKS.get(row["source"]))


@cache
def answers() -> pd.DataFrame:
    """A line for each published step, and for each layout that ran out of memory."""
    lines = []
    with _model_files() as models:
        for row in published()["rows"]:
            answer = _answer(row, models)
            step, memory = row.get("step_s", nan), row.get("memory_gib", nan)
            ours = answer.get("expected_s", nan)
            lines.append(
                {
                    "group": row["group"],
                    "source": row["source"],
                    "model": row["model"],
                    "system": row["system"],
                    "layout": ", ".join(f"{f} {row.get(f, 1)}" for f in LAYOUT),
                    "traits": _traits(row, models),
                    "case": row.get("case", ""),
                    "cluster": row.get("cluster", ""),
                    "measured_s": step,
                    "computed_s": answer.get("step_s", nan),
                    "predicted_s": ours,
                    "error_percent": percent(ours, step),
                    "from_s": answer.get("step_low_s", nan),
                    "to_s": answer.get("step_high_s", nan),
                    "measured_gib": memory,
                    "predicted_gib": answer.get("peak_bytes_per_gpu", nan) / GIB,
                    "fits": answer.get("fits"),
                    "ran": True,
                }
            )
        for row in published()["out_of_memory"]:
            answer = _answer({"system": "a100-sxm-80gb", **row}, models)
            lines.append(
                {
                    "group": "A100 layouts",
                    "source": "aleph",
                    "model": row["model"],
                    "system": "a100-sxm-80gb",
                    "cluster": row["cluster"],
                    "predicted_gib": answer.get("peak_bytes_per_gpu", nan) / GIB,
                    "fits": answer.get("fits"),
                    "ran": False,
                }
            )
    return pd.DataFrame(lines)


class Pairs(NamedTuple):
    """Pairs of one cluster that differ."""

    number: int
    right: int
    """Pairs in the predicted order."""
    apart: int
    """Pairs whose predictions differ by more than the tolerance of other publications."""
    apart_right: int


def count_pairs(rows: pd.DataFrame) -> Pairs:
    """Counts the pairs of each cluster whose measurements differ by at least `TIE_PERCENT`.

    >>> count_pairs(answers()[:0])
    Pairs(number=0, right=0, apart=0, apart_right=0)
    """
    found = []
    a: Any
    b: Any
    for _, members in rows[rows.cluster != ""].groupby("cluster"):
        for a, b in combinations(members.itertuples(), 2):
            if abs(a.measured_s / b.measured_s - 1) * 100 >= TIE_PERCENT:
                is_right = (a.measured_s - b.measured_s) * (a.predicted_s - b.predicted_s) > 0
                known = tolerance_without(a.source, b.traits, a.layout == b.layout)
                ratio = math.log(a.predicted_s / b.predicted_s)
                is_apart = known is not None and abs(ratio) > known.log
                found.append((1, is_right, is_apart, is_apart and is_right))
    return Pairs(*map(sum, zip(*found))) if found else Pairs(0, 0, 0, 0)


LEAST_LAYOUTS = 4
"""Clusters with fewer layouts leave hardly a choice."""


def regrets() -> pd.DataFrame:
    """Returns for each cluster with several layouts how much longer the layout with the shortest
    predicted step took than the layout with the shortest measured one.

    >>> found = regrets()
    >>> bool((found.regret_percent >= 0).all())
    True
    """
    found = answers()
    ran = found[found.measured_s.notna() & found.predicted_s.notna() & (found.cluster != "")]
    lines = []
    for cluster, rows in ran.groupby("cluster", sort=False):
        if rows.layout.nunique() < LEAST_LAYOUTS:
            continue
        chosen = rows.sort_values("predicted_s").iloc[0]
        lines.append(
            {
                "cluster": cluster,
                "layouts": rows.layout.nunique(),
                "chosen": chosen.layout,
                "regret_percent": percent(chosen.measured_s, rows.measured_s.min()),
            }
        )
    return pd.DataFrame(lines)


def _group(name: str, rows: pd.DataFrame) -> dict[str, Any]:
    errors = rows.error_percent
    banded = rows[rows.from_s.notna()]
    inside = (banded.from_s <= banded.measured_s) & (banded.measured_s <= banded.to_s)
    pairs = count_pairs(rows)
    return {
        "group": name,
        "rows": len(rows),
        "typical_percent": median(errors.abs()),
        "least_percent": errors.min(),
        "most_percent": errors.max(),
        "in_band": f"{inside.sum()} of {len(banded)}",
        "in_order": f"{pairs.right} of {pairs.number}",
        "ranked_in_order": f"{pairs.apart_right} of {pairs.apart}",
    }


def unseen() -> Study:
    """The rows by group, and whether layouts fit that ran or ran out of memory.

    >>> found = unseen().digest
    >>> bool((found.rows > 0).all())
    True
    """
    found = answers()
    timed = found[found.measured_s.notna() & found.predicted_s.notna()]
    digest = [_group(str(name), rows) for name, rows in timed.groupby("group", sort=False)]
    fits = found[(found.group == "A100 layouts") & found.fits.notna()]
    right = int((fits.fits == fits.ran).sum())
    regret = regrets().regret_percent
    refused = int((found.measured_s.notna() & found.predicted_s.isna()).sum())
    return Study(
        title="Published runs predicted with defaults alone: error of the step in time",
        frame=found,
        digest=pd.DataFrame(digest),
        basis=Basis(
            given="degrees, batch, sequence, precision, recomputation and sharding as published; of"
            " the layouts on A100 what their framework holds",
            fitted="nothing",
            open=f"refused: {refused} rows; of {len(fits)} layouts on A100 that ran or ran out of"
            f" memory {right} are told right; in {len(regret)} clusters of at least {LEAST_LAYOUTS}"
            f" layouts the one predicted to be the fastest took {regret.mean():.1f} % longer than"
            f" the fastest that ran in the mean, {regret.max():.1f} % at most",
        ),
    )
