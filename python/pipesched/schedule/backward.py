"""The time of B beside that of F, on which the order of `vocab-1f1b` depends: its option
`backward`.
"""

from __future__ import annotations

from functools import cache

from .. import _core
from .program import COSTED_PHASES
from .registry import key_of

UNIT = 200
"""That of unit slots, which an order is made for if nothing says another."""

MOST = 10000
"""The longest B that an order is made for, in percent of F."""

MOST_AT_ARRIVAL = 199
"""The longest B that costs choose an order for where receives stand at arrival."""


@cache
def takes_backward(family: str) -> bool:
    """Whether a family that ships has the option."""
    shipped = ((name, options) for name, *_, options in _core.families())
    return any("backward" in options for name, options in shipped if key_of(name) == key_of(family))


def backward_of(step: _core.Evaluation) -> int | None:
    """The time of B in percent of that of F, in the median of the workers, from a step with one of
    each on every worker; None if an F takes no time.
    """
    import numpy as np

    cells = step.cells()
    names, took = np.array(COSTED_PHASES)[cells["phase"]], cells["end_ps"] - cells["start_ps"]
    forward, backward = (
        took[names == phase][np.argsort(cells["worker"][names == phase])] for phase in "FB"
    )
    if not forward.all():
        return None
    return int(np.clip(round(100 * float(np.median(backward / forward))), 1, MOST))
