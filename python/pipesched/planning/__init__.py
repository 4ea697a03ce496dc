"""What to run: a search over degrees of parallelism, schedules, placements and memory.

`_request` says what is to be planned, `_space` what there is to choose from, `_search`
finds the best of it, `_optimized` makes better rows for the best, `_plan` makes proposals,
`_passes`, `_launchers` and `_why` put them into words.
"""

from __future__ import annotations

from ._launchers import Launcher, Launchers
from ._optimized import Attempt, Optimized
from ._plan import Help, Plan, Proposal, plan
from ._request import Limits, Request
from ._space import Candidate, Shape

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
