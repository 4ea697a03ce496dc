"""How far published steps are from their predictions, row by row: the data of bands.

`python -m studies residuals --format json` writes the file that ships with the package,
`python/pipesched/bands/residuals.json`; a test compares the two. No row is among the rows that it
was fitted to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import fmean, median
from typing import Any

import pandas as pd
import pipesched
from pipesched import Configuration
from pipesched.bands import (
    LEVEL,
    OF_TIMES,
    UNDER_LOAD,
    Residual,
    Tolerance,
    Traits,
    band_of_traits,
    residuals,
    traits_of,
)
from pipesched.paper import Basis, Study

from . import recent_runs, unseen
from .apart import WITH_DEFAULTS, tolerance_without
from .study import fields
from .validation import TITAN_MEMORY, Row, all_rows, cluster_of

FRAMEWORKS = {
    "2205.05198": "megatron",
    "2104.04473": "megatron",
    "torchtitan": "torchtitan",
    "llm-foundry": "llm-foundry",
    "2407.21783": "authors",
    "2412.19437": "authors",
    "2401.10241": "megatron",
    **dict.fromkeys(recent_runs.MEGATRON, "megatron"),
    "verification-card": "megatron",
}
"""The organization that ran the rows of a source, by the start of its name."""

BASES = {"dgx-a100-scaled": "dgx-a100", "h100-sxm-scaled": "h100-sxm", "h100-500w": "h100-sxm"}
"""The shipped systems from which others are made."""

MEASURED = "h800-trained"
"""A system with rates of kernels that were measured separately, to which no training is fitted."""

LAYOUT = {
    "pipelines": "data_parallel",
    "sharding": "sharding",
    "context parallelism": "context_parallel",
    "expert parallelism": "expert_parallel",
}
"""The terms of costs for a layout, except accelerators, recomputation and sizes of microbatches."""


def _is_step(row: Row) -> bool:
    """Whether a row is about a training step, and not about memory or a single layer."""
    return row.quantity in ("step", "throughput")


def framework_of(source: str) -> str:
    """Who ran the rows of a source.

    >>> framework_of("torchtitan 2024-12 table 5"), framework_of("nemo-long")
    ('torchtitan', 'megatron')
    """
    return next(name for begin, name in FRAMEWORKS.items() if source.startswith(begin))


def _as_sold(system: Mapping[str, Any]) -> dict[str, Any]:
    """A system without factors and terms that are fitted to other rows. Its memory stays, where
    accelerators were sold with another one.
    """
    made = fields(pipesched.systems()[BASES.get(system["name"], system["name"])])
    if system["memory"]["capacity_gb"] == TITAN_MEMORY["capacity_gb"]:
        made["memory"] = {**made["memory"], **TITAN_MEMORY}
    return made


def _is_adjusted(system: Mapping[str, Any]) -> bool:
    """Whether rates or terms of a system are fitted to trainings."""
    if system["name"] == MEASURED:
        return False
    sold = _as_sold(system)
    parts = ("matrix", "attention", "memory", "link", "sustained", "host_time")
    return any(system.get(part) != sold.get(part) for part in parts)


def _ratio(row: Row) -> float:
    """The measured step in terms of the predicted one."""
    return row.measured / row.predicted if row.quantity == "step" else row.predicted / row.measured


def _layout(point: Configuration) -> str:
    """The degrees and sizes of a row. Rows that differ in nothing else differ in the schedule."""
    costs = point.costs
    if costs is None or costs.model is None:
        return f"workers {point.workers}, microbatches {point.microbatches}"
    given = costs.system
    system = given if isinstance(given, Mapping) else pipesched.systems()[str(given)]
    accelerators = costs.accelerators or system.get("accelerators", 1)
    parts = [
        f"workers {point.workers}",
        f"accelerators {accelerators}",
        f"microbatches {point.microbatches}",
        f"recompute {costs.recompute}",
        *(f"{title} {getattr(costs, name)}" for title, name in LAYOUT.items()),
    ]
    return ", ".join(parts)


def _made(row: Row, traits: Traits, ratio: float) -> dict[str, Any]:
    return {
        "source": row.source,
        "case": row.case,
        "run": _run(row),
        "cluster": cluster_of(row),
        "layout": _layout(row.point),
        **traits._asdict(),
        "measured_to_predicted": round(ratio, 4),
    }


def _model(row: Row) -> str:
    """The model of a row and its hardware, whose rows are off in common."""
    costs = row.point.costs
    if row.group and costs is not None and isinstance(costs.model, Mapping):
        assert isinstance(costs.system, Mapping)
        return f"{costs.model['name']} on {costs.system['name']}"
    return row.case.split(",")[0].removesuffix(" FP8")


def traits_of_row(row: Row) -> Traits:
    """The traits of a row as predicted in validation."""
    costs = row.point.costs
    assert costs is not None
    traits = traits_of(costs, framework_of(row.source))
    if costs.system is None or traits is None:
        return Traits(OF_TIMES)
    is_adjusted = isinstance(costs.system, Mapping) and _is_adjusted(costs.system)
    return traits._replace(rates=UNDER_LOAD) if is_adjusted else traits


def _run(row: Row) -> str:
    """The publication, model and hardware of a row."""
    return f"{row.source.split(' table')[0]}, {_model(row)}"


def tolerance_of(row: Row, other: Row) -> Tolerance | None:
    """The difference from which on two rows of one cluster are ranked, by other publications; None
    if these are too few.
    """
    is_alike = _layout(row.point) == _layout(other.point)
    return tolerance_without(row.source, traits_of_row(row), is_alike)


def rows() -> Iterator[dict[str, Any]]:
    """A residual for each published step, and a second one if its system is adjusted to other rows:
    one with these adjustments, one with the rates of the system as it is sold.
    """
    yield from _validated()
    for row in unseen.answers().to_dict("records"):
        if row["measured_s"] > 0 and row["computed_s"] > 0:
            case = row["case"] or f"{row['cluster']}, {row['layout']}"
            yield {
                "source": f"{row['source']}{WITH_DEFAULTS}",
                "case": case,
                "run": f"{row['source']}, {row['model']} on {row['system']}",
                "cluster": row["cluster"],
                "layout": row["layout"],
                **row["traits"]._asdict(),
                "measured_to_predicted": round(row["measured_s"] / row["computed_s"], 4),
            }


def _validated() -> Iterator[dict[str, Any]]:
    for row in filter(_is_step, all_rows()):
        costs, ratio = row.point.costs, _ratio(row)
        assert costs is not None
        who = framework_of(row.source)
        case = row.case.rsplit(", ", 1)[0] if row.group else row.case
        system = costs.system
        if system is None:
            yield _made(row, Traits(OF_TIMES), ratio)
            continue
        if not isinstance(system, Mapping) or not _is_adjusted(system):
            shipped = traits_of(costs, who)
            assert shipped is not None
            yield _made(row, shipped, ratio)
            continue
        sold = replace(row.point, costs=replace(costs, system=_as_sold(system)))
        traits = traits_of(sold.costs, who)
        assert traits is not None
        is_fitted = row.group == recent_runs.ROWS_OF_FITS
        if not is_fitted:
            yield _made(row, traits._replace(rates=UNDER_LOAD), ratio)
        if is_fitted and case in recent_runs.FITTED[1:]:
            continue  # the exposed part of its collectives is fitted to this row
        faster = row.point.simulate().execution.makespan_ps / sold.simulate().execution.makespan_ps
        yield _made(row, traits, ratio * faster)


def residual_rows() -> Study:
    """The residuals that bands are made of.

    >>> bool((residual_rows().frame.measured_to_predicted > 0).all())
    True
    """
    frame = pd.DataFrame(list(rows()), dtype=object)
    return Study(
        title="Published steps in terms of their predictions: what bands are made of",
        frame=frame,
        basis=Basis(
            given="the rows of validation that are training steps",
            fitted="as in validation; a row to which something was fitted is not among them",
            open="rows of adjusted systems are there twice, with the adjustments and without",
        ),
    )


# Coverage


def left_out(row: Residual, whole_runs: bool) -> list[Residual]:
    """All residuals but a row, or but all rows of its run."""
    if whole_runs:
        return [other for other in residuals() if other.run != row.run]
    # A row and its twin on the system as sold are one measurement.
    same = (row.source, row.case)
    return [other for other in residuals() if (other.source, other.case) != same]


def _class(row: Residual) -> str:
    traits = row.traits
    if traits.times == OF_TIMES:
        return "given times"
    return f"{traits.generation}, {traits.kind}, {traits.rates}"


def held(row: Residual, whole_runs: bool) -> tuple[bool, float] | None:
    """Whether the band of the others holds a row, and its width; None without a band."""
    band = band_of_traits(row.traits, left_out(row, whole_runs))
    if band.low is None or band.high is None:
        return None
    return band.low <= row.ratio <= band.high, band.high / band.low


def coverage_frame() -> pd.DataFrame:
    """For each class, the part of rows that bands of the others hold."""
    classes: dict[str, list[Residual]] = {}
    for row in residuals():
        classes.setdefault(_class(row), []).append(row)
    classes["all"] = list(residuals())
    found = []
    for name, members in classes.items():
        alone = [one for row in members if (one := held(row, whole_runs=False))]
        apart = [one for row in members if (one := held(row, whole_runs=True))]
        found.append(
            {
                "class": name,
                "rows": len(members),
                "runs": len({row.run for row in members}),
                "held_percent": 100 * fmean(is_held for is_held, _ in alone) if alone else None,
                "rows_of_other_runs": len(apart),
                "held_by_other_runs_percent": (
                    100 * fmean(is_held for is_held, _ in apart) if apart else None
                ),
                "typical_width": median(width for _, width in alone) if alone else None,
            }
        )
    return pd.DataFrame(found)


def coverage() -> Study:
    """The number of published rows inside the bands that the other rows give.

    >>> frame = coverage().frame.set_index("class")
    >>> bool(frame.held_percent["all"] >= 100 * LEVEL)
    True
    """
    return Study(
        title=f"Bands of {100 * LEVEL:g} %: published rows inside the band of the others",
        frame=coverage_frame(),
        basis=Basis(
            given="the residuals",
            fitted="nothing: the band of a row is made without it, and without all rows of its"
            " publication, model and hardware in held_by_other_runs",
            open="typical_width is the median of the upper end in terms of the lower one",
        ),
    )
