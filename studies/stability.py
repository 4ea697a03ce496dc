"""Does the ranking of schedules stay the same between levels and between systems?

At each size and on each system families are ranked by the closed formula, by the slot table and
by time; Kendall's tau says how much two rankings agree.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pipesched
from pipesched import Configuration, Costs, PipeSchedError, simulate_batch
from pipesched.paper import Basis, Check, Finding, Pictures, Study, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STAGES = (4, 8)
MICROBATCHES = (8, 16, 32, 64)
FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Factors on compute and network of the baseline; the nine systems have 0.1, 1 and 10."""

LEVELS = {
    "formula": "formula_bubble_ratio",
    "table": "table_bubble_ratio",
    "execution": "makespan_ps",
}
"""The levels with the value that ranks schedules there; less is better."""

PAIRS = tuple(itertools.combinations(LEVELS, 2))

_CASE = ["stages", "microbatches", "compute", "network"]
_DIGITS = 12
"""Digits to which ratios must agree to be equal; they are quotients of small integers."""

Numbers = npt.NDArray[np.float64]


def kendall(left: Sequence[float] | Numbers, right: Sequence[float] | Numbers) -> float:
    """Kendall's tau-b of two rankings of the same things by their values: 1 if they order all pairs
    alike, -1 if they order all in reverse. A pair that ties in one of them does not count. NaN if
    one of them ties all pairs.

    M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945).

    >>> round(kendall([12, 2, 1, 12, 2], [1, 4, 7, 1, 0]), 6)
    -0.471405
    """
    signs = [
        np.sign(np.subtract.outer(values, values))
        for values in (np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64))
    ]
    ordered = math.sqrt(float((signs[0] ** 2).sum() * (signs[1] ** 2).sum()))
    return float((signs[0] * signs[1]).sum()) / ordered if ordered else math.nan


# What is timed


def scaled(system: Mapping[str, Any], compute: float, network: float) -> dict[str, Any]:
    """A system with FLOP/s and network bandwidth multiplied by these factors.

    >>> scaled(pipesched.systems()["baseline"], 1, 10)["network"]["bandwidth_gb_per_s"]
    500
    """
    made = dict(system)
    for section, field, factor in (
        ("matrix", "tflops", compute),
        ("vector", "tflops", compute),
        ("network", "bandwidth_gb_per_s", network),
    ):
        if section in system:
            made[section] = {**system[section], field: factor * system[section][field]}
    made["name"] = f"compute x{compute:g}, network x{network:g}"
    return made


def _evaluated(
    stages: Sequence[int],
    microbatches: Sequence[int],
    factors: Sequence[float],
    families: Sequence[str],
    model: str,
    system: str,
    transport: Any,
) -> pd.DataFrame:
    """One row per family, size and system."""
    baseline = pipesched.systems()[system]
    cases = list(itertools.product(stages, microbatches, factors, factors, families))
    costs = {
        factor: Costs(model=model, system=scaled(baseline, *factor))
        for factor in itertools.product(factors, factors)
    }
    frame = simulate_batch(
        Configuration(family, workers, count, costs=costs[compute, network], transport=transport)
        for workers, count, compute, network, family in cases
    )
    found = frame[[*LEVELS.values(), "error"]].rename(
        columns={value: level for level, value in LEVELS.items()}
    )
    frame = pd.DataFrame(cases, columns=[*_CASE, "family"]).join(found)
    frame["execution"] = frame.execution.astype("float64")
    return frame.round({"formula": _DIGITS, "table": _DIGITS})


# What is compared


def _best(rows: pd.DataFrame, level: str) -> list[str]:
    """The families that are first at a level, several if they tie."""
    values = rows[level]
    return sorted(rows.family[values == values.min()])


def _case(rows: pd.DataFrame) -> dict[str, Any]:
    """One size on one system: which families are first, how far the levels agree, and how much time
    is lost by choosing with formula or table.
    """
    found: dict[str, Any] = {"schedules": len(rows), "with_formula": int(rows.formula.count())}
    best = {level: _best(rows, level) for level in LEVELS}
    fastest = rows.execution.min()
    for level, families in best.items():
        found[f"first_by_{level}"] = "/".join(families)
    for left, right in PAIRS:
        both = rows[rows[left].notna() & rows[right].notna()]
        found[f"tau_{left}_{right}"] = kendall(both[left].to_numpy(), both[right].to_numpy())
    for level in ("formula", "table"):
        chosen = rows[rows.family.isin(best[level])].execution.min()
        found[f"lost_by_{level}_percent"] = 100 * (chosen / fastest - 1)
    return found


