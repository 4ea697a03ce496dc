"""What a study returns: a frame, the basis of its numbers, findings and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Verdict = Literal["met", "partly met", "not met"]
Pictures = Mapping[str, "Figure"]
"""Pictures by the name of their files, without ending."""


@dataclass(frozen=True)
class Check:
    """One part of a finding: its statement, whether it holds here, and the numbers for that."""

    says: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Finding:
    """A finding of the paper, by its number in docs/Paper.md, with all its checks.

    >>> Finding(1, "twice two", (Check("is four", 2 * 2 == 4, "4"),)).verdict
    'met'
    """

    number: int
    claim: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """Met if all checks hold, not met if none does, else partly met."""
        held = [check.holds for check in self.checks]
        return "met" if all(held) else "partly met" if any(held) else "not met"


@dataclass(frozen=True)
class Basis:
    """Where the numbers come from."""

    given: str
    """Stated in the publication."""

    fitted: str
    """Chosen so that the printed numbers come out."""

    open: str
    """What is not known, or not met."""


def _no_pictures() -> Pictures:
    return {}


@dataclass(frozen=True)
class Study:
    """Our numbers beside the published ones."""

    title: str
    frame: pd.DataFrame
    basis: Basis
    findings: tuple[Finding, ...] = ()
    draw: Callable[[], Pictures] = _no_pictures
    passes: tuple[str, ...] = ()
    """Command lines of `pipesched-opt` that compute the numbers, one by one."""

    digest: pd.DataFrame | None = None
    """A shorter frame for text output, if the frame is long."""


def covers(frame: pd.DataFrame, stages: Iterable[int], microbatches: Iterable[int]) -> bool:
    """Whether the frame has all sizes that a finding needs."""
    there = set(zip(frame.stages, frame.microbatches, strict=True))
    return there >= set(product(stages, microbatches))
