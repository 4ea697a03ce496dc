"""Steps of experts with unbalanced rows, and steps with forced balance: one number, fitted to one
length of sequences and shown on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pandas as pd
from pipesched.paper import Basis, Study

from . import recent_runs
from .study import row as compared


def _published() -> dict[str, Any]:
    found: dict[str, Any] = recent_runs.published()["routing"]
    return found


@cache
def _step_s(sequence: int, context: int, balance: float) -> float:
    """The step of a length with this balance."""
    row = _published()["run"] | {"sequence": sequence, "context": context}
    return recent_runs.predicted(row, expert_balance=balance)


def slowdown(row: Mapping[str, Any], balance: float) -> float:
    """The predicted time of a step relative to one with even rows."""
    sequence, context = row["sequence"], row["context"]
    return _step_s(sequence, context, balance) / _step_s(sequence, context, 1.0)


def measured(row: Mapping[str, Any]) -> float:
    """The same, as measured."""
    return float(row["forced_tflops"]) / float(row["natural_tflops"])


@cache
def fitted_balance() -> float:
    """The balance, to a hundredth, with which the first row is met best: a search by halves, since
    a step grows with it.
    """
    first = _published()["rows"][0]
    low, high = 100, 300
    while high - low > 1:
        middle = (low + high) // 2
        if slowdown(first, middle / 100) < measured(first):
            low = middle
        else:
            high = middle
    return min(
        (low / 100, high / 100), key=lambda each: abs(slowdown(first, each) - measured(first))
    )


def routing() -> Study:
    """Measured and predicted slowdowns without balance.

    >>> frame = routing().frame
    >>> bool(frame.error_percent.abs().max() < 5)
    True
    """
    balance = fitted_balance()
    rows = []
    for row in _published()["rows"]:
        case = f"Qwen3 235B, {row['sequence']} tokens, context {row['context']}"
        ours = slowdown(row, balance)
        rows.append(compared("moe-zoo", case, "slowdown", measured(row), ours))
    return Study(
        title="Steps without balance of experts, in terms of those with forced balance",
        frame=pd.DataFrame(rows),
        basis=Basis(
            given="model, degrees, batch, what is recomputed; TFLOP/s with and without forced"
            " balance",
            fitted=f"rows of the fullest rank, {balance:g} times the mean, on the first row",
            open="how far training had come, which decides how uneven a router is",
        ),
    )
