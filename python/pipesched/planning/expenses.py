"""Estimates days, money and energy of a training from its step.

Energy is the rated power of the system times the shares of it that accelerators draw while they
compute and while they wait (`power` of systems/*.json). Cooling and storage are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..costs.settings import read_system
from .request import Request

TRILLION = 10**12
_DAY_S, _HOUR_S = 86_400, 3600


@dataclass(frozen=True)
class Power:
    """Watts of an accelerator with its part of the node, by activity."""

    busy: float
    idle: float

    @staticmethod
    def of(request: Request) -> Power | None:
        """Returns the power of a system, with groups the mean; None if its file, or a group's,
        states none.
        """
        groups = request.groups
        if not groups:
            groups = ({"system": read_system(request.system, request.rates), "accelerators": 1},)
        stated = [group["system"].get("power") for group in groups]
        if not all(stated):
            return None
        parts = [group["accelerators"] / sum(g["accelerators"] for g in groups) for group in groups]
        busy, idle = (
            sum(part * each["watts"] * each[share] for part, each in zip(parts, stated))
            for share in ("busy_share", "idle_share")
        )
        return Power(busy, idle)


KEYS = ("days", "cost_dollars", "energy_kwh", "trillion_cost_dollars", "trillion_energy_kwh")


def expenses(request: Request, tokens_per_s: float | None, idle_ratio: float) -> dict[str, Any]:
    """Returns the expenses of all tokens and of 10^12; None for unknown ones."""
    found: dict[str, Any] = dict.fromkeys(KEYS)
    if not tokens_per_s:
        return found
    power = Power.of(request)
    for prefix, tokens in (("", request.total_tokens), ("trillion_", TRILLION)):
        if tokens is None:
            continue
        seconds = tokens / tokens_per_s
        if not prefix:
            found["days"] = seconds / _DAY_S
        hours = request.gpus * seconds / _HOUR_S
        if request.price is not None:
            found[f"{prefix}cost_dollars"] = hours * request.price
        if power is not None:
            watts = power.busy * (1 - idle_ratio) + power.idle * idle_ratio
            found[f"{prefix}energy_kwh"] = hours * watts / 1000
    return found


def expense_lines(request: Request) -> list[str]:
    """Returns the line with the basis of the estimate; none if it is not needed."""
    if request.total_tokens is None and request.price is None:
        return []
    power = Power.of(request)
    parts = ["days, cost and energy are estimates: no failures, no restarts, no evaluation"]
    if power is None:
        parts.append("the system states no power, so that its energy is not known")
    else:
        parts.append(
            f"an accelerator with its part of the node draws {power.busy:,.0f} W while it computes"
            f" and {power.idle:,.0f} W while it waits, without cooling"
        )
    return ["; ".join(parts)]
