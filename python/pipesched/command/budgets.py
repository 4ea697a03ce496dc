"""Budgets of memory: of a worker, or of each of its accelerators."""

from __future__ import annotations

import re

from pipesched._errors import Diagnostic
from pipesched._optimize import OptimizeOptions
from pipesched._text import gib
from pipesched.planning._request import bytes_of

from .arguments import UsageError

_EACH = re.compile(r"(.*?)\s*/\s*(gpu|accelerator)", re.IGNORECASE)


def of_worker(options: OptimizeOptions, accelerators: int | None) -> OptimizeOptions:
    """The options, with memory of a worker in place of that of each of its accelerators."""
    each = _EACH.fullmatch(str(options.get("memory", "")).strip())
    if each is None:
        return options
    if accelerators is None:
        raise UsageError(
            f"--memory {options['memory']}: without a system it is not known how many accelerators"
            " a worker has; give the memory of a worker"
        )
    return {**options, "memory": f"{bytes_of('memory', each[1]) * accelerators}B"}


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


def of_each_text(memory: str | None, accelerators: int | None) -> list[Diagnostic]:
    """A note that a budget is that of a worker, where it may have been meant for accelerators."""
    given = (memory or "").strip()
    if not given[:1].isdigit() or given.isdigit() or _EACH.fullmatch(given):
        return []
    if accelerators is None or accelerators == 1:
        return []
    size = bytes_of("memory", given)
    message = (
        f"--memory {given} is that of a worker, {gib(size / accelerators)} for each of its"
        f" {accelerators} accelerators; {given}/GPU is that of each"
    )
    return [Diagnostic("note", message)]
