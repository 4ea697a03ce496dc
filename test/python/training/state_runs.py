"""Jobs that save with one placement and load with another."""

from __future__ import annotations

from dataclasses import dataclass

from pipesched import Schedule


@dataclass(frozen=True)
class Part:
    """A model of four blocks in one pipeline, or in several side by side."""

    schedule: Schedule
    sizes: tuple[int, ...] | None = None
    steps_inside: bool = False
    how: str = ""
    """How pipelines are put together, as in `compose_runs.Beside`; empty for a single one."""


@dataclass(frozen=True)
class Saved:
    """Two steps with one placement and two more with another; None means the unpipelined model."""

    name: str
    first: Part | None
    second: Part | None
    model: str = "plain"
    by_hand: bool = False
    """Whether states are put together by hand, without files."""
    pipelines: int = 1

    @property
    def ranks(self) -> int:
        return 4