def compared(evaluated: pd.DataFrame) -> pd.DataFrame:
    """One row per size and system. Takes a frame with stages, microbatches, compute, network,
    family, formula, table, execution; the lower a value, the better. A family without a formula is
    left out of comparisons with formulas.
    """
    cases = evaluated.groupby(_CASE, sort=False)
    rows = [{**dict(zip(_CASE, key, strict=True)), **_case(group)} for key, group in cases]
    return pd.DataFrame(rows)


def _agree(frame: pd.DataFrame, level: str) -> npt.NDArray[np.bool_]:
    """Whether one of the families that are first at the level is also first by time."""
    pairs = zip(frame[f"first_by_{level}"], frame.first_by_execution, strict=True)
    return np.array([bool({*a.split("/")} & {*b.split("/")}) for a, b in pairs], dtype=bool)


def _winners(firsts: pd.Series[str]) -> str:
    counts = Counter(family for first in firsts for family in first.split("/"))
    return ", ".join(f"{family} {count}" for family, count in counts.most_common())


def _digest(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per size, over all systems."""
    rows = []
    for (stages, microbatches), group in frame.groupby(["stages", "microbatches"], sort=False):
        row: dict[str, Any] = {"stages": stages, "microbatches": microbatches}
        row["schedules"] = group.schedules.iloc[0]
        row["with_formula"] = group.with_formula.iloc[0]
        for left, right in PAIRS:
            row[f"tau_{left}_{right}"] = group[f"tau_{left}_{right}"].mean()
        for level in ("formula", "table"):
            row[f"{level}_is_right_percent"] = 100 * float(_agree(group, level).mean())
            row[f"most_lost_by_{level}_percent"] = group[f"lost_by_{level}_percent"].max()
        row["first_by_execution"] = _winners(group.first_by_execution)
        rows.append(row)
    return pd.DataFrame(rows)


def _finding(frame: pd.DataFrame) -> Finding:
    """No ranking stays the same, with more schedules and systems than in the paper."""
    total = len(frame)
    levels = []
    for left, right in PAIRS:
        tau = frame[f"tau_{left}_{right}"]
        same = int((tau > 1 - 1e-9).sum())
        levels.append(
            Check(
                f"{left} and {right} rank differently",
                same < total,
                f"alike in {same} of {total} cases, tau from {tau.min():.2f} to {tau.max():.2f}",
            )
        )
    sizes = frame.groupby(["stages", "microbatches"])
    changes = int((sizes.first_by_execution.nunique() > 1).sum())
    return Finding(
        6,
        "No ranking of schedules survives a change of the level of abstraction or of the system",
        (
            *levels,
            Check(
                "which schedule is fastest depends on the system",
                changes > 0,
                f"at {changes} of {sizes.ngroups} sizes",
            ),
        ),
    )


# Pictures


def _map(axes: Axes, rows: pd.DataFrame, column: str) -> npt.NDArray[Any]:
    """The values as a matrix over compute and network; the axes show the factors."""
    wide = rows.pivot(index="compute", columns="network", values=column)
    axes.set_xticks(range(len(wide.columns)), [f"{factor:g}" for factor in wide.columns])
    axes.set_yticks(range(len(wide.index)), [f"{factor:g}" for factor in wide.index])
    axes.grid(visible=False)
    return wide.to_numpy()


def _draw_tau(axes: Axes, rows: pd.DataFrame, left: str, right: str) -> Any:
    values = _map(axes, rows, f"tau_{left}_{right}").astype(float)
    for (y, x), tau in np.ndenumerate(values):
        axes.text(x, y, "" if math.isnan(tau) else f"{tau:.2f}", ha="center", va="center", size=6)
    options: dict[str, Any] = {"vmin": -1, "vmax": 1, "cmap": "coolwarm_r", "origin": "lower"}
    return axes.imshow(values, aspect="auto", **options)


def _draw_first(axes: Axes, rows: pd.DataFrame, colors: Mapping[str, Any]) -> None:
    """Draws the fastest family; if several tie, the first by name."""
    firsts = _map(axes, rows, "first_by_execution")
    image = [[colors[first.split("/")[0]] for first in row] for row in firsts]
    axes.imshow(image, aspect="auto", origin="lower")


def _colors(frame: pd.DataFrame) -> dict[str, Any]:
    """Colours of the families that are fastest somewhere, the same in all pictures."""
    from matplotlib import colormaps

    firsts = {first.split("/")[0] for first in frame.first_by_execution}
    table = colormaps["tab20"]
    numbered = enumerate(pipesched.families())
    return {family: table(index % table.N) for index, family in numbered if family in firsts}


def _draw_size(frame: pd.DataFrame, stages: int) -> Any:
    """A column per number of microbatches; rows for tau with time, and for the fastest family."""
    from matplotlib.patches import Patch

    rows = frame[frame.stages == stages]
    sizes = list(dict.fromkeys(rows.microbatches))
    made, all_axes = figure(3, len(sizes), width=2.9 * len(sizes) + 1.6, height=7.6)
    grid = [all_axes[i : i + len(sizes)] for i in range(0, len(all_axes), len(sizes))]
    colors = _colors(rows)
    image = None
    for column, microbatches in enumerate(sizes):
        group = rows[rows.microbatches == microbatches]
        image = _draw_tau(grid[0][column], group, "formula", "execution")
        image = _draw_tau(grid[1][column], group, "table", "execution")
        _draw_first(grid[2][column], group, colors)
        grid[0][column].set_title(f"D = {stages}, N = {microbatches}")
        grid[2][column].set_xlabel("network, times the baseline's")
    labels = ("formula and time", "table and time", "fastest")
    for (first, *_), label in zip(grid, labels, strict=True):
        first.set_ylabel(f"{label}\ncompute, times the baseline's")
    if image is not None:
        made.colorbar(image, ax=grid[0] + grid[1], label="Kendall's tau")
    patches = [Patch(color=color, label=family) for family, color in colors.items()]
    made.legend(handles=patches, loc="outside right lower")
    return made


def _draw(frame: pd.DataFrame) -> Pictures:
    return {f"stability-{d}": _draw_size(frame, d) for d in dict.fromkeys(frame.stages)}


# The study


_OF_OTHER_MODELS = ("vocab-1f1b", "vocab-v-half", "interlaced-1f1b", "combined-1f1b")
"""Families that spread a head over the workers, or hide the exchanges of experts."""


def _of_whole_microbatches() -> list[str]:
    """The families that neither cut sequences nor spread a head over the workers: slices are for
    sequences far longer than those of the model of the paper, which has no head, and what they cost
    is not in its numbers. Nor has it experts, without which combined 1F1B is interleaved 1F1B that
    holds one activation more.
    """

    def cuts(family: str) -> bool:
        try:
            return pipesched.generate(family, workers=4, microbatches=8).slices > 1
        except PipeSchedError:
            return False

    whole = [family for family in pipesched.families() if not cuts(family)]
    return [family for family in whole if family not in _OF_OTHER_MODELS]


def stability(
    stages: Sequence[int] = STAGES,
    microbatches: Sequence[int] = MICROBATCHES,
    transport: Any = "overlap",
    *,
    families: Sequence[str] | None = None,
    factors: Sequence[float] = FACTORS,
    model: str = "paper-gpt",
    system: str = "baseline",
) -> Study:
    """Which schedule is first at which level, and how far the levels agree, over a grid of systems:
    the compute and the network of one system, multiplied by factors. By default it is about all
    families that do not cut sequences into slices.

    >>> study = stability([4], [8], families=["1f1b", "zb-h1", "chimera"], factors=[0.1, 1, 10])
    >>> study.frame.first_by_formula.unique().tolist()
    ['chimera/zb-h1']
    """
    chosen = list(families or _of_whole_microbatches())
    evaluated = _evaluated(stages, microbatches, factors, chosen, model, system, transport)
    made = evaluated[evaluated.error.isna()]
    frame = compared(made)
    without = sorted(set(made.family) - set(made.family[made.formula.notna()]))
    failed = evaluated[evaluated.error.notna()]
    lost = sorted({f"{r.family} at ({r.stages},{r.microbatches})" for r in failed.itertuples()})
    return Study(
        title=f"Rank stability: {model}, {system} scaled, transport {transport}",
        frame=frame,
        basis=Basis(
            given="the closed formulas of the literature",
            fitted="nothing; ratios that are equal tie, and times that are equal",
            open=f"without a formula and so left out beside one: {', '.join(without) or 'none'};"
            f" without a schedule or a time: {', '.join(lost) or 'none'}",
        ),
        findings=(_finding(frame),) if len(frame) else (),
        draw=lambda: _draw(frame),
        digest=_digest(frame) if len(frame) else None,
    )
