"""Plans what to run: searches over degrees of parallelism, schedules, placements and memory.

`_request` describes the task, `_candidate` one candidate and `_space` all of them. `_search` finds
the best candidates, `_optimized` improves their rows, and `_plan` makes proposals of them.
`_passes`, `_launchers` and `_why` express proposals as passes, launcher arguments and sentences.
"""

from __future__ import annotations

from ._candidate import Candidate, Shape
from ._optimized import Attempt, Optimized
from ._plan import Help, Plan, Proposal, plan
from .launchers import Launcher, Launchers
from .request import Limits, Request

__all__ = [
    "Attempt",
    "Candidate",
    "Help",
    "Launcher",
    "Launchers",
    "Limits",
    "Optimized",
    "Plan",
    "Proposal",
    "Request",
    "Shape",
    "plan",
]
