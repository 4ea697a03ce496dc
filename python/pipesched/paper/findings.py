"""The findings of arXiv 2605.24006, each checked against our numbers."""

from __future__ import annotations

import pandas as pd

from . import setting
from .asymmetric import figure6, finding5
from .figures import figure3, figure4, figure5, finding1, finding2, finding3
from .study import Basis, Check, Finding, Study
from .table1 import finding4, table1

Ranking = tuple[tuple[str, ...], ...]
"""Schedules from best to worst; schedules with equal values share a place."""


def ranking(values: pd.Series[float]) -> Ranking:
    """The ranking of the index by the values, smallest first.

    >>> ranking(pd.Series({"gpipe": 3.0, "1f1b": 3.0, "chimera": 2.0}))
    (('chimera',), ('1f1b', 'gpipe'))
    """
    ranks = values.astype(float).round(9).rank(method="dense")
    return tuple(tuple(sorted(map(str, group.index))) for _, group in ranks.groupby(ranks))


def rankings(bubbles: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """The ranking of schedules at each size by formula, by table, and by time on each system."""
    sizes = ["stages", "microbatches"]
    columns = {}
    for level in ("formula", "table"):
        wide = bubbles.pivot(index=sizes, columns="schedule", values=f"{level}_percent")
        columns[level] = wide.apply(ranking, axis=1)
    for system, rows in steps.groupby("system", sort=False):
        wide = rows.pivot(index=sizes, columns="schedule", values="runtime_s")
        columns[str(system)] = wide.apply(ranking, axis=1)
    return pd.concat(columns, axis=1, join="inner")


def finding6(ranked: pd.DataFrame) -> Finding:
    """No ranking stays the same. Takes `rankings`."""
    systems = ranked[[column for column in ranked if column in setting.SYSTEMS]]

    def check(says: str, changes: pd.Series[bool]) -> Check:
        return Check(says, bool(changes.any()), f"at {int(changes.sum())} of {len(changes)} sizes")

    stays = ranked.nunique(axis=1) == 1
    return Finding(
        6,
        "No ranking of schedules survives a change of the level of abstraction or of the system",
        (
            check("formula and table rank differently", ranked.formula != ranked.table),
            check(
                "table and time on the baseline rank differently", ranked.table != ranked.baseline
            ),
            check("the nine systems rank differently", systems.nunique(axis=1) > 1),
            Check(
                "no ranking is the same on all levels and systems",
                not bool(stays.any()),
                f"the same at {int(stays.sum())} of {len(stays)} sizes",
            ),
        ),
    )


def all_findings() -> tuple[Finding, ...]:
    """The six findings, in order."""
    bubbles, steps, memory = figure3().frame, figure4().frame, figure5().frame
    more = figure3(microbatches=sorted(set(steps.microbatches))).frame
    return (
        finding1(steps, bubbles, memory),
        finding2(bubbles),
        finding3(steps, figure4(message_volume="fixed").frame),
        finding4(table1().frame),
        finding5(figure6().frame),
        finding6(rankings(more, steps)),
    )


def findings() -> Study:
    """Which findings are met, check by check."""
    found = all_findings()
    rows = [
        {
            "finding": finding.number,
            "verdict": finding.verdict,
            "holds": check.holds,
            "check": check.says,
            "found": check.found,
        }
        for finding in found
        for check in finding.checks
    ]
    return Study(
        title="Findings: which checks hold",
        frame=pd.DataFrame(rows),
        basis=Basis(
            given="the findings, as the paper states them",
            fitted="what table I and figures 3 to 6 are run with",
            open="where a finding names no bound, the check names ours",
        ),
        findings=found,
    )
