"""Formulas of registered families, checked against the tables of their schedules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import PipeSchedError
from ..schedule.registry import options_for_own, own_family
from ..support.options import integer, list_of, text_of
from .configuration import Configuration

PRECISION = 1e-9
"""How far the ratio of a formula may lie from that of a table: rounding alone."""


def check_formula(
    family: str,
    *,
    workers: Sequence[int] = (2, 3, 4, 6, 8),
    microbatches: Sequence[int] = (1, 2, 4, 8, 12, 16, 24),
    **options: Any,
) -> int:
    """Compares the formula of a registered family with the table of its schedule, the idle slots of
    all slots, at all these sizes for which the family has a schedule, and returns at how many.
    Raises a PipeSchedError that names the first size at which they differ.

    >>> @register_family("one-by-one", formula=lambda workers, microbatches: 1 - 1 / workers)
    ... def one_by_one(problem):
    ...     order = [(phase, n) for n in range(problem.microbatches) for phase in "FB"]
    ...     return [[(worker, phase, n) for phase, n in order] for worker in range(problem.workers)]
    >>> check_formula("one-by-one", workers=[2, 4], microbatches=[1, 8])
    4
    """
    own = own_family(text_of("family", family))
    if own is None:
        raise PipeSchedError(
            f"{family!r} is no registered family; the formulas of families that ship are tested"
        )
    if own.formula is None:
        raise PipeSchedError(
            f"family {family!r} has no formula; register_family takes one as formula="
        )
    checked, refusal = 0, ""
    for width in list_of("workers", "[2, 4]", workers):
        for count in list_of("microbatches", "[2, 4]", microbatches):
            sizes = integer("workers", width), integer("microbatches", count)
            point = Configuration(family, *sizes, options=options_for_own(options))
            try:
                table = point.simulate().table
            except PipeSchedError as error:
                refusal = error.diagnostics[0].message
                continue
            wanted = own.bubble_ratio(*sizes, options)
            if table is None or wanted is None:
                continue
            if abs(table.bubble_ratio - wanted) > PRECISION:
                raise PipeSchedError(
                    f"the formula of family {family!r} says {wanted:.6g} for {width} workers and "
                    f"{count} microbatches; its table has {table.bubble_ratio:.6g} idle"
                )
            checked += 1
    if not checked:
        raise PipeSchedError(
            f"the formula of family {family!r} holds for none of these sizes"
            + (f": {refusal}" if refusal else "")
        )
    return checked
