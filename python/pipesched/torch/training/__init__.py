"""Training a model of a file by several schedules, with measurements: `pipesched run`. `launch`
starts a process per worker on this machine; `join` is a rank that torchrun has started.
"""

from __future__ import annotations

from ._launch import RankFailed, join, launch
from ._source import Source, find, shipped
from ._trainer import Job, Outcome, placed

__all__ = ["Job", "Outcome", "RankFailed", "Source", "find", "join", "launch", "placed", "shipped"]
