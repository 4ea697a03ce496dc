"""The keys of a row for the uncertainty of its step, which are the same in all answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._order import Order

UNORDERED = {"may_be_first": None, "run_decides": None}
"""The keys of a row that is ranked with no others."""


def band_keys(band: Mapping[str, Any] | None, step_s: float) -> dict[str, Any]:
    """Keys from `Band.to_dict`, or for None of a step that does not predict a training."""
    if band is None:
        return {"expected_s": step_s, "step_low_s": None, "step_high_s": None, "band": None}
    ends = {"step_low_s": band["low_s"], "step_high_s": band["high_s"]}
    return {"expected_s": step_s * band["middle_ratio"], **ends, "band": band}


def order_keys(order: Order, step: int) -> dict[str, Any]:
    """Keys of a step by its position in an order."""
    return {"may_be_first": step in order.first, "run_decides": step in order.runs}
