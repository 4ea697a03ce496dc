"""The exceptions of a pipeline."""

from __future__ import annotations


class PipelineError(RuntimeError):
    """A pipeline cannot be built, or cannot continue."""


class RemoteError(PipelineError):
    """Another rank failed. The text has its exception and the cell in which it happened."""

    def __init__(self, text: str, rank: int) -> None:
        super().__init__(text)
        self.rank = rank
        """The rank in the group of the pipeline that failed first."""


class PipelineTimeout(PipelineError):
    """A wait took longer than the time limit. The text has the place of every rank."""


class MemoryBudgetError(PipelineError):
    """A worker would hold more activations than its budget."""
