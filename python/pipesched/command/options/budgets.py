"""Budgets of memory: of a worker, or of each of its accelerators."""

from __future__ import annotations

import re

from pipesched.schedule.optimize import OptimizeOptions
from pipesched.support.text import gib
from pipesched.support.units import bytes_of

_EACH = re.compile(r"(.*?)\s*/\s*(gpu|accelerator)", re.IGNORECASE)
"""A budget may say what it always is: that of each accelerator."""


def scale_to_worker(options: OptimizeOptions, accelerators: int | None) -> OptimizeOptions:
    """The options, with memory of a worker in place of that of each of its accelerators. Without a
    system a worker is one accelerator.
    """
    given = str(options.get("memory", "")).strip()
    if not given[:1].isdigit() or given.isdigit():
        return options
    each = _EACH.fullmatch(given)
    if each is None and (accelerators or 1) == 1:
        return options
    size = bytes_of("memory", each[1] if each else given)
    return {**options, "memory": f"{size * (accelerators or 1)}B"}


def budget_text(options: OptimizeOptions, accelerators: int | None) -> str:
    """The budget, and what it is that of."""
    if "memory" not in options:
        return ""
    given = str(options["memory"])
    if given.isdigit():
        return f", memory {given}"
    if not given[:1].isdigit():
        return f", memory of the {given}"
    size = bytes_of("memory", given)
    several = ""
    if accelerators is not None and accelerators > 1:
        several = f" of {accelerators} accelerators, {gib(size / accelerators)} each"
    return f", memory {gib(size)} a worker{several}"
