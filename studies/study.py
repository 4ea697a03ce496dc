"""Code that studies share: published numbers, descriptions, and rows that compare two numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from math import nan
from pathlib import Path
from typing import Any

from pipesched import Costs

GIB = 2**30

TIE_PERCENT = 1.0
"""Measurements that are closer than this have no order."""


@cache
def data(name: str) -> dict[str, Any]:
    """Reads a file of published numbers."""
    file = Path(__file__).parent / "data" / name
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def fields(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a model or system that make another one: all but names, sources and
    fields that change under load.
    """
    return {k: v for k, v in description.items() if k not in ("aliases", "sources", "load")}


def plain_costs(**arguments: Any) -> Costs:
    """Returns costs with only the given arguments: rates of data sheets, unless the system is one
    under load, and no habits of a framework.
    """
    return Costs(framework="none", rates="data-sheet", **arguments)


def percent(ours: float, published: float) -> float:
    """Returns the error of our number relative to the published one."""
    return 100 * (ours / published - 1)


def row(
    source: str, case: str, quantity: str, published: float | None, ours: float
) -> dict[str, Any]:
    """Returns our number and the published one, which is NaN if there is none."""
    return {
        "source": source,
        "case": case,
        "quantity": quantity,
        "published": nan if published is None else published,
        "ours": ours,
        "error_percent": percent(ours, published) if published else nan,
    }


def flops_per_token(costs: Costs, *, counts_masked: bool = True) -> float:
    """Returns the FLOPs of a model for one token. PaLM's formula (arXiv 2204.02311, appendix B),
    which Llama 3 cites for its utilization, counts all scores, also scores that a causal mask
    hides.
    """
    summary = costs.model_summary()
    masked = 0.0 if counts_masked else float(summary["attention_flops_per_token"]) / 2
    return float(summary["flops_per_token"]) - masked
