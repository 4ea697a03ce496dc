"""What a study returns: a frame, what stands behind it, findings and pictures."""

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
"""By the name of their files, without ending."""


@dataclass(frozen=True)
class Check:
    """One part of a finding: what it says, whether it is so here, and by which numbers."""

    says: str
    holds: bool
    found: str


@dataclass(frozen=True)
class Finding:
    """A finding of the paper, by its number in docs/Paper.md, with all that it says.

    >>> Finding(1, "twice two", (Check("is four", 2 * 2 == 4, "4"),)).verdict
    'met'
    """

    number: int
    claim: str
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """Met if all of it is so, not met if nothing is."""
        held = [check.holds for check in self.checks]
        return "met" if all(held) else "partly met" if any(held) else "not met"


@dataclass(frozen=True)
class Basis:
    """Where the numbers come from."""

    given: str
    """Stated in the publication."""

    fitted: str
    """Chosen so that its printed numbers come out."""

    open: str
    """What is not known, or not met."""


def _no_pictures() -> Pictures:
    return {}


@dataclass(frozen=True)
class Study:
    """Ours against the published numbers."""

    title: str
    frame: pd.DataFrame
    basis: Basis
    findings: tuple[Finding, ...] = ()
    draw: Callable[[], Pictures] = _no_pictures
    passes: tuple[str, ...] = ()
    """Command lines of `pipesched-opt` that make the numbers, one by one."""

    digest: pd.DataFrame | None = None
    """The same for people, where the frame is long."""


def covers(frame: pd.DataFrame, stages: Iterable[int], microbatches: Iterable[int]) -> bool:
    """Whether there are all sizes that a finding is about."""
    there = set(zip(frame.stages, frame.microbatches, strict=True))
    return there >= set(product(stages, microbatches))
