"""Plans runs: searches over degrees of parallelism, schedules, placements and memory.

`request` describes the task, `candidate` one candidate and the room `space` all of them. `search`
finds the best candidates and improves their rows, and `proposals` makes proposals of them. `launch`
expresses proposals as launcher arguments, scripts and passes, `explain` as sentences and tables.
"""

from __future__ import annotations

from .candidate import Candidate, Shape
from .launch.launchers import Launcher, Launchers
from .proposals import Help, Plan, Proposal, plan
from .request import Limits, Request
from .search.optimizer import Attempt, Optimized

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
