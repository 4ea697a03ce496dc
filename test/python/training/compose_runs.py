"""Jobs of pipelines side by side, along a second dimension of a device mesh."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime_runs import Job, Result


@dataclass(frozen=True)
class Beside(Job):
    """A job in several pipelines, each with separate batches."""

    how: str = "plain"
    """How pipelines are put together: plain, DDP around stages, or fully_shard around blocks,
    stages or both, over one dimension or two (hsdp)."""
    pipelines: int = 2

    @property
    def ranks(self) -> int:
        return self.pipelines * self.schedule.workers


@dataclass
class Found(Result):
    """With the messages of the runs to other ranks, and their buffers."""

    calls: dict[str, int] = field(default_factory=dict)
    """Collectives by name."""
    buffers: dict[str, list[float]] = field(default_factory=dict)
    """By number of the block and name, after the first step."""
