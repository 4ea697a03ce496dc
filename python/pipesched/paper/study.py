"""The result of a study: a frame, the basis of its numbers, findings and pictures."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Verdict = Literal["met", "partly met", "not met"]
Pictures = Mapping[str, "Figure"]
"""Pictures by the name of their files, without ending."""


@dataclass(frozen=True)
class Check:
    """One part of a finding: its statement, whether it holds here, and its numbers."""

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
    """The origin of the numbers."""

    given: str
    """Stated in the publication."""

    fitted: str
    """Calibrated to reproduce the printed numbers."""

    open: str
    """Facts that are not known, or checks not met."""


def _no_pictures() -> Pictures:
    return {}


@dataclass(frozen=True)
class Study:
    """Our numbers next to the published ones."""

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
    """Returns whether the frame has all sizes that a finding needs."""
    there = set(zip(frame.stages, frame.microbatches, strict=True))
    return there >= set(product(stages, microbatches))


# Pictures

Ending = Literal["png", "svg"]
ENDINGS: tuple[Ending, ...] = ("png", "svg")

_STYLE: Any = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.size": 9.0,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.0,
    "savefig.dpi": 150.0,
    "svg.hashsalt": "pipesched",
}

COLORS = {
    "gpipe": "#7f7f7f",
    "1f1b": "#1f77b4",
    "chimera": "#d62728",
    "hanayo": "#2ca02c",
    "chimera-units": "#ff9896",
}
LABELS = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "chimera": "Chimera",
    "hanayo": "Hanayo, two waves",
    "chimera-units": "Chimera, in units",
}


def figure(
    rows: int, columns: int, *, width: float, height: float, sharex: bool = False
) -> tuple[Figure, list[Axes]]:
    """An empty figure of that size in inches, and its axes row by row."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    axes = made.subplots(rows, columns, squeeze=False, sharex=sharex)
    return made, [each for row in axes for each in row]


def over_microbatches(axes: Axes, microbatches: list[int]) -> None:
    """A logarithmic axis with a tick at each number of microbatches."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log", base=2)
    axes.set_xticks(microbatches, [str(n) for n in microbatches])
    axes.xaxis.set_minor_locator(NullLocator())


def _render(made: Figure, ending: Ending) -> bytes:
    buffer = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if ending == "svg" else {}
    made.savefig(buffer, format=ending, metadata=metadata)
    return buffer.getvalue()


def picture_files(draw: Callable[[], Pictures]) -> dict[str, bytes]:
    """The drawn files by name; styles that the user has set have no effect."""
    import matplotlib

    files: dict[str, bytes] = {}
    with matplotlib.rc_context(matplotlib.rcParamsDefault):
        matplotlib.rcParams.update(_STYLE)
        for name, made in draw().items():
            made.draw_without_rendering()
            made.set_layout_engine("none")  # fixes the axes, so that both files have the same
            files |= {f"{name}.{ending}": _render(made, ending) for ending in ENDINGS}
    return files
