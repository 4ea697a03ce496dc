"""The jobs of `part_ranks.py`, and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipesched import Schedule
from pipesched.torch.parts import Noted


@dataclass(frozen=True)
class PartJob:
    """A schedule, and the settings of its layers."""

    name: str
    schedule: Schedule
    layers: int = 4
    peers: int = 2
    """Pipelines that share the experts."""
    options: dict[str, Any] = field(default_factory=dict)
    how: str = "parts"
    """parts, whole (layers that do not say their parts), spied (layers that report their runs), or
    silent (a rank that gets no rows).
    """

    averages: bool = False
    """Whether the runtime averages gradients over the pipelines, and knows which are of experts."""

    @property
    def ranks(self) -> int:
        return self.schedule.workers * self.peers


@dataclass
class PartResult:
    """The largest relative errors, and the parts that ran in the last step."""

    loss: float = 0.0
    gradients: float = 0.0
    norm: float = 0.0
    """The relative error of the norm of all gradients."""
    experts: int = 0
    """The number of compared parameters of experts."""
    before: dict[str, Any] = field(default_factory=dict)
    """The expected gradients of the steps so far."""
    notes: list[Noted] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    """The records of the exchanges and the layers themselves."""
