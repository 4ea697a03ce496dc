"""Figures, drawn without a display; the same numbers give the same bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from .study import Pictures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
