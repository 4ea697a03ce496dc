"""Prediction intervals from few residuals that come in groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

LEVEL = 0.8
"""The share of measured steps that a band shall contain."""

STUDENT = (
    *(3.0777, 1.8856, 1.6377, 1.5332, 1.4759, 1.4398, 1.4149, 1.3968, 1.3830, 1.3722),
    *(1.3634, 1.3562, 1.3502, 1.3450, 1.3406, 1.3368, 1.3334, 1.3304, 1.3277, 1.3253),
    *(1.3232, 1.3212, 1.3195, 1.3178, 1.3163, 1.3150, 1.3137, 1.3125, 1.3114, 1.3104),
)
"""The 90 % quantile of Student's t with 1, 2, ... degrees of freedom."""

NORMAL = 1.2816

ORDER_LEVEL = 0.95
"""The share of ranked pairs of steps that shall be in the predicted order."""

ORDER_STUDENT = (
    *(12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281),
    *(2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860),
    *(2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423),
)
"""The 97.5 % quantile."""

ORDER_NORMAL = 1.9600


def _quantile(known: Sequence[float], normal: float, degrees: float) -> float:
    whole = math.floor(degrees)
    if whole <= len(known):
        return known[max(whole, 1) - 1]
    # Beyond the table the distance of the quantile to the normal one falls as 1 / degrees.
    return normal + (known[-1] - normal) * len(known) / degrees


def student(degrees: float) -> float:
    """Returns the quantile that leaves 10 % above it, so that 80 % are between its negative and it.

    >>> student(1), round(student(60), 3), round(student(1e9), 4)
    (3.0777, 1.296, 1.2816)
    """
    return _quantile(STUDENT, NORMAL, degrees)


def order_student(degrees: float) -> float:
    """Returns the quantile that leaves 2.5 % above it, so that `ORDER_LEVEL` of the values are
    between its negative and it.

    >>> order_student(1), round(order_student(60), 2), round(order_student(1e9), 4)
    (12.7062, 2.0, 1.96)
    """
    return _quantile(ORDER_STUDENT, ORDER_NORMAL, degrees)


def interval(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Returns the interval that contains the next value with probability `LEVEL`. Values within a
    group are correlated, so each group counts as one value.

    >>> low, high = interval([[0.0], [0.1], [0.2]])
    >>> round((low + high) / 2, 9), round(high - 0.1, 4)
    (0.1, 0.2177)
    """
    count = len(groups)
    middle = sum(sum(group) / len(group) for group in groups) / count
    squares = (sum((value - middle) ** 2 for value in group) / len(group) for group in groups)
    spread = math.sqrt(sum(squares) / (count - 1))
    half = student(count - 1) * spread * math.sqrt(1 + 1 / count)
    return middle - half, middle + half


def pool(groups: Iterable[Sequence[float]]) -> tuple[float, int]:
    """Returns the standard deviation of values within their groups, and its degrees of freedom.

    >>> spread, degrees = pool([[0.0, 0.2], [1.0, 1.2], [5.0]])
    >>> round(spread, 4), degrees
    (0.1414, 2)
    """
    squares, degrees = 0.0, 0
    for group in groups:
        mean = sum(group) / len(group)
        squares += sum((value - mean) ** 2 for value in group)
        degrees += len(group) - 1
    return math.sqrt(squares / degrees) if degrees else math.nan, degrees
