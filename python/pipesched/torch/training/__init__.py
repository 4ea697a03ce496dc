"""Training a model of a file by several schedules, with what was measured: `pipesched run`.

`launch` starts one process per worker on this machine; `join` is one rank of those that torchrun
has started. Both return what the schedules did. `_source` reads the model, `_trainer` trains on
each rank.
"""

from __future__ import annotations

from ._job import Job, Outcome
from ._launch import RankFailed, join, launch
from ._source import Source, find, shipped
from ._trainer import placed

__all__ = ["Job", "Outcome", "RankFailed", "Source", "find", "join", "launch", "placed", "shipped"]
