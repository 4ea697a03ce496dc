"""What routing that nobody balances costs: rows of the fullest rank beyond the mean."""

from __future__ import annotations

from dataclasses import replace

from .costs import Costs

NATURAL_BALANCE = 1.57
"""Rows of the fullest rank divided by the mean, where a router chooses freely. Fitted to one of
four measured slowdowns of Qwen3-235B with EP 8, without and with forced balance;
`studies/routing.py` predicts the others.
"""


def with_natural_routing(costs: Costs | None) -> Costs | None:
    """The same costs with rows as routers choose; None where no ranks divide experts, where a
    balance is given, and where measured times hold whatever the balance.
    """
    if costs is None or costs.model is None or costs.system is None or costs.times is not None:
        return None
    if costs.expert_parallel == 1 or costs.expert_balance != 1:
        return None
    return replace(costs, expert_balance=NATURAL_BALANCE)
